"""The segments of a stream, and where each is: what moving them to object storage and back is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from diskstream.engine import cold, cold_moving
from diskstream.engine.cold import Stub
from diskstream.engine.cold_moving import HERE, MISSING, ROWS, STUB, BeingMovedError, Kept, Sound
from diskstream.engine.log import StreamLog
from diskstream.engine.looks import children, is_folder
from diskstream.errors import CorruptionError, NoSuchStreamError
from diskstream.stream import Stream

__all__ = [
    "HERE",
    "MISSING",
    "ROWS",
    "STUB",
    "BeingMovedError",
    "ColdStream",
    "Kept",
    "Sound",
    "Stub",
    "names_place",
    "needed_paths",
    "opened",
    "segments_of",
    "uuid_of",
]

Fetch = Callable[[Stub, Callable[[bytes], object]], None]


class ColdStream:
    """A stream whose segments are being moved, by nobody else meanwhile: see `opened`."""

    def __init__(self, stream: Stream, log: StreamLog) -> None:
        self.stream, self._log = stream, log

    @property
    def uuid(self) -> bytes:
        """What all files of the stream carry."""
        return bytes(self._log.native.uuid)

    @property
    def active_bytes(self) -> int:
        """Bytes of frames in the active segment."""
        return self._log.native.tail[1]

    @property
    def active_entries(self) -> int:
        """Live entries of the active segment."""
        return self._log.native.active_view().live

    def segments(self) -> list[Kept]:
        """The sealed and rolled segments in order, and where each is."""
        return cold_moving.kept(self._log)

    @contextmanager
    def sound(self, segment: Kept) -> Iterator[Sound | None]:
        """A sealed file, open, after it was read whole; None where it is gone meanwhile.

        Raises:
            CorruptionError: it is damaged.
        """
        with cold_moving.sound(self._log, segment) as found:
            yield found

    def check(self, stub: Stub, segment: Kept, fetch: Fetch) -> tuple[int, int]:
        """Reads an object back, whole, by `fetch`: as bytes, and as a segment of this stream.

        Returns:
            The least and the greatest append time in it.

        Raises:
            CorruptionError: it is not what was put there, or not what the log lists.
            RemoteError: it cannot be fetched.
            StorageError: no room for it.
        """
        cache = self._log.segments.cache.cold
        return cold_moving.check(self._log, stub, segment, lambda stub: cache.open_fresh(stub, fetch))

    def leave(self, stub: Stub) -> bool:
        """Puts the stub in the place of the sealed file, whose object was checked. False where that went meanwhile."""
        return cold_moving.leave(self._log, stub)

    def adopt(self, stub: Stub) -> bool:
        """Gives a missing segment a stub, whose object was checked. False where it is not missing any more."""
        return cold_moving.adopt(self._log, stub)

    def bring_back(self, segment: Kept, fetch: Fetch) -> bool:
        """Puts the sealed file in the place of its stub. False where the segment went meanwhile.

        Raises:
            CorruptionError: the object is not what was put there.
            RemoteError: it cannot be fetched.
            StorageError: no room.
        """
        stub = segment.stub
        return stub is not None and cold_moving.bring_back(self._log, segment, lambda sink: fetch(stub, sink))


def needed_paths(store: Path) -> set[str]:
    """The paths of all objects that a stub of the store stands for, in its streams and in its leases.

    Raises:
        CorruptionError: a stub cannot be read, so nobody knows what it needs.
        StorageError: a folder cannot be read.
    """
    leases = store / "leases"
    folders = [store / "streams", *(each / "streams" for each in (children(leases) if is_folder(leases) else ()))]
    needed = set()
    for folder in folders:
        for path in cold_moving.stub_files(folder):
            stub = cold.read(path)
            if stub is not None:
                needed.add(stub.path)
    return needed


def names_place(store: Path, url: str) -> bool:
    """Whether a stub of a stream of the store stands for an object at a place; one that cannot be read says nothing."""
    for path in cold_moving.stub_files(store / "streams"):
        with suppress(CorruptionError):
            stub = cold.read(path)
            if stub is not None and stub.url == url:
                return True
    return False


def segments_of(stream: Stream) -> list[Kept]:
    """The sealed and rolled segments of a stream, and where each is; the storage is not asked.

    Raises:
        NoSuchStreamError: there is no stream.
    """
    found = stream._use(cold_moving.kept, None)
    if found is None:
        raise NoSuchStreamError(stream.name)
    return found


def uuid_of(stream: Stream) -> bytes | None:
    """What all files of a stream carry; None where there is no stream."""
    return stream._use(lambda log: bytes(log.native.uuid), None)


@contextmanager
def opened(stream: Stream, *, dry_run: bool = False) -> Iterator[ColdStream]:
    """A stream, with nobody else moving its segments until the end of the block. Appends and seals go on.

    Raises:
        NoSuchStreamError: there is no stream, or it goes meanwhile.
        BeingMovedError: somebody else is moving its segments.
        ReadOnlyError: the store is open for reading only, and this is no dry run.
    """
    log = stream._use(_current, None)  # a function of the stream's own layer
    if log is None:
        raise NoSuchStreamError(stream.name)
    with cold_moving.alone(log, dry_run=dry_run) as is_alone:
        if not is_alone:
            where = stream.name.decode("utf-8", "backslashreplace")
            raise BeingMovedError(where, "somebody else is moving segments of this stream", "wait for that to end")
        try:
            yield ColdStream(stream, log)
        except cold_moving.StreamMoved:
            raise NoSuchStreamError(stream.name, "it was deleted or renamed meanwhile") from None


def _current(log: StreamLog) -> StreamLog:
    log.refresh()
    return log
