"""Counts, and times to wait, as Redis takes them."""

from diskstream.arguments import is_number
from diskstream.errors import ArgumentError, ArgumentTypeError

__all__ = ["block_of", "check_block", "check_count"]

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


def check_block(block: float | None) -> None:
    """Looks at the seconds of a call that may wait.

    Raises:
        ArgumentError: they are no number, or negative.
    """
    if block is None:
        return
    _check_seconds(block)
    if block < 0:
        raise ArgumentError("timeout is negative")


def block_of(timeout_s: float | None) -> float | None:
    """A timeout in seconds as reads take it: None, which is for ever, is 0 to them, and not at all is None.

    Raises:
        ArgumentError: it is no number.
    """
    if timeout_s is None:
        return 0
    _check_seconds(timeout_s)
    return timeout_s if timeout_s > 0 else None


def _check_seconds(given: object) -> None:
    if not is_number(given):
        raise ArgumentError("timeout is not an integer or out of range")
