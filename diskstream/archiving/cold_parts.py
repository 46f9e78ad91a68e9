"""The part of a copy that lies in object storage: that it is there still."""

from __future__ import annotations

from diskstream.cold_segments import segments_of
from diskstream.errors import RemoteError, quoted
from diskstream.ids import EntryID
from diskstream.objects import Place
from diskstream.plurals import number_of
from diskstream.stream import Stream

__all__ = ["check_cold_parts"]


def check_cold_parts(copy: Stream, first: EntryID, last: EntryID) -> None:
    """Makes sure that object storage has what of a range of a copy lies there, as far as it says without being read.

    A cache that has it all would say so of a storage that has lost it: then the source has the only other copy.

    Args:
        copy: the copy.
        first, last: IDs, both included.

    Raises:
        RemoteError: a storage does not answer, or an object is gone, or not as long as it was.
    """
    places: dict[str, Place] = {}
    for segment in segments_of(copy) if copy.exists() else ():
        stub = segment.stub
        if stub is None or segment.where != "cold" or segment.last < first or segment.first > last:
            continue
        place = places.setdefault(stub.url, Place(stub.url))
        place.check_folder(stub.path.partition("/")[0])
        found = place.size(stub.path)
        if found == stub.size_bytes:
            continue
        what = "is not there" if found is None else f"has {number_of(found, 'byte')}, and had {stub.size_bytes:,}"
        raise RemoteError(
            place.url,
            f"{stub.path} {what}: it holds entries {segment.first} to {segment.last} of the copy of "
            f"{quoted(copy.name)}, and the source has some of them still, so nothing was trimmed",
            "bring the object back; diskstream verify --cold says what else is missing",
        )
