"""What a crash left at the end of a log: whole frames are taken in, torn ones kept elsewhere and cut, rot stays."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from diskstream._native import Ctl, Log
from diskstream.engine import names
from diskstream.engine.files import Files, LogFileLike
from diskstream.engine.looks import refuse_link
from diskstream.errors import CorruptionError, StorageError

__all__ = ["READ_ONLY", "Finding", "KeptFault", "RecoveryReport", "fault_of", "rot", "settle_left", "settle_tail"]

READ_ONLY = "left as it is; the stream is read-only"


@dataclass(frozen=True)
class Finding:
    """One thing that an opening found.

    Attributes:
        kind: ``torn``, ``rotten``, ``missing``, ``unfinished``, ``dropped``, ``unknown`` or ``reserved``.
        path: the file it is about.
        offset: where in it.
        size_bytes: how much of it.
        action: what was done.
        detail: what was expected and found.
    """

    kind: str
    path: Path
    offset: int
    size_bytes: int
    action: str
    detail: str = ""


@dataclass
class RecoveryReport:
    """What opening one stream found, and how long it took.

    Attributes:
        directory: the stream's directory.
        findings: in the order in which they were found.
        seconds: what opening took.
        same_boot: whether the machine had been running since the stream was last open; no power was cut then.
    """

    directory: Path
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0
    same_boot: bool = False


class KeptFault:
    """The fault of an open log, without the frames in which it was found; each look gives one of its own to be raised.

    Whether there is one stands in the log's `is_damaged`, which costs a reader nothing to ask. An
    error that is raised again and again keeps the frames of all who met it, and what these hold.
    """

    # Not by vars(): a log whose dictionary somebody asked for is looked up more slowly for ever.

    def __get__(self, log: Any, _owner: type | None = None) -> CorruptionError | None:
        """A fresh one; None where there is none."""
        kept: CorruptionError | None = log._fault
        if kept is None:
            return None
        fresh = type(kept).__new__(type(kept), *kept.args)
        vars(fresh).update(vars(kept))
        return fresh

    def __set__(self, log: Any, fault: CorruptionError | None) -> None:
        """Keeps it."""
        log.is_damaged = fault is not None
        log._fault = None if fault is None else fault.with_traceback(None)


def fault_of(directory: Path, number: int, found: dict[str, Any] | None) -> CorruptionError | None:
    """The error that a rotten log is read with, from what a scan found."""
    if found is None or found["kind"] != "rotten":
        return None
    at, synced = found["evidence"]
    return CorruptionError(
        str(names.log_path(directory, number)),
        found.get("what", "frame"),
        found["offset"],
        f"{found.get('expected', 'a frame')} (frame {found['lsn']} was durable, says the frame at offset {at}, "
        f"which knows of {synced})",
        found.get("found", "something else"),
    )


def rot(directory: Path, native: Log, found: Finding) -> CorruptionError:
    """The error that a log is read with at whose end rot was found."""
    seen = fault_of(directory, native.tail[0], native.scan())
    return seen or CorruptionError(str(found.path), "log", found.offset, "a frame", found.detail or "something else")


def settle_tail(directory: Path, files: Files, file: LogFileLike, native: Log) -> Finding | None:
    """Applies the whole frames behind the tail, and cuts what is torn: copy, zero, flush, in this order.

    Returns what was found: torn (and cut), rotten (and left), or None.
    """
    found = _keep_tail(directory, files, file, native)
    if found is not None and found.kind == "torn":
        _cut(file, found)
    return found


def _keep_tail(directory: Path, files: Files, file: LogFileLike, native: Log) -> Finding | None:
    """Applies the whole frames behind the tail, and copies what is torn; the log stays as it is."""
    found = native.scan()
    if found is None:
        return None
    path = names.log_path(directory, native.tail[0])
    offset, size = found["offset"], found["end"] - found["offset"]
    detail = f"expected {found.get('expected')}, found {found.get('found')}"
    if found["kind"] == "rotten":
        return Finding("rotten", path, offset, size, READ_ONLY, detail)
    quarantine = directory / "quarantine"
    refuse_link(quarantine)
    files.mkdir(quarantine)
    kept_at = quarantine / f"{path.stem}-{offset:012d}-{time.time_ns():x}.torn"
    try:
        with files.create(kept_at) as kept:
            kept.write(file.native.read(offset, size))
            kept.sync()
    except BaseException:
        files.unlink(kept_at)  # a disk that is full is not to be filled by halves
        raise
    files.sync_dir(quarantine)
    files.sync_dir(directory)
    return Finding("torn", path, offset, size, f"cut; the bytes are kept in {kept_at}", detail)


def _cut(file: LogFileLike, torn: Finding) -> None:
    file.pwrite(torn.offset, bytes(torn.size_bytes))
    file.flush()


def settle_left(directory: Path, files: Files, file: LogFileLike, native: Log, ctl: Ctl) -> Finding | None:
    """The same for what a killed process left under the hands of others, who go on; and makes it durable.

    Raises:
        StorageError: the disk said no. Where that was to the log itself, the stream takes no more writes; where what is
            torn could not be copied, the log is as it was, and whoever comes next tries again.
    """
    found = _keep_tail(directory, files, file, native)
    try:
        if found is not None and found.kind == "torn":
            _cut(file, found)
        file.flush()
    except StorageError as error:
        ctl.poison(f"what a killed process left could not be made durable: {error}")
        raise
    return found
