"""What is where: as the streams of a store have it, and as the catalogue of a place says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from diskstream.cold import catalogue
from diskstream.cold_segments import Kept, segments_of, uuid_of
from diskstream.errors import NoSuchStreamError
from diskstream.ids import EntryID
from diskstream.objects import Place
from diskstream.store import Store
from diskstream.store_files import store_uuid
from diskstream.stream import Stream

__all__ = ["Line", "catalogued", "local"]


@dataclass(frozen=True)
class Line:
    """One segment.

    Attributes:
        stream: the stream's name.
        number, generation: the segment's.
        where: ``here``, ``rows``, ``cold``, ``missing`` or ``unneeded``.
        entries, first, last: what is in it, gone entries included.
        size_bytes: of its file or object; 0 where that is not known.
        url, path: the place and the object, where there is one.
    """

    stream: bytes
    number: int
    generation: int
    where: str
    entries: int
    first: EntryID
    last: EntryID
    size_bytes: int
    url: str = ""
    path: str = ""


def local(streams: Iterable[Stream]) -> Iterator[Line]:
    """The sealed and rolled segments of streams, in order. No storage is asked."""
    for stream in streams:
        for each in _segments(stream):
            about = (each.number, each.generation, each.where, each.entries, each.first, each.last, each.size_bytes)
            at = ("", "") if each.stub is None else (each.stub.url, each.stub.path)
            yield Line(stream.name, *about, *at)


def _segments(stream: Stream) -> list[Kept]:
    try:
        return segments_of(stream)
    except NoSuchStreamError:
        return []  # removed meanwhile


def catalogued(store: Store, streams: Iterable[Stream], place: Place | str, *, whole: bool) -> Iterator[Line]:
    """What the catalogue of a place says of streams; with `whole`, also of those that are no more.

    Raises:
        RemoteError: the storage does not answer, or refuses; or a disk is not mounted.
    """
    there = Place(place) if isinstance(place, str) else place
    owner = store_uuid(store.path)
    there.check_folder(owner)
    known = {}
    for stream in streams:
        identity = uuid_of(stream)
        if identity is not None:
            known[identity] = stream
    listed = catalogue.streams(there, owner)
    for identity in [each for each in listed if whole or each in known]:
        stream_of = known.get(identity)
        segments = {} if stream_of is None else {(each.number, each.generation): each for each in _segments(stream_of)}
        for record in catalogue.records(there, owner, identity):
            stub = record.stub
            segment = segments.get((stub.number, stub.generation))
            where = "unneeded" if segment is None else segment.where
            if segment is not None and segment.stub is not None and segment.stub.path != stub.path:
                where = "unneeded"
            name = record.name if stream_of is None else stream_of.name
            about = (stub.number, stub.generation, where, stub.entries, stub.first, stub.last, stub.size_bytes)
            yield Line(name, *about, stub.url, stub.path)
