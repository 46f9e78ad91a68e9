"""Which entries are wanted: conditions on the values of their fields."""

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final

from diskstream import Entry
from diskstream.errors import ArgumentError

__all__ = ["MAX_CONDITIONS", "MAX_PATTERN", "MAX_SEARCHED_BYTES", "Condition", "parse_condition"]

MAX_CONDITIONS: Final = 64
# An expression is searched for in so much of a value, and is of a kind whose search cannot take for ever: it has no
# repetition within a repetition, and few of them.
MAX_SEARCHED_BYTES: Final = 4096
MAX_PATTERN: Final = 1000
_MAX_REPETITIONS: Final = 4

_SPLIT: Final = re.compile(rb"(.+?)(!=|>=|<=|!~|=|~|>|<)(.*)", re.DOTALL)
_NUMBERS: Final[dict[bytes, Callable[[Decimal, Decimal], bool]]] = {
    b">": operator.gt,
    b">=": operator.ge,
    b"<": operator.lt,
    b"<=": operator.le,
}
_NUMBER: Final = re.compile(rb"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
# What a regular expression consists of, as far as repeating goes.
_TOKEN: Final = re.compile(
    rb"""
      (?P<refused> \\[1-9] | \(\?(?:[=!] | <[=!] | P= | \( | [a-zA-Z]*x) )
    | (?P<escape> \\. )
    | (?P<set> \[\^?\]?(?:\\.|[^\]\\])*\] )
    | (?P<open> \((?:\?P?)? )
    | (?P<close> \) )
    | (?P<alternative> \| )
    | (?P<repeat> (?:[*+?] | \{(?:\d+(?:,\d*)?|,\d*)\})[?+]? )
    | (?P<one> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_MAX_NUMBER_BYTES: Final = 64


@dataclass(frozen=True)
class Condition:
    """A condition on a field. An entry that has the name more than once meets it if one of the values does.

    Attributes:
        text: as it was given.
        field: the field's name.
        meets: whether a value meets it.
        negated: whether none of the values may, and an entry without the field is wanted.
    """

    text: str
    field: bytes
    meets: Callable[[bytes], bool]
    negated: bool = False

    def __call__(self, entry: Entry) -> bool:
        """Whether an entry is wanted."""
        return any(name == self.field and self.meets(value) for name, value in entry.pairs) != self.negated


def parse_condition(given: bytes | str) -> Condition:
    """``field=value``, ``!=``; ``~`` and ``!~`` (an expression found in the value); ``>``, ``>=``, ``<``, ``<=``.

    Numbers are compared as numbers; a value that is none does not meet such a condition.

    Raises:
        ArgumentError: no such condition, no number, or an expression that cannot be used.
    """
    raw = given.encode("utf-8", "surrogateescape") if isinstance(given, str) else given
    shown = raw.decode("utf-8", "backslashreplace")
    match = _SPLIT.fullmatch(raw)
    if match is None:
        raise ArgumentError(f"{shown!r} is no condition: field=value, field~regex, field>number and the like")
    field, sign, value = match[1], match[2], match[3]
    if sign in _NUMBERS:
        return Condition(shown, field, _compared(_NUMBERS[sign], value, shown))
    meets = _found(value, shown) if sign.endswith(b"~") else value.__eq__
    return Condition(shown, field, meets, negated=sign.startswith(b"!"))


def _number(value: bytes) -> Decimal | None:
    """Exactly: of neighbours beyond 2^53, as IDs and nanoseconds are, a float knows every second one, or fewer."""
    if len(value) > _MAX_NUMBER_BYTES or _NUMBER.fullmatch(value) is None:
        return None
    try:
        return Decimal(value.decode().strip())
    except InvalidOperation:  # an exponent beyond all reason
        return None


def _compared(compare: Callable[[Decimal, Decimal], bool], given: bytes, shown: str) -> Callable[[bytes], bool]:
    bound = _number(given)
    if bound is None:
        raise ArgumentError(f"{shown!r} compares with what is no number")

    def meets(value: bytes) -> bool:
        number = _number(value)
        return number is not None and compare(number, bound)

    return meets


def _found(pattern: bytes, shown: str) -> Callable[[bytes], bool]:
    if len(pattern) > MAX_PATTERN:
        raise ArgumentError(f"an expression has {MAX_PATTERN} bytes at most, not {len(pattern)}")
    try:
        compiled = re.compile(pattern, re.DOTALL)
    except (re.error, OverflowError, RecursionError) as error:
        raise ArgumentError(f"{shown!r}: no regular expression: {error}") from None
    _check_bounded(pattern, shown)
    return lambda value: compiled.search(value, 0, MAX_SEARCHED_BYTES) is not None


def _check_bounded(pattern: bytes, shown: str) -> None:
    """Refuses expressions whose search may take for ever: repetitions of what repeats, or of alternatives.

    Raises:
        ArgumentError: it is one, or looks elsewhere.
    """
    within = [False]  # for each open group, whether something in it repeats, or is one of several
    repetitions, before = 0, False
    for token in _TOKEN.finditer(pattern):
        kind, inner = token.lastgroup, False
        if kind == "refused":
            raise ArgumentError(f"{shown!r}: an expression must not look ahead, behind or back, nor be verbose")
        if kind == "open":
            within.append(False)
        elif kind == "close":
            inner = within.pop()
            within[-1] = within[-1] or inner
        elif kind == "alternative":
            within[-1] = True
        elif kind == "repeat":
            within[-1] = True
            if token[0][:1] != b"?":
                repetitions += 1
                if before:
                    raise ArgumentError(f"{shown!r}: an expression must not repeat what repeats, or alternatives")
        before = inner
    if repetitions > _MAX_REPETITIONS:
        raise ArgumentError(f"{shown!r}: an expression has {_MAX_REPETITIONS} repetitions at most, not {repetitions}")
