"""The second copy of the active segment's snapshot, where no segment before it holds one.

::

    NNNNNNNN.state      the snapshot frame of segment N, byte for byte as it stands in its log: log.md, "Frame header"

The sealed segment N - 1 has that copy in itself. In a queue whose entries are gone when the log rolls, and after a
compaction, there is no such file: then this one stands for it, so that one bad block never takes a stream's state. It
is durable under its name before the file goes that made it unnecessary.
"""

import contextlib
import os
from collections.abc import Callable, Container
from pathlib import Path

from diskstream._native import LOG_HEADER_BYTES
from diskstream.engine import names
from diskstream.engine.files import Files, wrapped
from diskstream.errors import CorruptionError, DiskFullError

__all__ = ["keep", "read"]

_FRAME_HEADER_BYTES = 64
_AT_ONCE = 8 << 20


def keep(directory: Path, files: Files, active: int, listed: Container[int]) -> None:
    """Makes the copy for segment `active`, if it is needed and not there; removes those of segments before it.

    The caller holds the maintenance lock, or is alone, and makes the directory durable where something was removed. A
    full disk must not stand in the way of removing files: then there is no copy for now.

    Args:
        directory: the stream's.
        files: what to write with.
        active: the number of the active segment.
        listed: the numbers of the segments that the log lists.
    """
    target = names.state_path(directory, active)
    if active > 1 and active - 1 not in listed and not target.exists():
        with contextlib.suppress(DiskFullError, CorruptionError, FileNotFoundError):
            _copy(names.log_path(directory, active), target, files)
    for path in sorted(directory.iterdir()):
        number = names.state_number(path.name)
        if number is not None and number < active:
            files.unlink(path)


def _copy(log: Path, target: Path, files: Files) -> None:
    temporary = target.with_name(target.name + ".tmp")
    files.unlink(temporary)  # of a process that was killed here
    with wrapped(log, "read"):
        fd = os.open(log, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with wrapped(log, "read"):
            head = os.pread(fd, 8, LOG_HEADER_BYTES)
        length = _FRAME_HEADER_BYTES + (int.from_bytes(head[4:8], "little") + 7) // 8 * 8
        try:
            with files.create(temporary) as new:
                _fill(fd, length, log, new.write)
                new.sync()
            files.rename(temporary, target)
        except BaseException:
            files.unlink(temporary)
            raise
    finally:
        os.close(fd)
    files.sync_dir(target.parent)


def _fill(fd: int, length: int, log: Path, write: Callable[[bytes], None]) -> None:
    at = 0
    while at < length:
        with wrapped(log, "read"):
            data = os.pread(fd, min(_AT_ONCE, length - at), LOG_HEADER_BYTES + at)
        if not data:
            raise CorruptionError(str(log), "snapshot frame", LOG_HEADER_BYTES, f"{length} bytes", f"{at} bytes")
        write(data)
        at += len(data)


def read(directory: Path, number: int) -> bytes:
    """The copy for segment `number`, unchecked; nothing where there is none that can be read.

    Whoever uses it checks the frame's own CRCs.
    """
    try:
        return names.state_path(directory, number).read_bytes()
    except OSError:
        return b""
