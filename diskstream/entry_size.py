"""How large an entry may be, and what is stored of its names and values, for those who make entries."""

from typing import Any

from diskstream._native import MAX_ENTRY_BYTES, check_rows

__all__ = ["MAX_ENTRY_BYTES", "check_rows", "stored", "stored_name"]


def stored(value: Any) -> bytes:
    """The bytes that are stored of a name or value that can be one."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    # The number itself, not what a subclass prints (NumPy's float64, an IntEnum).
    return (int if isinstance(value, int) else float).__repr__(value).encode()


def stored_name(name: Any) -> bytes:
    """The same of a field's name that is asked for: who adds under the name 5 finds it under 5.

    Raises:
        ArgumentError, ArgumentTypeError: it is no name.
    """
    check_rows([[(name, b"")]])
    return stored(name)
