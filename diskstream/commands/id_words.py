"""IDs among the words of a command, as Redis reads them: the text of a C string, its numbers by strtoull."""

import re

from diskstream._native import EntryID
from diskstream.commands.arguments import c_text
from diskstream.commands.failures import BAD_ID
from diskstream.commands.replies import Failure
from diskstream.errors import InvalidIDError
from diskstream.ids import MAX_ID, MIN_ID

__all__ = ["as_add_id", "as_end", "as_id", "as_id_or_bound", "as_start"]

_MAX_BYTES = 127
_MAX_NUMBER = 2**64 - 1
# What strtoull takes: blanks and a sign before the digits.
_NUMBER = re.compile(rb"[ \t\n\v\f\r]*([+-]?)([0-9]+)")
# Below zero, as string2ll reads it before strtoull is asked; that one lets a number wrap around instead.
_NEGATIVE = re.compile(rb"-[1-9][0-9]{0,18}")


def as_id(word: bytes) -> EntryID:
    """A whole ID; a missing sequence number is 0.

    Raises:
        Failure: it is none.
    """
    return _parsed(word, 0)


def as_id_or_bound(word: bytes) -> EntryID:
    """The same, or the least ID as ``-``, or the greatest as ``+``.

    Raises:
        Failure: it is neither.
    """
    return _parsed_or_bound(word, 0)


def as_add_id(word: bytes) -> EntryID | bytes:
    """The ID of a new entry: a whole one, or ``*``, or ``ms-*``.

    Raises:
        Failure: it is none of these.
    """
    text = c_text(word)
    if text == b"*":
        return text
    if len(word) <= _MAX_BYTES and text.endswith(b"-*"):
        return b"%d-*" % _number(text[:-2])
    return _parsed(word, 0)


def as_start(word: bytes) -> EntryID:
    """The lower end of a range: ``-``, ``+``, an ID, or one behind ``(``.

    Raises:
        Failure: it is none.
    """
    if not _is_exclusive(word):
        return _parsed_or_bound(word, 0)
    after = _parsed(word[1:], 0).next()
    if after is None:
        raise Failure("ERR invalid start ID for the interval")
    return after


def as_end(word: bytes) -> EntryID:
    """The upper end of a range: as `as_start`, but a missing sequence number is the greatest.

    Raises:
        Failure: it is none.
    """
    if not _is_exclusive(word):
        return _parsed_or_bound(word, _MAX_NUMBER)
    before = _parsed(word[1:], _MAX_NUMBER).prev()
    if before is None:
        raise Failure("ERR invalid end ID for the interval")
    return before


def _is_exclusive(word: bytes) -> bool:
    return word[:1] == b"(" and len(word) > 1


def _parsed_or_bound(word: bytes, missing: int) -> EntryID:
    if len(word) <= _MAX_BYTES and (text := c_text(word)) in (b"-", b"+"):
        return MIN_ID if text == b"-" else MAX_ID
    return _parsed(word, missing)


def _parsed(word: bytes, missing: int) -> EntryID:
    if len(word) > _MAX_BYTES:
        raise Failure(BAD_ID)
    ms, dash, seq = c_text(word).partition(b"-")
    if ms.isdigit() and seq.isdigit():  # as nearly all are
        try:
            return EntryID(word.decode("ascii"))
        except (InvalidIDError, UnicodeDecodeError):
            pass  # with a NUL behind it, or too large a number
    return EntryID(_number(ms), _number(seq) if dash else missing)


def _number(text: bytes) -> int:
    found = _NUMBER.fullmatch(text)
    value = int(found[2]) if found else _MAX_NUMBER + 1
    if found is None or value > _MAX_NUMBER:
        raise Failure(BAD_ID)
    if found[1] != b"-":
        return value
    if value <= 2**63 and _NEGATIVE.fullmatch(text):
        raise Failure(BAD_ID)
    return -value % 2**64
