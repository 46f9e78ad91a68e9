"""The sealed parts of a copy, on disk and in object storage: that they are there still."""

from __future__ import annotations

import time
from collections.abc import Container

from diskstream.cold_segments import HERE, MISSING, ROWS, STUB, Kept, segments_of
from diskstream.errors import ChangedError, RemoteError, quoted
from diskstream.ids import EntryID
from diskstream.objects import Place
from diskstream.plurals import number_of
from diskstream.stream import Stream

__all__ = ["ColdParts", "check_cold_parts"]

_SURE_S = 30.0  # an object is asked for again: each round may trim a little of what it holds


def check_cold_parts(copy: Stream, first: EntryID, last: EntryID, known: Container[str] = ()) -> list[str]:
    """Makes sure that disk and object storage have what of a range of a copy is sealed; nothing is read.

    A cache that has it all would say so of a storage that has lost it: then the source has the only other copy.

    Args:
        copy: the copy.
        first, last: IDs, both included.
        known: paths of objects that are not asked for.

    Returns:
        The paths of those that were.

    Raises:
        ChangedError: a sealed file was removed from the disk: who has it open reads it still.
        RemoteError: a storage does not answer, or an object is gone, or not as long as it was.
    """
    segments = _overlapping(copy, first, last)
    gone = _missing(segments)
    if gone and (gone := gone & _missing(_overlapping(copy, first, last))):  # else it was sealed, or merged, just then
        raise ChangedError(
            f"the copy of {quoted(copy.name)}",
            f"its {min(gone)}, is gone or cannot be read, and the source has some of it still: nothing was trimmed",
            "bring its file back, as from a backup; diskstream verify says what else is missing",
        )
    places: dict[str, Place] = {}
    asked: list[str] = []
    for segment in segments:
        stub = segment.stub
        if stub is None or segment.where != STUB:
            continue
        if stub.path in known:
            continue
        place = places.setdefault(stub.url, Place(stub.url))
        place.check_folder(stub.path.partition("/")[0])
        found = place.size(stub.path)
        asked.append(stub.path)
        if found == stub.size_bytes:
            continue
        what = "is not there" if found is None else f"has {number_of(found, 'byte')}, and had {stub.size_bytes:,}"
        raise RemoteError(
            place.url,
            f"{stub.path} {what}: it holds entries {segment.first} to {segment.last} of the copy of "
            f"{quoted(copy.name)}, and the source has some of them still, so nothing was trimmed",
            "bring the object back; diskstream verify --cold says what else is missing",
        )
    return asked


def _overlapping(copy: Stream, first: EntryID, last: EntryID) -> list[Kept]:
    segments = segments_of(copy) if copy.exists() else []
    return [each for each in segments if each.first <= last and each.last >= first]


def _missing(segments: list[Kept]) -> set[str]:
    """Those that have entries, and neither a file nor a stub."""
    return {
        f"segment {each.number}, entries {each.first} to {each.last}"
        for each in segments
        if each.live and not each.size_bytes and each.where in (HERE, MISSING, ROWS)
    }


class ColdParts:
    """The same of a copy that is trimmed again and again while parts of it are moved: before each of these trims."""

    def __init__(self, copy: Stream) -> None:
        """Nothing was looked at yet.

        Args:
            copy: the copy.
        """
        self._copy = copy
        self._known: dict[str, float] = {}

    def check(self, first: EntryID, last: EntryID) -> None:
        """`check_cold_parts`, where what was there a moment ago is taken to be there still.

        Raises:
            RemoteError: as there.
        """
        now = time.monotonic()
        self._known = {path: until for path, until in self._known.items() if until > now}
        asked = check_cold_parts(self._copy, first, last, self._known)
        self._known.update(dict.fromkeys(asked, now + _SURE_S))
