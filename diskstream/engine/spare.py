"""The second copy of the active segment's snapshot, where no segment before it holds one.

::

    NNNNNNNN.state      the snapshot frame of segment N, byte for byte as it stands in its log: log.md, "Frame header"

The sealed segment N - 1 has that copy in itself. In a queue whose entries are gone when the log rolls, and after a
compaction, there is no such file: then this one stands for it, so that one bad block never takes a stream's state. It
is durable under its name before the file goes that made it unnecessary.
"""

import contextlib
import os
from collections.abc import Container, Iterable
from pathlib import Path
from typing import BinaryIO

from diskstream._native import LOG_HEADER_BYTES, checksum
from diskstream.engine import names
from diskstream.engine.files import Files, reading, wrapped
from diskstream.engine.layouts import MAX_SNAPSHOT_BYTES
from diskstream.engine.looks import is_there
from diskstream.errors import CorruptionError, DiskFullError

__all__ = ["damaged", "is_sound", "keep", "read", "snapshot_frame", "sound_frame"]

_FRAME_HEADER_BYTES = 64
_MAX_FRAME_BYTES = _FRAME_HEADER_BYTES + MAX_SNAPSHOT_BYTES
_SALT_OFFSET = 12  # in a log's header


def keep(directory: Path, files: Files, active: int, listed: Container[int], present: Iterable[str]) -> bool:
    """Makes the copy for segment `active`, if it is needed and not there; removes those of segments before it.

    Returns False where the snapshot itself is damaged: the files of the segment before have all there is to make it
    anew from.

    The caller holds the maintenance lock, or is alone, and makes the directory durable where something was removed. A
    full disk must not stand in the way of removing files: then there is no copy for now.

    Args:
        directory: the stream's.
        files: what to write with.
        active: the number of the active segment.
        listed: the numbers of the segments that the log lists.
        present: the names of what is in the directory, as it was seen since the lock was taken.
    """
    target, is_whole = names.state_path(directory, active), True
    if active > 1 and active - 1 not in listed and not is_there(target):
        try:
            with contextlib.suppress(DiskFullError, FileNotFoundError):
                _copy(names.log_path(directory, active), target, files)
        except CorruptionError:
            is_whole = False
    for name in present:
        number = names.state_number(name)
        if number is not None and number < active:
            files.unlink(directory / name)
    return is_whole


def _copy(log: Path, target: Path, files: Files) -> None:
    temporary = target.with_name(target.name + ".tmp")
    files.unlink(temporary)  # of a process that was killed here
    frame = sound_frame(log)  # a bad block must not become the copy that is to help against it
    try:
        with files.create(temporary) as new:
            new.write(frame)
            new.sync()
        files.rename(temporary, target)
    except BaseException:
        files.unlink(temporary)
        raise
    files.sync_dir(target.parent)


def snapshot_frame(log: Path) -> bytes:
    """The first frame of a log file, unchecked.

    Raises:
        FileNotFoundError: it is gone: sealed or unlinked meanwhile.
        StorageError: it cannot be read.
    """
    with wrapped(log, "read"), reading(log) as file:
        file.seek(LOG_HEADER_BYTES)
        head = file.read(_FRAME_HEADER_BYTES)
        length = int.from_bytes(head[4:8], "little")
        return head + _at_most(file, (length + 7) // 8 * 8)


def _at_most(file: BinaryIO, size_bytes: int) -> bytes:
    """So much, or all that there is: reading takes memory for what it is asked for, which a bad block may have said."""
    return file.read(min(size_bytes, max(os.fstat(file.fileno()).st_size - file.tell(), 0)))


def sound_frame(log: Path) -> bytes:
    """The same, checked.

    Raises:
        CorruptionError: it is damaged.
        FileNotFoundError: it is gone: sealed or unlinked meanwhile.
        StorageError: it cannot be read.
    """
    frame = snapshot_frame(log)
    if not is_sound(frame):
        raise damaged(log)
    return frame


def damaged(log: Path) -> CorruptionError:
    """What is raised of a log file whose snapshot is damaged."""
    return CorruptionError(str(log), "snapshot frame", LOG_HEADER_BYTES, "a sound frame", "a damaged one")


def is_sound(frame: bytes) -> bool:
    """Whether both checksums of a frame are right, and nothing follows it."""
    length = int.from_bytes(frame[4:8], "little")
    end = _FRAME_HEADER_BYTES + length
    return (
        len(frame) == _FRAME_HEADER_BYTES + (length + 7) // 8 * 8
        and frame[60:64] == checksum(frame[:60]).to_bytes(4, "little")
        and frame[56:60] == checksum(frame[_FRAME_HEADER_BYTES:end]).to_bytes(4, "little")
    )


def read(directory: Path, number: int) -> bytes:
    """The copy for segment `number`; nothing where there is none that is sound and of the log that is there."""
    try:
        with reading(names.state_path(directory, number)) as file:
            frame = _at_most(file, _MAX_FRAME_BYTES + 1)
    except OSError:
        return b""
    return frame if is_sound(frame) and _is_of(names.log_path(directory, number), frame) else b""


def _is_of(log: Path, frame: bytes) -> bool:
    """Whether anything that can be read at the beginning of the log bears the salt of the copy; or there is no log."""
    try:
        with reading(log) as file:
            head = file.read(LOG_HEADER_BYTES + len(frame) + _FRAME_HEADER_BYTES)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    # The header, the first frame's, or that of the next one: a bad block does not take all of them.
    places = (_SALT_OFFSET, LOG_HEADER_BYTES, LOG_HEADER_BYTES + len(frame))
    return any(head[at : at + 4] == frame[:4] for at in places)
