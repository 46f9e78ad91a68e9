"""The roll: from a full segment to the next, or from one whose file somebody removed by hand."""

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from diskstream._native import LOG_HEADER_BYTES
from diskstream.engine import names, recovery
from diskstream.engine.files import unless_done
from diskstream.engine.looks import is_there
from diskstream.engine.page import FLAG_CHECK, FLAG_MOVED
from diskstream.engine.whereabouts import refuse_elsewhere
from diskstream.errors import LimitError, StorageError

if TYPE_CHECKING:
    from diskstream.engine.log import StreamLog

__all__ = ["INITIAL_BYTES", "MAX_SEGMENTS", "begin_next", "finish", "put_back"]

INITIAL_BYTES = 16 << 10
MAX_SEGMENTS = 1 << 24  # what a position word of the control page has room for
_COPIED_BYTES = 1 << 20


def begin_next(log: "StreamLog") -> None:
    """Begins the next segment; the caller holds the append lock.

    All of the old segment is durable before the new one exists, or a crash in between would look like rot. From
    the rename on the new segment is the stream, so a failure after it closes the stream to writers.

    Raises:
        LimitError: there are no numbers left.
        StorageError: the disk said no.
    """
    number = log.native.tail[0] + 1
    if number >= MAX_SEGMENTS:
        raise LimitError("the number of a segment", MAX_SEGMENTS - 1, number)
    refuse_elsewhere(log.directory, log.page)
    pending = log.pending.for_roll()
    log.retry(log.native.flush, held=True)
    copy = None if _has_name(log) else _copied_back(log)
    header, frame = log.native.next_segment(number, secrets.randbits(32), pending)
    path = names.log_path(log.directory, number)
    temporary = path.with_suffix(".log.tmp")
    size = max(INITIAL_BYTES, LOG_HEADER_BYTES + len(frame) + 4096)
    log.files.unlink(temporary)  # of a process that was killed here
    try:
        with log.files.create(temporary) as new:
            new.write(header + frame + bytes(-(-size // 4096) * 4096 - len(header) - len(frame)))
            new.sync()
    except BaseException:
        log.files.unlink(temporary)
        raise
    # From the rename on nobody may append to the old segment: whatever ends this between here and the publishing, a
    # death, an exception of a signal handler or a failing disk, whoever comes next looks whether the new one is there.
    log.ctl.raise_flags(FLAG_CHECK)
    try:
        log.files.rename(temporary, path)
    except StorageError:
        if not is_there(path):
            log.ctl.clear_flags(FLAG_CHECK)
            log.files.unlink(temporary)
        raise
    _enter(log, number)
    log.ctl.clear_flags(FLAG_CHECK)
    if copy is not None:
        _mark_left_behind(log, copy)
    log.on_roll()


def finish(log: "StreamLog") -> None:
    """Goes on in the segment behind the present one, if somebody who began it was stopped before he published it.

    The caller holds the append lock, and publishes where the log ends.

    Raises:
        StorageError: the disk said no; the stream takes no more writes, unless a file could not be opened.
    """
    number = log.native.tail[0] + 1
    if is_there(names.log_path(log.directory, number)):
        refuse_elsewhere(log.directory, log.page)
        _enter(log, number)


def _enter(log: "StreamLog", number: int) -> None:
    try:
        log.files.sync_dir(log.directory)
        # Should the new file get lost, the old one must not be taken for the active one.
        log.file.pwrite_sync(*recovery.left_behind_mark(number))
        log.enter(number)
        _, end, lsn, _ = log.native.tail
        log.ctl.publish(number, end, lsn)
    except StorageError as error:
        if error.action in ("open", "map"):
            raise  # no descriptor, no memory: nothing was tried that would prove less a second time, and the flag stays
        log.ctl.poison(f"the change to segment {number} failed: {error}")
        raise


def _has_name(log: "StreamLog") -> bool:
    """False where the active log, which this process has open, has no name any more, in a directory that is in place.

    That of a whole directory that went is for others to say.
    """
    number = log.native.tail[0]
    if is_there(names.log_path(log.directory, number)) or log.page.is_elsewhere():
        return True
    # Who rolls publishes the next number before anybody seals, and removes, what was left behind.
    return bool(log.ctl.flags & FLAG_MOVED) or log.ctl.written[0] != number


def put_back(log: "StreamLog") -> None:
    """Where somebody removed the active log alone, it is put back, and left behind: everybody has the other one open.

    Raises:
        StreamMoved: the stream is gone from here.
        StorageError: the disk said no. The next look tries again, as long as a process has the log open.
    """
    if _has_name(log):
        return
    with log.locked():
        log.prepare()
        if not _has_name(log):
            log.roll_held(even_empty=True)


def _copied_back(log: "StreamLog") -> Path:
    """Gives what is in the open file, which nobody appends to meanwhile, the name that it had; returns that."""
    path, file = names.log_path(log.directory, log.native.tail[0]), log.file
    temporary = path.with_suffix(".log.tmp")
    log.files.unlink(temporary)
    with unless_done(log.files, temporary):
        with log.files.create(temporary) as new:
            for offset in range(0, file.size_bytes, _COPIED_BYTES):
                new.write(file.native.read(offset, min(_COPIED_BYTES, file.size_bytes - offset)))
            new.sync()
        log.files.rename(temporary, path)
    return path


def _mark_left_behind(log: "StreamLog", path: Path) -> None:
    file = log.files.open_log(path, writable=True)
    try:
        file.pwrite_sync(*recovery.left_behind_mark(log.native.tail[0]))
    finally:
        file.close()
