"""The words of a command as numbers and options, with Redis's errors."""

import re

from diskstream.commands.failures import SYNTAX, c_text
from diskstream.commands.replies import Failure

__all__ = ["INT_MAX", "INT_MIN", "NOT_AN_INTEGER", "Words", "as_int", "as_small_int", "c_text"]

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


def as_small_int(word: bytes, error: str = "") -> int:
    """A whole number of 32 bits.

    Raises:
        Failure: it is none, or out of range; with the text `error`, or else with that of what is wrong.
    """
    least, most = -(2**31), 2**31 - 1
    value = as_int(word, error or NOT_AN_INTEGER)
    if not least <= value <= most:
        raise Failure(error or f"ERR value is out of range, value must between {least} and {most}")
    return value


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
        return c_text(self.words[self.at]).upper() if self else b""

    def take(self) -> bytes:
        """The next word.

        Raises:
            Failure: there is none.
        """
        if not self:
            raise Failure(SYNTAX)
        self.at += 1
        return self.words[self.at - 1]

    def take_option(self) -> bytes:
        """The next word in upper case.

        Raises:
            Failure: there is none.
        """
        return c_text(self.take()).upper()

    def take_int(self, error: str = NOT_AN_INTEGER, *, least: int = INT_MIN, most: int = INT_MAX) -> int:
        """The next word as a number: see `as_int`."""
        return as_int(self.take(), error, least=least, most=most)

    def rest(self) -> list[bytes]:
        """All words that are left."""
        found = self.words[self.at :]
        self.at = len(self.words)
        return found
