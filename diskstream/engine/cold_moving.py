"""A sealed segment leaves its stream's directory, and comes back: the steps that change the disk.

::

    out:    object put, read back whole --- stub durable --- segment unlinked
    back:   segment fetched, read whole --- segment durable --- stub unlinked

Both steps at the right are taken under the maintenance lock, when the log was found to list the segment still; what
takes long is done before, without any lock. A crash between the two leaves both files, which says the same as either.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from diskstream._native import EntryID, NodeCache, SealedSegment, SegmentView
from diskstream.engine import cold, names
from diskstream.engine.cold import DamagedObjectError, Stub
from diskstream.engine.descriptors import listing, opened, tried_again
from diskstream.engine.files import open_regular, size_of, wrapped
from diskstream.engine.locks import Locks
from diskstream.engine.log import StreamLog, StreamMoved
from diskstream.engine.looks import children
from diskstream.engine.moved import FORKS
from diskstream.engine.page import MAINTENANCE
from diskstream.engine.segment import read_back
from diskstream.errors import ChangedError, CorruptionError, ReadOnlyError, storage_error

__all__ = [
    "HERE",
    "MISSING",
    "ROWS",
    "STUB",
    "BeingMovedError",
    "Kept",
    "Sound",
    "StreamMoved",
    "adopt",
    "alone",
    "bring_back",
    "check",
    "kept",
    "leave",
    "sound",
    "stub_files",
]

# Where the bytes of a segment are.
ROWS, HERE, STUB, MISSING = "rows", "here", "cold", "missing"
_AT_ONCE = 1 << 20


class BeingMovedError(ChangedError):
    """Somebody else is moving segments of a stream: no fault, and over when they have ended."""


@dataclass(frozen=True)
class Kept:
    """A segment that a log lists.

    Attributes:
        number, generation, entries, first, last: as the log has them; gone entries are counted.
        live: entries that are not gone.
        where: ``rows`` (a log file), ``here`` (a sealed file), ``cold`` (a stub alone) or ``missing`` (neither, or a
            stub that cannot be read).
        size_bytes: of the file; of the object, where it is cold.
        stub: what is cold, or was on its way when something stopped; None where no stub is there.
        stays: the newest one: it holds the copy of what a damaged active log begins with.
        times_ms: least and greatest append time of its entries; 0 where a log that was made anew does not know.
    """

    number: int
    generation: int
    entries: int
    live: int
    first: EntryID
    last: EntryID
    where: str
    size_bytes: int
    stub: Stub | None
    stays: bool
    times_ms: tuple[int, int]


@dataclass(frozen=True)
class Sound:
    """A sealed file that was read whole: an open descriptor, its size and the SHA-256 of its bytes."""

    fd: int
    size_bytes: int
    sha256: bytes


def kept(log: StreamLog) -> list[Kept]:
    """The sealed and rolled segments in order, as they are listed now, and where each is."""
    log.refresh()
    newest = log.native.tail[0] - 1
    return [_kept(log, view, newest) for view in log.segments.views()]


def _kept(log: StreamLog, view: SegmentView, newest: int) -> Kept:
    packed = names.segment_path(log.directory, view.number, view.generation)
    try:
        stub = cold.find(log.directory, log.native, view)
    except CorruptionError:
        stub = None  # `verify` reports it
    size, where = size_of(packed), HERE
    if log.segments.is_rows(view):
        size, where = size_of(names.log_path(log.directory, view.number)), ROWS
    elif not size:
        where = MISSING if stub is None else STUB
        size = 0 if stub is None else stub.size_bytes
    ids = view.first, view.last
    stays = view.number == newest
    return Kept(view.number, view.generation, view.entries, view.live, *ids, where, size, stub, stays, view.times_ms)


@contextlib.contextmanager
def alone(log: StreamLog, *, dry_run: bool = False) -> Iterator[bool]:
    """Whether nobody else, in any process, moves segments of this stream until the end of the block.

    Raises:
        ReadOnlyError: the store is open for reading only, and this is no dry run.
        CorruptionError: the log is damaged: nothing is moved then.
    """
    if log.read_only and not dry_run:
        raise ReadOnlyError(str(log.directory))
    if log.fault is not None:
        raise log.fault
    made_at = FORKS.count
    with wrapped(log.directory, "open"):
        locks = Locks(opened(log.directory, os.O_RDONLY | os.O_DIRECTORY), made_at)
    try:
        yield locks.taken(log.directory)
    finally:
        locks.close()  # and gives it up: a child that was forked meanwhile may go on for long


def _view(log: StreamLog, number: int, generation: int) -> SegmentView | None:
    log.refresh()
    views = log.segments.views()
    return next((view for view in views if (view.number, view.generation) == (number, generation)), None)


@contextlib.contextmanager
def sound(log: StreamLog, segment: Kept) -> Iterator[Sound | None]:
    """Reads a sealed file whole, against all its checksums; None where it is gone meanwhile.

    Raises:
        CorruptionError: it is damaged: it stays where it is.
    """
    path = names.segment_path(log.directory, segment.number, segment.generation)
    try:
        with wrapped(path, "open"):
            fd = open_regular(path)
    except FileNotFoundError:
        yield None
        return
    try:
        sealed = tried_again(lambda: SealedSegment(fd, str(path), log.native.uuid, segment.number, NodeCache(0), False))
        _check_whole(sealed, str(path), segment)
        digest, size = hashlib.sha256(), 0
        with wrapped(path, "read"):
            while data := os.pread(fd, _AT_ONCE, size):
                digest.update(data)
                size += len(data)
        yield Sound(fd, size, digest.digest())
    finally:
        os.close(fd)


def _check_whole(sealed: SealedSegment, path: str, segment: Kept) -> None:
    found = sealed.generation, read_back(sealed), sealed.first, sealed.last
    listed = segment.generation, segment.entries, segment.first, segment.last
    if found != listed:
        expected, seen = ("generation {}, {} entries from {} to {}".format(*each) for each in (listed, found))
        raise CorruptionError(path, "sealed segment", 0, expected, seen)


def check(log: StreamLog, stub: Stub, segment: Kept, fetched: Callable[[Stub], int]) -> tuple[int, int]:
    """Reads an object whole, as a segment of this stream. Returns the least and the greatest append time in it.

    Raises:
        CorruptionError: it is not what the log lists.
        RemoteError: it cannot be fetched.
    """
    fd = fetched(stub)
    try:
        shown = f"{stub.url} {stub.path}"
        sealed = tried_again(lambda: SealedSegment(fd, shown, log.native.uuid, segment.number, NodeCache(0), False))
        _check_whole(sealed, shown, segment)
        return sealed.times_ms
    finally:
        os.close(fd)


def leave(log: StreamLog, stub: Stub) -> bool:
    """The stub takes the place of the sealed file, whose object was read back. False where it is not listed any more.

    Raises:
        StorageError: the disk said no; the sealed file is still there, or its stub is.
    """
    with log.ctl.locked(MAINTENANCE):
        view = _view(log, stub.number, stub.generation)
        if view is None:
            return False
        path = names.cold_path(log.directory, stub.number, stub.generation)
        cold.write(log.directory, cold.check(path, stub, log.native, view), log.files)
        log.files.unlink(names.segment_path(log.directory, stub.number, stub.generation))
        log.files.sync_dir(log.directory)
        log.segments.forget(stub.number, stub.generation)
        return True


def adopt(log: StreamLog, stub: Stub) -> bool:
    """A stub for a segment that has neither a file nor a stub. False where that is not so any more."""
    with log.ctl.locked(MAINTENANCE):
        view = _view(log, stub.number, stub.generation)
        if view is None or _kept(log, view, 0).where != MISSING:
            return False
        path = names.cold_path(log.directory, stub.number, stub.generation)
        cold.write(log.directory, cold.check(path, stub, log.native, view), log.files)
        log.segments.forget(stub.number, stub.generation)
        return True


def stub_files(folder: Path) -> Iterator[Path]:
    """All stubs of the streams in a folder, whoever's they are; also of one that is being removed."""
    with contextlib.suppress(FileNotFoundError), wrapped(folder, "list"), listing(folder) as streams:
        for each in streams:
            if not each.is_dir(follow_symlinks=False):
                continue
            # Not by a pattern: what may not be listed is passed over then, and its objects taken for nobody's.
            with contextlib.suppress(FileNotFoundError):  # gone just now: the others are listed all the same
                yield from [path for path in children(Path(each.path)) if path.suffix == ".cold"]


def bring_back(log: StreamLog, segment: Kept, fetch: Callable[[Callable[[bytes], object]], None]) -> bool:
    """The sealed file takes the place of its stub. False where the segment is not listed any more, or not cold.

    Args:
        log: the stream.
        segment: one that is cold.
        fetch: gives the object's bytes to a sink.

    Raises:
        CorruptionError: the object is not what was put there.
        RemoteError: it cannot be fetched.
        StorageError: the disk said no.
        StreamMoved: the stream is gone from here.
    """
    stub = segment.stub
    if stub is None:
        return False
    target = names.segment_path(log.directory, segment.number, segment.generation)
    temporary = target.with_name(f"{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        digest = hashlib.sha256()
        with log.files.create(temporary) as new:

            def sink(data: bytes) -> None:
                digest.update(data)
                new.write(data)

            fetch(sink)
            new.sync()
        if digest.digest() != stub.sha256:
            raise DamagedObjectError(stub, f"SHA-256 {stub.sha256.hex()}", digest.hexdigest())
        with wrapped(temporary, "read"):
            check(log, stub, segment, lambda _: open_regular(temporary))
        with log.ctl.locked(MAINTENANCE):
            view = _view(log, segment.number, segment.generation)
            if view is None or _kept(log, view, 0).where != STUB:
                return False
            log.files.rename(temporary, target)
            log.files.sync_dir(log.directory)
            log.files.unlink(names.cold_path(log.directory, segment.number, segment.generation))
            log.files.sync_dir(log.directory)
            log.segments.forget(segment.number, segment.generation)
            return True
    except FileNotFoundError:
        log.refresh()  # who says so where the stream went, and its directory with it
        raise storage_error(str(temporary), "find", errno.ENOENT, "somebody has removed it: try again") from None
    finally:
        log.files.unlink(temporary)
