"""The part of a copy that lies in object storage: that it is there still."""

from __future__ import annotations

import time
from collections.abc import Container

from diskstream.cold_segments import segments_of
from diskstream.errors import RemoteError, quoted
from diskstream.ids import EntryID
from diskstream.objects import Place
from diskstream.plurals import number_of
from diskstream.stream import Stream

__all__ = ["ColdParts", "check_cold_parts"]

_SURE_S = 30.0  # an object is asked for again: each round may trim a little of what it holds


def check_cold_parts(copy: Stream, first: EntryID, last: EntryID, known: Container[str] = ()) -> list[str]:
    """Makes sure that object storage has what of a range of a copy lies there, as far as it says without being read.

    A cache that has it all would say so of a storage that has lost it: then the source has the only other copy.

    Args:
        copy: the copy.
        first, last: IDs, both included.
        known: paths of objects that are not asked for.

    Returns:
        The paths of those that were.

    Raises:
        RemoteError: a storage does not answer, or an object is gone, or not as long as it was.
    """
    places: dict[str, Place] = {}
    asked: list[str] = []
    for segment in segments_of(copy) if copy.exists() else ():
        stub = segment.stub
        if stub is None or segment.where != "cold" or segment.last < first or segment.first > last:
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
