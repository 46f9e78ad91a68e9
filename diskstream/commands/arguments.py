"""The words of a command as numbers, IDs and options, with Redis's errors."""

import re

from diskstream._native import EntryID
from diskstream.commands.failures import BAD_ID, SYNTAX
from diskstream.commands.replies import Failure
from diskstream.errors import InvalidIDError
from diskstream.ids import parse_id

__all__ = ["INT_MAX", "INT_MIN", "NOT_AN_INTEGER", "Words", "as_id", "as_int"]

INT_MIN, INT_MAX = -(2**63), 2**63 - 1
NOT_AN_INTEGER = "ERR value is not an integer or out of range"
# As Redis's string2ll takes it: no sign but a minus, no leading zeros, no blanks.
_INT = re.compile(rb"0|-?[1-9][0-9]{0,18}")


def as_int(word: bytes, error: str = NOT_AN_INTEGER, *, least: int = INT_MIN, most: int = INT_MAX) -> int:
    """A whole number of 64 bits.

    Raises:
        Failure: it is none, or out of range; with the text `error`.
    """
    if not _INT.fullmatch(word) or not least <= (value := int(word)) <= most:
        raise Failure(error)
    return value


def as_id(word: bytes) -> EntryID:
    """A whole ID; a missing sequence number is 0.

    Raises:
        Failure: it is none.
    """
    try:
        return parse_id(word)
    except InvalidIDError:
        raise Failure(BAD_ID) from None


class Words:
    """The words of a command, taken one after the other."""

    def __init__(self, words: list[bytes], at: int = 1) -> None:
        self.words, self.at = words, at

    def __bool__(self) -> bool:
        return self.at < len(self.words)

    @property
    def left(self) -> int:
        """How many there are still."""
        return len(self.words) - self.at

    def option(self) -> bytes:
        """The next word in upper case, without taking it; empty at the end."""
        return self.words[self.at].upper() if self else b""

    def take(self) -> bytes:
        """The next word.

        Raises:
            Failure: there is none.
        """
        if not self:
            raise Failure(SYNTAX)
        self.at += 1
        return self.words[self.at - 1]

    def take_int(self, error: str = NOT_AN_INTEGER, *, least: int = INT_MIN, most: int = INT_MAX) -> int:
        """The next word as a number: see `as_int`."""
        return as_int(self.take(), error, least=least, most=most)

    def rest(self) -> list[bytes]:
        """All words that are left."""
        found = self.words[self.at :]
        self.at = len(self.words)
        return found
