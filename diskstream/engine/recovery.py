"""Opening a log: what is torn, what is rotten, and what is done about it.

::

    bad frame --- a later frame, or a successor, says it was durable ---> rot: read-only until repaired, nothing is cut
        |
        +-------- nothing durable lies at or beyond it -----------------> torn: bytes to quarantine/, zeros, flush

Who opens alone also finishes what a crash interrupted: unfinished temporary files go, files that the log no longer
lists go (the log says so, and it is durable by then), files it does not know are put aside, never deleted.
"""

import contextlib
import errno
import os
import time
import zlib
from pathlib import Path
from typing import Any

from diskstream._native import Ctl, Log
from diskstream.engine import audit, frontier, names, spare, superseded
from diskstream.engine.descriptors import means_are_short, says_nothing
from diskstream.engine.files import Files, LogFileLike, name_anew, reading, wrapped
from diskstream.engine.layouts import LOG_HEADER, SEGMENT_HEADER
from diskstream.engine.locks import is_held
from diskstream.engine.looks import is_folder, is_link, is_there, names_in, refuse_link, status
from diskstream.engine.page import FLAG_ROTTEN, POISONED, Page
from diskstream.engine.segment import open_sealed, read_back, snapshot_copy
from diskstream.engine.torn import READ_ONLY, Finding, RecoveryReport, fault_of, settle_tail
from diskstream.errors import CorruptionError, StorageError
from diskstream.options import Options

__all__ = [
    "Finding",
    "RecoveryReport",
    "cure",
    "fault_of",
    "left_behind_mark",
    "look",
    "native_log",
    "next_log",
    "recover",
]

_Listed = list[tuple[str, tuple[str, int, int] | None]]  # names in a directory, and what they are of a segment

_LEFT_BEHIND_OFFSET = 1536
_LEFT_BEHIND = b"DSKNEXT1"


def native_log(
    directory: Path,
    number: int,
    ctl: Ctl,
    file: LogFileLike,
    options: Options,
    *,
    copy: bytes | None = None,
    apart: bool = False,
) -> Log:
    """The native log over segment `number`: header and snapshot are read (or the `copy` of it), frames not yet.

    Raises:
        CorruptionError: header or snapshot are damaged.
        NewerFormatError: a later version wrote them.
    """
    return Log(
        ctl,
        file,
        str(names.log_path(directory, number)),
        number=number,
        always=options.is_always,
        segment_bytes=options.segment_bytes,
        text=options.decode_responses,
        copy=copy,
        pending_rows=options.pending_rows,
        apart=apart,
    )


def _log_or_copy(
    directory: Path, number: int, ctl: Ctl, file: LogFileLike, options: Options, *, apart: bool = False
) -> tuple[Log, CorruptionError | None]:
    """The same; where header or snapshot are damaged, the state comes from the copy in the sealed predecessor."""
    try:
        return native_log(directory, number, ctl, file, options, apart=apart), None
    except CorruptionError as fault:
        copy = snapshot_copy(directory, number - 1)
        if not copy:
            raise
        return native_log(directory, number, ctl, file, options, copy=copy, apart=apart), fault


def _check_owner(directory: Path, there: _Listed, number: int, native: Log) -> None:
    """Refuses an active log that all other segments say is not theirs.

    Raises:
        CorruptionError: it is another stream's.
    """
    others = [name for name, parsed in there if parsed is not None and parsed[1] != number]
    are_strange = False
    for name in reversed(others):  # nearly always the first to be asked knows it: there may be thousands
        owner = _sound_owner(directory / name)
        if owner == bytes(native.uuid):
            return
        # One that is gone by now, sealed or dropped, says nothing; nor does one whose header is damaged.
        are_strange |= owner is not None
    if are_strange:
        path = names.log_path(directory, number)
        raise CorruptionError(str(path), "log header", 16, "the stream of the other segments here", "another stream")


def _list(directory: Path) -> _Listed:
    return [(name, names.parse_file(name)) for name in names_in(directory)]


def _active_number(directory: Path, there: _Listed) -> int:
    """The number of the active segment: the greatest log file, unless something says that a greater one is missing.

    Raises:
        CorruptionError: the active log file is missing.
    """
    found = [parsed for _, parsed in there if parsed is not None]
    logs = [number for kind, number, _ in found if kind == "log"]
    sealed = [number for kind, number, _ in found if kind in ("seg", "cold")]
    active = max(logs, default=0)
    missing = 0
    if active <= max(sealed, default=0):
        missing = max(sealed, default=0) + 1
    elif is_left_behind(names.log_path(directory, active)):
        missing = active + 1
    if missing or not logs:
        path = names.log_path(directory, missing or 1)
        raise CorruptionError(str(path), "stream directory", 0, "the active log file", "no such file")
    return active


def _open_active(directory: Path, files: Files) -> tuple[int, LogFileLike, _Listed]:
    """Opens the active log of a directory in which others may be rolling and sealing at this moment, as it was seen.

    A look at a directory is not one moment of it: an error counts when nothing has changed since the look before.

    Raises:
        CorruptionError: the active log file is missing.
    """
    seen: _Listed = []
    while True:
        now = _list(directory)
        try:
            number = _active_number(directory, now)
            return number, files.open_log(names.log_path(directory, number), writable=False), now
        except (CorruptionError, FileNotFoundError):
            if now == seen:
                raise
            seen = now


def next_log(directory: Path, number: int) -> int | None:
    """The number of the newest log file after segment `number`, if there is one.

    A listing may miss both a log that goes while it is made and the one that comes. Logs go in order: where `number` is
    still there, so is its successor; where it is not, a newer one is, and the directory is listed until that shows. One
    without entries goes before its turn, though, but not before the log that it follows says that it was left behind.
    So nothing need be listed for a reader that looks at each call: there is no successor, and its log says of none.
    """
    own = names.log_path(directory, number)
    if not is_there(names.log_path(directory, number + 1)) and not is_left_behind(own) and is_there(own):
        return None
    seen: list[str] = []
    while True:
        listed = _list(directory)
        found = [parsed[1] for _, parsed in listed if parsed is not None and parsed[0] == "log"]
        newest = max(found, default=0)
        there = [name for name, _ in listed]
        if newest > number:
            return newest
        if number in found or there == seen:
            return None
        seen = there


def left_behind_mark(successor: int) -> tuple[int, bytes]:
    """Where and what is written into a log file's header once its successor is there for good.

    ``magic "DSKNEXT1" 8, segment number of the successor u64, CRC-32 (of zlib) of these 16 bytes u32``
    """
    body = _LEFT_BEHIND + successor.to_bytes(8, "little")
    return _LEFT_BEHIND_OFFSET, body + zlib.crc32(body).to_bytes(4, "little")


def is_left_behind(path: Path) -> bool:
    """Whether a log file says that it has a successor.

    Raises:
        StorageError: it cannot be read. An answer would be a guess, and the wrong one lets a log that was left behind
            be written to.
    """
    try:
        with wrapped(path, "read"), reading(path) as file:
            file.seek(_LEFT_BEHIND_OFFSET)
            mark = file.read(20)
    except OSError as error:
        if says_nothing(error):
            raise
        return False
    return mark == left_behind_mark(int.from_bytes(mark[8:16], "little"))[1]


def recover(
    directory: Path, files: Files, page: Page, options: Options, *, made: bool = False
) -> tuple[LogFileLike, Log, RecoveryReport, CorruptionError | None, int]:
    """Opens a stream that nobody else has open, and puts right what a crash left.

    What this process has `made` itself is durable as it made it, names and all, if nobody else was here before: that
    waits for the disk no more.

    Returns file, log, report, the fault of a rotten log, and the generation of the page.
    """
    began = time.perf_counter()
    report = RecoveryReport(directory, same_boot=page.same_boot)
    there = _list(directory)  # once, since nobody else is here: there may be thousands
    number = _active_number(directory, there)
    path = names.log_path(directory, number)
    file = files.open_log(path, writable=True)
    try:
        _make_solid(path, file)
        generation = page.renew()
        native, fault = _log_or_copy(directory, number, page.ctl, file, options)
        _check_owner(directory, there, number, native)
        fault = _settled(directory, files, file, native, fault=fault, report=report)
        if page.was_poisoned and fault is None:
            _rewrite(file, native)
            # The kernel may have given up such a page between the look at it and its copy: believed is what was copied.
            native, fault = _log_or_copy(directory, number, page.ctl, file, options)
            fault = _settled(directory, files, file, native, fault=fault, report=report)
        if not (made and page.was_new):
            file.flush()
            # A killed process may have left names that nobody has flushed yet.
            files.sync_dir(directory)
            files.sync_dir(directory.parent)
        if fault is None:
            report.findings += _tidy(directory, there, files, native, options)
            if not page.same_boot:
                frontier.raise_floor(native, file)
        if fault is not None:
            page.ctl.raise_flags(FLAG_ROTTEN)
        _, end, lsn, _ = native.tail
        # Where readers see what they saw, nobody is woken: who waits for more streams than may be open opens them in
        # turn, and would wake himself for ever.
        is_as_before = page.same_boot and not page.was_poisoned and page.was_visible == (number, end)
        page.ctl.publish(number, end, lsn, rings=not is_as_before)
    except BaseException as error:
        if isinstance(error, StorageError):
            # What a failed flush could not write counts as clean from now on: the next opening writes all of it anew.
            page.ctl.poison(f"a recovery failed: {error}")
        file.close()
        raise
    report.seconds = time.perf_counter() - began
    return file, native, report, fault, generation


def _settled(
    directory: Path,
    files: Files,
    file: LogFileLike,
    native: Log,
    *,
    fault: CorruptionError | None,
    report: RecoveryReport,
) -> CorruptionError | None:
    """Applies all frames, cuts what is torn, and reports what it found. Returns what is rotten, if anything is."""
    number = native.tail[0]
    if fault is not None:
        native.scan()
        path = names.log_path(directory, number)
        report.findings.append(Finding("rotten", path, fault.offset, 0, READ_ONLY, str(fault)))
        return fault
    found = settle_tail(directory, files, file, native)
    if found is None:
        return None
    report.findings.append(found)
    return fault_of(directory, number, native.scan()) if found.kind == "rotten" else None


def _scan_beside_writers(native: Log, page: Path) -> dict[str, Any] | None:
    """What a scan finds at the end of a log to which others may be appending at this moment; `page` is theirs.

    A frame of which a part is there is one that somebody is writing, where anybody has the stream open: what a crash
    left was put right before he had.

    A place that was empty when the scan came to it, and a durable frame behind it that came meanwhile, look like rot.
    Frames are written in order: when one is there, all before it are whole, and a second scan gets past them.
    """
    found: dict[str, Any] | None = native.scan()
    while found is not None:
        if found["kind"] == "torn" and is_held(page):
            return None
        again: dict[str, Any] | None = native.scan()
        if again is not None and again["offset"] == found["offset"]:
            return again
        found = again
    return None


def look(
    directory: Path, files: Files, page: Page, options: Options
) -> tuple[LogFileLike, Log, RecoveryReport | None, CorruptionError | None]:
    """Opens a stream for reading only: nothing is changed, what is torn is left out of sight."""
    began = time.perf_counter()
    number, file, there = _open_active(directory, files)
    native, fault = _log_or_copy(directory, number, page.ctl, file, options, apart=True)
    _check_owner(directory, there, number, native)
    found = _scan_beside_writers(native, directory / "ctl")
    _, end, lsn, _ = native.tail
    page.ctl.publish(number, end, lsn)
    report = RecoveryReport(directory)
    path = names.log_path(directory, number)
    if fault is not None:
        report.findings.append(Finding("rotten", path, fault.offset, 0, READ_ONLY, str(fault)))
        return file, native, report, fault
    if found is None:
        return file, native, None, None
    size = found["end"] - found["offset"]
    report.findings.append(Finding(found["kind"], path, found["offset"], size, "left out of sight"))
    report.seconds = time.perf_counter() - began
    return file, native, report, fault_of(directory, number, found)


def _make_solid(path: Path, file: LogFileLike) -> None:
    """A sparse copy has holes where zeros were: touching one in the mapping would end the process on a full disk."""
    with wrapped(path, "look at"), reading(path) as looked:
        fd = looked.fileno()
        size = os.fstat(fd).st_size
        at = os.lseek(fd, 0, os.SEEK_HOLE) if size else 0  # an empty file has nothing that could be sought
        while at < size:
            file.pwrite(at, bytes(min(4096 - at % 4096, size - at)))
            at = os.lseek(fd, at, os.SEEK_HOLE)


def _rewrite(file: LogFileLike, native: Log) -> None:
    """Writes every frame again: after a failed flush the kernel may call pages clean that never reached the disk.

    And the zeros behind them: on the disk there may still be what was cut off.
    """
    end = max(native.tail[1], file.size_bytes)
    offset = 0
    while offset < end:
        size = min(1 << 20, end - offset)
        file.pwrite(offset, file.native.read(offset, size))
        offset += size


def cure(directory: Path, page: Page, file: LogFileLike, native: Log, options: Options) -> None:
    """Reopens a poisoned stream that others still have open; the caller holds the append lock.

    Raises:
        StorageError: what the others have seen is not all there any more, or cannot be written anew.
    """
    if not page.ctl.flags & POISONED:
        return
    native.scan()
    _rewrite(file, native)
    copied = native_log(directory, native.tail[0], page.ctl, file, options)
    copied.scan()
    if copied.tail != native.tail:
        path, why = names.log_path(directory, native.tail[0]), "some of it is lost: close the stream everywhere first"
        raise StorageError(str(path), "write anew", errno.EIO, why)
    file.flush()
    number, end, lsn, _ = native.tail
    page.ctl.publish(number, end, lsn)
    page.ctl.clear_flags(1)


def _tidy(directory: Path, there: _Listed, files: Files, native: Log, options: Options) -> list[Finding]:
    """Finishes what was interrupted. The log is durable when this runs, so what it does not list is truly dropped."""
    findings: list[Finding] = []
    active = native.tail[0]
    listed = {view.number: view.generation for view in native.segments()}
    oldest = min(listed, default=active)
    spare.keep(directory, files, active, listed, [name for name, _ in there])
    present: set[int] = set()
    lost = superseded.compacted_and_lost(listed, [name for name, _ in there])
    sealed = {parsed[1] for _, parsed in there if parsed is not None and parsed[0] == "seg" and parsed[2] == 0}
    for name, parsed in there:
        if parsed is not None and _is_as_listed(parsed, listed, sealed):
            # Whose it is shows when it is read: of a stream of thousands of segments each open would read them all.
            present.add(parsed[1])
            continue
        path = directory / name
        if path.suffix == ".tmp":
            findings.append(_end_unfinished(files, path))
        elif parsed is not None and parsed[1] < active:
            kind, number, generation = parsed
            why = _why_left(path, native)
            if not why and superseded.is_of_use(number, generation, listed, lost):
                why = "what it was compacted into is missing"
            if why:
                findings.append(Finding("unknown", path, 0, 0, f"left as it is: {why}"))
                continue
            if number not in listed or generation < listed[number]:
                if kind == "log" and options.audit and number > oldest:
                    audit.rescue(directory, files, native, number, options.compression_level)
                findings.append(_removed(files, path, "dropped", "the log had dropped it"))
            elif generation > listed[number]:
                findings.append(_put_aside(directory, files, path))
            else:
                findings += _drop_sealed_source(directory, files, native, path, number)
    for path in audit.outlived(directory, native, oldest, [name for name, _ in there]):
        findings.append(_removed(files, path, "dropped", "the segments of its time are gone"))
    if findings:
        files.sync_dir(directory)  # or a later opening would find the same again, and report it
    missing = [names.segment_path(directory, number, listed[number]) for number in sorted(set(listed) - present)]
    return findings + [
        Finding("missing", path, 0, 0, "none: reads of its range raise CorruptionError") for path in missing
    ]


def _end_unfinished(files: Files, path: Path) -> Finding:
    if is_folder(path) and not is_link(path):  # nothing of ours is one, so what is in it is somebody's
        return Finding("unknown", path, 0, 0, "left as it is: a stream has no directory of such a name")
    return _removed(files, path, "unfinished", "it was never part of the stream")


def _removed(files: Files, path: Path, kind: str, why: str) -> Finding:
    """Removes what the stream does not need; where it cannot be (another user's, say), that keeps nobody out."""
    try:
        files.unlink(path)
    except StorageError as error:
        return Finding("unknown", path, 0, 0, f"left as it is, though {why}: {error}")
    return Finding(kind, path, 0, 0, f"removed: {why}")


def _is_as_listed(parsed: tuple[str, int, int], listed: dict[int, int], sealed: set[int]) -> bool:
    """Whether a file is there as the log says, and not beside the one that was made of it."""
    kind, number, generation = parsed
    return listed.get(number) == generation and not (kind == "log" and number in sealed)


def _why_left(path: Path, native: Log) -> str:
    """Why a file is left alone, whose it is not clear or which is another stream's: perhaps the active log is the
    stranger here. Empty where it is this stream's.
    """
    owner = _owner(path)
    if owner == bytes(native.uuid):
        return ""
    return "it could not be read" if owner is None else "it does not belong to this log"


def _owner(path: Path) -> bytes | None:
    """The uuid in the header of a segment's file, log or sealed, which have it at one place. None if the disk fails."""
    try:
        with reading(path) as file:
            return file.read(32)[16:]
    except OSError as error:
        if means_are_short(error):
            raise  # says nothing of the file
        return None if error.errno == errno.EIO else b""  # a link to nothing, say


def _sound_owner(path: Path) -> bytes | None:
    """The same, where the header is sound."""
    layout = LOG_HEADER if path.suffix == ".log" else SEGMENT_HEADER
    with contextlib.suppress(OSError), reading(path) as file:
        header = layout.sound(file.read(layout.size))
        return None if header is None else bytes(header["uuid"])
    return None


def _put_aside(directory: Path, files: Files, path: Path) -> Finding:
    quarantine = directory / "quarantine"
    refuse_link(quarantine)
    files.mkdir(quarantine)
    target = quarantine / f"{path.name}-{time.time_ns():x}"
    files.rename(path, target)
    files.sync_dir(quarantine)
    files.sync_dir(directory)
    return Finding("unknown", path, 0, status(target).st_size, f"moved to {target}: the log does not list it")


def _drop_sealed_source(directory: Path, files: Files, native: Log, path: Path, number: int) -> list[Finding]:
    """A crash between sealing a segment and removing its log file: the log file goes, if the sealed one is sound."""
    view = next(view for view in native.segments() if view.number == number)
    with contextlib.suppress(CorruptionError):
        sealed = open_sealed(directory, native, view)
        if sealed is not None and read_back(sealed) == view.entries:
            name_anew(files, names.segment_path(directory, number, 0))
            return [_removed(files, path, "dropped", "the sealed file has all of it")]
    return []
