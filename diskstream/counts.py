"""Counts as Redis takes them."""

from diskstream.errors import ArgumentError, ArgumentTypeError

__all__ = ["check_count"]

_MAX_COUNT = 2**63 - 1


_WORDS = "value is not an integer or out of range"


def check_count(name: str, value: object, words: str = _WORDS) -> int:
    """A count as Redis takes it; `words` are those of its error.

    Raises:
        ArgumentTypeError: not an int.
        ArgumentError: out of range.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise ArgumentTypeError(f"{words}: {name} is {value!r}")
    if not -_MAX_COUNT <= value <= _MAX_COUNT:
        raise ArgumentError(f"{words}: {name} is {value}")
    return value
