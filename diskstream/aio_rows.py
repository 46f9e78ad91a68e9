"""Fields on their way to a thread, which packs them later: the task that gave them may use what held them again."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from diskstream.stream import Fields

__all__ = ["as_of_now", "rows_as_of_now"]

_FIXED: Final = frozenset((bytes, str, int, float))


def as_of_now(fields: Fields) -> Fields:
    """The fields of an entry as they are, whatever becomes of their mapping and buffers; they can be read twice.

    What is no entry stays what it is, for whoever refuses it.
    """
    if isinstance(fields, dict) and _FIXED.issuperset(map(type, fields.values())):
        return list(fields.items())  # keys can be hashed: they are no buffers that change
    pairs: Any = fields.items() if hasattr(fields, "items") else fields
    return [_pair(item) for item in pairs] if isinstance(pairs, Iterable) else fields


def rows_as_of_now(rows: Iterable[Fields]) -> Iterable[Fields]:
    """The same for those of several entries. What makes them one by one is left to the thread: it may take long."""
    return rows if isinstance(rows, Iterator) else [as_of_now(row) for row in rows]


def _pair(item: Any) -> Any:
    return tuple(map(_value, item)) if isinstance(item, tuple | list) else item


def _value(value: Any) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    return value.tobytes() if isinstance(value, memoryview) else value
