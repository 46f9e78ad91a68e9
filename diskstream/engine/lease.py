"""Leases: one moment of some streams, kept readable while others trim, delete, seal and compact them.

::

    leases/<id>/lease.json      {"ttl_s": seconds, "made_ms": time}; modified when the lease was last used
    leases/<id>/store.json      the store's own
    leases/<id>/streams/...     sealed segments and rolled logs as hard links, the active log as a copy; the copy of its
                                snapshot, so that a backup has what its own log would be mended by

A lease is a store of its own, opened read-only. Its links cost no room until the store lets go of them, and a copy does
where no recent lease has the same: who reads a stream again, to which nothing was added since, shares that one.
"""

import contextlib
import json
import math
import os
import secrets
import shutil
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from diskstream._native import LOG_HEADER_BYTES, SegmentView
from diskstream.engine import directory, names
from diskstream.engine.descriptors import are_short, says_nothing
from diskstream.engine.files import Files, open_regular, reading, wrapped
from diskstream.engine.log import StreamLog
from diskstream.engine.looks import children, is_folder, is_there, status
from diskstream.errors import CorruptionError, NotAStoreError, StorageError
from diskstream.plurals import number_of

__all__ = [
    "Moment",
    "check",
    "is_lease",
    "link_damaged",
    "link_stream",
    "make",
    "recent",
    "release",
    "sweep",
    "touch",
    "ttl_of",
]

_LEASE = "lease.json"
_GONE = ".gone-"
_MAX_LEASE_BYTES = 4096
# Small files of a stream that are replaced as a whole.
_BESIDE = ("name",)
# So often the files of a damaged stream are listed, while some go from under the hands of whoever links them.
_LOOKS = 5
_AT_ONCE = 8 << 20
# So many leases are looked at for a copy that can be shared: readers of other streams may have made the latest ones.
_RECENT = 8
# What a killed process left half made is removed after this long.
_UNFINISHED_S = 3600


@dataclass(frozen=True)
class Moment:
    """How far an active log counted at one moment: what stands before that never changes.

    Attributes:
        name: of the file.
        packed_header: its first bytes then, compressed: a backup holds a moment of each stream that a store has.
        end: the offset behind the last frame.
    """

    name: str
    packed_header: bytes
    end: int

    @classmethod
    def of(cls, name: str, header: bytes, end: int) -> "Moment":
        """The moment in which the log `name` had this header, nearly all of it zeros, and ended at `end`."""
        return cls(name, zlib.compress(header), end)

    @property
    def header(self) -> bytes:
        """The log's first bytes then: how far it is known durable must not be newer than the end."""
        return zlib.decompress(self.packed_header)

    @property
    def size_bytes(self) -> int:
        """Bytes of a copy: zeros behind the end say that there is no frame."""
        return self.end + -self.end % 4096 + 4096

    def is_in(self, fd: int, copy: int) -> bool:
        """Whether an open file is a copy of this moment of the log `fd`, every byte of it, and not that log itself, as
        leases have it that are made for backups: what is added to it would be seen there."""
        found = os.fstat(copy)
        if found.st_size != self.size_bytes or os.path.samestat(found, os.fstat(fd)):
            return False
        # Its end first: of one and the same log that is where copies differ.
        last = max(len(self.header), self.end - 1 & -4096)
        ending = os.pread(fd, self.end - last, last).ljust(self.size_bytes - last, b"\0")
        if os.pread(copy, len(ending), last) != ending:
            return False
        at = 0
        for piece in self.read(fd):
            if os.pread(copy, len(piece), at) != piece:
                return False
            at += len(piece)
        return at == self.size_bytes

    def read(self, fd: int) -> Iterator[bytes]:
        """What a copy of the log holds, piece by piece."""
        header = self.header
        yield header
        at = len(header)
        while at < self.end:
            data = os.pread(fd, min(_AT_ONCE, self.end - at), at)
            if not data:
                break  # the file was cut by somebody: what is missing is found when the copy is opened
            yield data
            at += len(data)
        yield bytes(self.size_bytes - at)


def make(store: Path, link: Callable[[Path], None], ttl_s: float, files: Files, name: str | None = None) -> Path:
    """Makes a lease: `link` fills the directory of streams that it is given. Returns the lease's directory.

    With a `name`, which nobody else may use, that is the directory's, so that whoever wrote it down before can release
    what is left of a lease whose maker was killed.

    Raises:
        NotAStoreError: the store's description was removed.
        StorageError: the disk said no.
    """
    leases = store / "leases"
    files.mkdir(leases)
    fresh = leases / f".new-{name or secrets.token_hex(8)}"
    files.mkdir(fresh)
    try:
        files.mkdir(fresh / "streams")
        link(fresh / "streams")
        with wrapped(fresh, "write"):
            described = json.dumps({"ttl_s": ttl_s, "made_ms": time.time_ns() // 1_000_000})
            _put(fresh / _LEASE, [described.encode()])
            try:
                with reading(store / "store.json") as file:
                    _put(fresh / "store.json", [file.read()])
            except FileNotFoundError:  # removed under who has the store open, who needs it no more
                raise NotAStoreError(str(store), "its store.json is missing", directory.REPAIR) from None
        target = leases / fresh.name.removeprefix(".new-")
        files.rename(fresh, target)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return target


def recent(store: Path) -> list[Path]:
    """The leases that were made last, the latest first."""
    made = []
    for lease in children(store / "leases") if is_folder(store / "leases") else []:
        if not lease.name.startswith("."):
            with contextlib.suppress(OSError, StorageError):  # it goes, just now
                made.append((status(lease).st_mtime_ns, lease))
    return [lease for _, lease in sorted(made, reverse=True)[:_RECENT]]


def link_stream(
    log: StreamLog, target: Path, files: Files, *, copies: bool = True, shared: Sequence[Path] = ()
) -> Moment:
    """Fills `target` with one moment of a stream.

    With `copies` the active log is a copy, up to this moment, or a link to the same copy in one of the leases `shared`;
    else it is linked itself: who reads it must go by what is returned. Then no room is needed.

    Segments that are there already are linked before the append lock is taken, so that writers wait for what came in
    between, and not for all that the stream has.

    Raises:
        StreamMoved: the stream is gone.
        CorruptionError: a segment is missing.
        StorageError: the file system has no hard links, or no room.
    """
    ahead = _link_ahead(log, target, files)
    wanted = set()
    with log.locked():
        log.prepare()
        _copy_beside(log.directory, target)  # once the lock is free, a stream may be renamed, and nothing is here
        for view in log.segments.views():
            wanted.add(_link_segment(log, view, target, files, ahead))
        number, end, _, _ = log.native.tail
        if log.ctl.visible != (number, end):
            # What was linked is what the last frame lists. A copy that ended before it, where others see the stream end
            # until the flush, would list segments that were dropped or replaced meanwhile.
            log.retry(log.native.flush, held=True)
        source = names.log_path(log.directory, number)
        with wrapped(source, "read"):
            fd = open_regular(source)
        # The header says how far the log is known durable: it must not be newer than the end.
        moment = Moment.of(source.name, os.pread(fd, LOG_HEADER_BYTES, 0), end)
        if not copies:
            files.link(source, target / source.name)
    try:
        for name in ahead - wanted:
            files.unlink(target / name)
        if copies and not any(_share(fd, moment, lease, target / source.name, files) for lease in shared):
            _copy(fd, moment, target / source.name)
        _link_if_there(names.state_path(log.directory, number), target, files)
    finally:
        os.close(fd)
    return moment


def link_damaged(directory: Path, target: Path, files: Files) -> None:
    """Fills `target` with the files of a stream that is damaged, as they are, without its lock.

    Others may still seal, compact and trim what is sound of it: where a file went, what it became is looked for.

    Raises:
        FileNotFoundError: the stream was deleted or renamed meanwhile.
        StorageError: the file system has no hard links, or no room.
    """
    _copy_beside(directory, target)
    for _ in range(_LOOKS):
        if _link_all(directory, target, files):
            break


def _link_all(directory: Path, target: Path, files: Files) -> bool:
    """Links what is not linked yet. Returns whether nothing went from under its hands."""
    is_whole = True
    for path in children(directory):
        of_segment = names.parse_file(path.name) is not None or names.audit_number(path.name) is not None
        if of_segment or names.state_number(path.name) is not None:
            try:
                files.link(path, target / path.name)
            except FileExistsError:
                continue
            except FileNotFoundError:
                is_whole = False
    return is_whole


def _copy_beside(directory: Path, target: Path) -> None:
    for name in _BESIDE:
        with contextlib.suppress(FileNotFoundError), reading(directory / name) as file:
            _put(target / name, [file.read()])


def _link_ahead(log: StreamLog, target: Path, files: Files) -> set[str]:
    """Links the segments that are listed now, and all audits. Returns the names of those segments' files."""
    log.refresh()
    linked = set()
    for view in log.segments.views():
        with contextlib.suppress(CorruptionError):  # gone by now; what is missing shows under the lock
            linked.add(_link_segment(log, view, target, files, set()))
    with contextlib.suppress(FileNotFoundError):  # deleted or renamed by now, which shows under the lock
        for path in children(log.directory):
            if names.audit_number(path.name) is not None:
                _link_if_there(path, target, files)
    return linked


def _link_if_there(path: Path, target: Path, files: Files) -> None:
    with contextlib.suppress(FileNotFoundError, FileExistsError):
        files.link(path, target / path.name)


def _link_segment(log: StreamLog, view: SegmentView, target: Path, files: Files, linked: set[str]) -> str:
    """Links a segment, with its audit, unless one of its files was linked before. Returns that file's name."""
    packed = names.segment_path(log.directory, view.number, view.generation)
    stub = names.cold_path(log.directory, view.number, view.generation)
    rows = names.log_path(log.directory, view.number)
    for path in (packed, stub) if view.generation else (packed, rows, stub):
        if path.name in linked:
            return path.name
    # A sealed file is there before its log goes, and a stub before the sealed file goes, which is back before the stub
    # goes: one look finds one of them.
    for path in (packed, rows, packed, stub, packed):
        if path == rows and view.generation:
            continue  # of that number, but what it was made from
        try:
            files.link(path, target / path.name)
        except FileNotFoundError:
            continue
        _link_if_there(names.audit_path(log.directory, view.number), target, files)
        return path.name
    raise CorruptionError(
        str(packed), "sealed segment", 0, f"a file with {number_of(view.entries, 'entry')}", "no file"
    )


def _share(fd: int, moment: Moment, lease: Path, target: Path, files: Files) -> bool:
    """Links the copy that another lease has, where it is the same."""
    with contextlib.suppress(OSError, StorageError):  # it has none, or goes just now
        copy = lease / "streams" / target.parent.name / target.name
        other = open_regular(copy, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            if moment.is_in(fd, other):
                files.link(copy, target)
                return True
        finally:
            os.close(other)
    return False


def _copy(fd: int, moment: Moment, target: Path) -> None:
    with wrapped(target, "write"):
        _put(target, moment.read(fd))


def _put(target: Path, parts: Iterable[bytes]) -> None:
    """A new file, with the permissions of all that a store makes. It need not outlive the machine."""
    with os.fdopen(open_regular(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
        for part in parts:
            file.write(part)


def touch(lease: Path) -> None:
    """Says that the lease is in use; where that may not be written, nothing happens."""
    try:
        os.utime(lease / _LEASE)
    except OSError:
        return


def check(store: Path) -> None:
    """Makes sure that a lease that was opened as a store still is one: nothing ever goes from it but all of it.

    Raises:
        NotAStoreError: it has run out, or was released.
    """
    if not is_there(store / _LEASE):
        raise NotAStoreError(str(store), "the lease has run out or was released: read again, with a longer ttl")


def is_lease(store: Path) -> bool:
    """Whether a store is a lease of another one."""
    return is_there(store / _LEASE)


# What reading the time to live raises of a description that is damaged.
_DAMAGE = (ValueError, TypeError, KeyError, OverflowError, RecursionError)


def ttl_of(lease: Path) -> float | None:
    """For how many seconds a lease is kept without a use; None where it is none."""
    with contextlib.suppress(OSError, *_DAMAGE), reading(lease / _LEASE) as file:
        return _ttl_in(file)
    return None


def _ttl_in(file: IO[bytes]) -> float:
    """The time to live that a description says.

    Raises:
        _DAMAGE: it is damaged.
    """
    ttl_s = float(json.loads(file.read(_MAX_LEASE_BYTES))["ttl_s"])
    if math.isnan(ttl_s):
        raise ValueError("no moment is behind it: the lease would stay for ever")
    return ttl_s


def release(lease: Path) -> None:
    """Removes a lease, finished or not. Whoever has its files open goes on reading them."""
    going = lease.with_name(_GONE + lease.name.removeprefix(_GONE))
    # At once, so that nobody finds a part of it and takes that for all there is.
    with contextlib.suppress(OSError):
        lease.rename(going)
    for left in (going, lease, lease.with_name(f".new-{lease.name}")):
        shutil.rmtree(left, ignore_errors=True)


def sweep(store: Path, now_s: float) -> list[Path]:
    """Removes the leases that nobody has used for their time to live. Returns them."""
    leases = store / "leases"
    gone = []
    for lease in children(leases) if is_folder(leases) else []:
        try:
            if lease.name.startswith(_GONE):
                until = 0.0  # whoever released it was killed
            elif lease.name.startswith("."):
                until = status(lease).st_mtime + _UNFINISHED_S
            else:
                with wrapped(lease, "read"), reading(lease / _LEASE) as file:
                    ttl_s = _ttl_in(file)
                until = status(lease / _LEASE).st_mtime + ttl_s
        except (OSError, *_DAMAGE) as error:
            if are_short(error):
                raise
            if isinstance(error, OSError) and says_nothing(error):
                continue  # it may be in use
            until = status(lease).st_mtime + _UNFINISHED_S if is_there(lease) else now_s
        if until < now_s:
            release(lease)
            gone.append(lease)
    return gone
