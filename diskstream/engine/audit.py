"""The audit: what groups did, from the log while it is there and from a file beside the sealed segment afterwards.

Each operation on a group is a frame of the log. A sealed segment has no frames, so these are copied into
``NNNNNNNN.audit`` before the log file goes. Nothing else is ever read from there: without these files a stream is what
it was before, and only its past is unknown.

An audit file goes when no segment of its number or an older one is listed any more. So the audit is whole from the
oldest segment on, whatever was compacted or emptied in the middle, and which files count follows from the list alone.
"""

import contextlib
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from diskstream._native import AuditFile, AuditLog, EntryID, Log, LogFile, RowSegment
from diskstream.engine import names, spare
from diskstream.engine.descriptors import tried_again
from diskstream.engine.files import Files, open_regular, reading, wrapped
from diskstream.engine.layouts import AUDIT_HEADER
from diskstream.engine.looks import named, names_in
from diskstream.engine.ownership import first_bytes
from diskstream.engine.segment import SegmentGone
from diskstream.engine.whereabouts import refuse_elsewhere
from diskstream.errors import CorruptionError, DiskFullError, DiskstreamError, NewerFormatError

if TYPE_CHECKING:
    from diskstream.engine.log import StreamLog

__all__ = [
    "MAX_MS",
    "AuditRow",
    "is_followed",
    "kept",
    "oldest",
    "open_file",
    "outlived",
    "rescue",
    "rows",
    "sweep",
    "unusable",
    "write",
]

# Time in ms, LSN, action, group, consumer, ID, deliveries, owner before.
AuditRow: TypeAlias = tuple[int, int, str, bytes | None, bytes | None, EntryID | None, int | None, bytes | None]

MAX_MS = 2**64 - 1
_OWNER_BYTES = slice(16, 32)  # of the header, as in every file of a stream


def oldest(native: Log) -> int:
    """The number of the oldest segment there is: what groups did before it is not kept."""
    return min((view.number for view in native.segments()), default=native.tail[0])


def kept(directory: Path, native: Log) -> list[int]:
    """The numbers of the audit files that count, in order."""
    first, active = oldest(native), native.tail[0]
    found = (names.audit_number(name) for name in names_in(directory))
    return sorted(number for number in found if number is not None and first <= number < active)


def write(directory: Path, files: Files, source: AuditLog, level: int) -> bool:
    """Keeps the frames of groups of a log, durably, under the name of its segment. Returns whether there were any.

    Raises:
        CorruptionError: the log cannot be read.
        StorageError: the disk said no.
    """
    salt = secrets.randbits(32)
    data = source.pack(salt, level)
    if not data:
        return False
    target = names.audit_path(directory, source.number)
    temporary = target.with_name(target.name + ".tmp")
    files.unlink(temporary)  # of a process that was killed here
    try:
        with files.create(temporary) as new:
            while data:
                new.write(data)
                data = source.pack(salt, level)
            new.sync()
        files.rename(temporary, target)
    except BaseException:
        files.unlink(temporary)
        raise
    files.sync_dir(directory)
    return True


def rescue(directory: Path, files: Files, native: Log, number: int, level: int) -> None:
    """Keeps the audit of a log that goes without being sealed, since it has no entries any more.

    A full disk, or a log that cannot be read, must not stand in the way of removing it: then its audit goes with it.
    """
    with contextlib.suppress(FileNotFoundError, CorruptionError, DiskFullError):
        write(directory, files, _open_log(names.log_path(directory, number), native.uuid, number), level)


def sweep(directory: Path, files: Files, native: Log, first: int, present: Iterable[str]) -> list[Path]:
    """Removes the stream's audit files from before segment `first`; the caller makes it durable. Returns which.

    Args:
        directory: the stream's.
        files: what to write with.
        native: its log.
        first: the oldest segment that is kept.
        present: the names of what is in the directory, as it was seen since the lock was taken.
    """
    gone = outlived(directory, native, first, present)
    for path in gone:
        files.unlink(path)
    return gone


def outlived(directory: Path, native: Log, first: int, present: Iterable[str]) -> list[Path]:
    """The stream's audit files from before segment `first`, of the files `present`."""
    numbers = ((name, names.audit_number(name)) for name in present)
    old = [directory / name for name, number in numbers if number is not None and number < first]
    return [path for path in old if _owner(path) == bytes(native.uuid)]


def _owner(path: Path) -> bytes:
    with contextlib.suppress(OSError), reading(path) as file:
        return file.read(_OWNER_BYTES.stop)[_OWNER_BYTES]
    return b""


def open_file(path: Path, uuid: bytes, number: int) -> AuditFile:
    """Opens an audit file.

    Raises:
        FileNotFoundError: there is none.
        CorruptionError: header, footer or names are damaged, or it is another stream's.
    """
    with wrapped(path, "open"):
        fd = open_regular(path)
    try:
        return tried_again(lambda: AuditFile(fd, str(path), uuid, number))
    finally:
        os.close(fd)


def _open_log(path: Path, uuid: bytes, number: int) -> AuditLog:
    with wrapped(path, "open"):
        fd = open_regular(path)
    try:
        return AuditLog(tried_again(lambda: LogFile(fd, str(path), False)), uuid, number)
    finally:
        os.close(fd)


def rows(log: "StreamLog", start_ms: int, end_ms: int) -> Iterator[list[AuditRow]]:
    """What groups did from `start_ms` to `end_ms`, both included, as of now, in the order of the log.

    Raises:
        CorruptionError: a log or an audit file cannot be read. What came before it was right.
        StreamMoved: the stream is gone.
    """
    log.refresh()
    # The end first: it stays where it is while others append, roll and seal.
    active = log.native.audit()
    first = oldest(log.native)
    try:
        numbers = _numbers(log.directory)
    finally:
        log.refresh()  # deleted or renamed meanwhile: nothing is there, or what is another stream's
        if not log.read_only:
            refuse_elsewhere(log.directory, log.page, "read")  # or moved by hand
    for number in numbers:
        if first <= number < active.number:
            log.refresh()  # closed or moved meanwhile?
            source = _open_either(log, number)
            if source is not None:
                yield from _drained(source, start_ms, end_ms)
    yield from _drained(active, start_ms, end_ms)
    if log.fault is not None:
        raise log.fault


def _numbers(directory: Path) -> list[int]:
    found = set()
    for name in names_in(directory):
        parsed = names.parse_file(name)
        number = parsed[1] if parsed is not None and parsed[0] == "log" else names.audit_number(name)
        if number is not None:
            found.add(number)
    return sorted(found)


def _open_either(log: "StreamLog", number: int) -> AuditLog | AuditFile | None:
    """The log where it is there, else its audit file, which was there before the log went; None where both are gone."""
    with contextlib.suppress(FileNotFoundError):
        return _rolled(log, number) or _open_log(names.log_path(log.directory, number), log.native.uuid, number)
    with contextlib.suppress(FileNotFoundError):
        return open_file(names.audit_path(log.directory, number), log.native.uuid, number)
    log.refresh()  # trimmed away meanwhile, unless the whole stream was moved
    return None


def is_followed(directory: Path, number: int, rows: RowSegment) -> bool:
    """Whether the snapshot frame of the next segment continues the chain of this one, as far as it is there to say."""
    try:
        frame = spare.snapshot_frame(names.log_path(directory, number + 1))
    except OSError:
        return True  # sealed or unlinked meanwhile
    if not frame:
        return True
    lsn, chain = int.from_bytes(frame[16:24], "little"), int.from_bytes(frame[28:32], "little")
    return (lsn - 1, chain) == rows.link


def _rolled(log: "StreamLog", number: int) -> AuditLog | None:
    """A log whose end the next one confirms: so what a disk has put into the zeros behind it is no damaged frame."""
    view = next((each for each in log.segments.views() if each.number == number), None)
    if view is None or not log.segments.is_rows(view):
        return None
    try:
        found = log.segments.get(view)
    except (CorruptionError, SegmentGone):
        return None  # whoever reads it frame by frame says what is wrong, and gives what comes before
    path = names.log_path(log.directory, number)
    if not isinstance(found, RowSegment) or not is_followed(log.directory, number, found):
        return None
    return found.audit(str(path))


def _drained(source: AuditLog | AuditFile, start_ms: int, end_ms: int) -> Iterator[list[AuditRow]]:
    while (found := source.next(start_ms, end_ms)) is not None:
        if found:
            yield found


def unusable(directory: Path, native: Log) -> Iterator[tuple[Path, str]]:
    """The audit files of which nothing is to be told, and why: another stream's, and those that cannot be read.

    Raises:
        NewerFormatError: a later version wrote one.
    """
    for path in named(directory, ".audit"):
        head = AUDIT_HEADER.sound(first_bytes(path, AUDIT_HEADER.size))
        if head is not None and bytes(head["uuid"]) != bytes(native.uuid):
            yield path, "it is another stream's"
    for number in kept(directory, native):
        path = names.audit_path(directory, number)
        try:
            file = open_file(path, native.uuid, number)
            while file.next(0, MAX_MS) is not None:
                pass
        except FileNotFoundError:
            continue
        except NewerFormatError:
            raise
        except DiskstreamError:
            yield path, "the past of groups in it cannot be read; the stream does not depend on it"
