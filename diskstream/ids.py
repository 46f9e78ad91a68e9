"""IDs as Redis writes them: ``ms-seq``, incomplete, exclusive, and the special ones of ranges."""

from diskstream._native import EntryID
from diskstream.errors import ArgumentError, InvalidIDError

__all__ = [
    "MAX_ID",
    "MIN_ID",
    "AddID",
    "EntryID",
    "IDLike",
    "check_not_reversed",
    "parse_add_id",
    "parse_end",
    "parse_id",
    "parse_start",
]

MIN_ID = EntryID(0, 0)
MAX_ID = EntryID(2**64 - 1, 2**64 - 1)


IDLike = EntryID | str | bytes | int | tuple[int, int]

# What `add` is told: (an ID, None), (None, milliseconds), or (None, None) for an automatic one.
AddID = tuple[EntryID | None, int | None]

_AUTO = ("*", b"*")


def _text(given: object) -> str | None:
    if isinstance(given, str):
        return given
    if isinstance(given, bytes):
        return given.decode("latin-1")
    return None


def parse_id(given: IDLike, *, missing_seq: int = 0) -> EntryID:
    """A single ID; a missing sequence is `missing_seq`.

    Raises:
        InvalidIDError: `given` is no ID.
    """
    if isinstance(given, EntryID):
        return given
    text = _text(given)
    if text is None:
        if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < 2**64:
            return EntryID(given, missing_seq)
        return EntryID(given)
    if missing_seq and "-" not in text:
        return EntryID(EntryID(text).ms, missing_seq)
    return EntryID(text)


def parse_add_id(given: IDLike) -> AddID:
    """The ID of a new entry: ``*``, ``ms-*``, ``ms`` (sequence 0) or a whole one.

    Raises:
        InvalidIDError: none of these.
    """
    if given in _AUTO:
        return None, None
    text = _text(given)
    if text is not None and text.endswith("-*"):
        ms = text[:-2]
        if "-" in ms:
            raise InvalidIDError(repr(given))
        return None, EntryID(ms).ms
    return parse_id(given), None


def parse_start(given: IDLike) -> EntryID:
    """The lower end of a range: ``-``, ``+``, an ID (sequence 0 where it is missing), or ``(`` and an ID.

    Raises:
        InvalidIDError: none of these.
        ArgumentError: ``(`` before the greatest ID.
    """
    text = _text(given)
    if text == "-":
        return MIN_ID
    if text == "+":
        return MAX_ID
    if text is not None and text.startswith("("):
        after = parse_id(text[1:]).next()
        if after is None:
            raise ArgumentError("invalid start ID for the interval")
        return after
    return parse_id(given)


def parse_end(given: IDLike) -> EntryID:
    """The upper end of a range: as `parse_start`, but a missing sequence is the greatest one.

    Raises:
        InvalidIDError: none of these.
        ArgumentError: ``(`` before ``0-0``.
    """
    text = _text(given)
    if text == "-":
        return MIN_ID
    if text == "+":
        return MAX_ID
    if text is not None and text.startswith("("):
        before = parse_id(text[1:], missing_seq=2**64 - 1).prev()
        if before is None:
            raise ArgumentError("invalid end ID for the interval")
        return before
    return parse_id(given, missing_seq=2**64 - 1)


def check_not_reversed(start: EntryID, end: EntryID) -> None:
    """That a range has its lower bound first. One that has just nothing left is no mistake: paging comes to it.

    Raises:
        ArgumentError: it is reversed.
    """
    behind = end.next() or end  # of `(5-0` to `(5-0` it lies between the two
    if start > (behind.next() or behind):
        raise ArgumentError(
            f"the range is reversed, and so is empty: {start} lies above {end}; give the lower bound first"
        )
