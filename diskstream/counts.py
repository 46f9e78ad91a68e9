"""Counts as Redis takes them."""

from diskstream.errors import ArgumentError, ArgumentTypeError

__all__ = ["check_count"]

_MAX_COUNT = 2**63 - 1


def check_count(name: str, value: object) -> int:
    """A count as Redis takes it.

    Raises:
        ArgumentTypeError: not an int.
        ArgumentError: out of range.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise ArgumentTypeError(f"value is not an integer or out of range: {name} is {value!r}")
    if not -_MAX_COUNT <= value <= _MAX_COUNT:
        raise ArgumentError(f"value is not an integer or out of range: {name} is {value}")
    return value
