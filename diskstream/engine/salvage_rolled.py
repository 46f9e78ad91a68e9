"""What a log began with, from the rolled log before it: the frames there lead to the very state of that moment.

A sealed segment has a copy of the snapshot behind it. One that is not sealed yet has none, and needs none: its own
snapshot and its frames say the same, deletes, trims, groups and settings included.
"""

import secrets
from pathlib import Path

from diskstream._native import LOG_HEADER_BYTES
from diskstream.engine import names, recovery
from diskstream.engine.files import Files, LogFileLike
from diskstream.engine.frames import Frame, frame_at, read_all
from diskstream.engine.layouts import FRAME_HEADER
from diskstream.engine.looks import is_there
from diskstream.engine.page import Page
from diskstream.errors import CorruptionError
from diskstream.options import Options

__all__ = ["snapshot_behind"]


def snapshot_behind(directory: Path, number: int, own: Frame | None, head: bytes, first: Frame | None) -> bytes:
    """The snapshot frame that log `number` began with; none where the log before it does not lead there.

    Args:
        directory: the stream's.
        number: of the log whose snapshot is damaged.
        own, head: that snapshot, where its header is sound, and the bytes of the header.
        first: the frame behind it, where there is one.

    Raises:
        NewerFormatError: a later version wrote in the log before.
        StorageError: it cannot be read.
    """
    path = names.log_path(directory, number - 1)
    if number < 2 or not is_there(path) or read_all(path)[1]:  # noqa: PLR2004  # bad blocks: not to be mapped
        return b""
    frame = _end_of(directory, number - 1)
    made = frame_at(frame, 0, None)
    if made is None:
        return b""
    # Frames that are missing at the end of the log before would make it an earlier state.
    if own is None and first is not None and first.lsn == made.lsn + 1:
        return frame
    if own is None:  # nothing but the log before tells what it was
        lost_here = first is None or _have_room(first, made, len(frame))
        return frame if lost_here and recovery.is_left_behind(path) else b""
    if (made.lsn, made.chain) != (own.lsn, own.chain):
        return b""
    # Under its own header, where that fits, it is the same to the byte: frames behind it stay in their chain.
    return (head if made.crc == own.crc else frame[: len(head)]) + frame[len(head) :]


def _have_room(first: Frame, made: Frame, size_bytes: int) -> bool:
    """Whether the frames between the snapshot and the first that is whole can have stood there: as one bad block takes
    them. They are told as lost. Where they cannot, they were in the log before.
    """
    lost = first.lsn - made.lsn - 1
    return 0 < lost * FRAME_HEADER.size <= first.offset - LOG_HEADER_BYTES - size_bytes


def _end_of(directory: Path, number: int) -> bytes:
    """The snapshot of the state behind all frames of a rolled log; none where it is damaged."""
    page = Page.private()
    file: LogFileLike | None = None
    try:
        file = Files().open_log(names.log_path(directory, number), writable=False)
        native = recovery.native_log(directory, number, page.ctl, file, Options(), apart=True)
        try:
            return b"" if native.scan() is not None else native.next_segment(number + 1, secrets.randbits(32))[1]
        finally:
            native.close()
    except (CorruptionError, ValueError):
        return b""
    finally:
        if file is not None:
            file.close()
        page.close()
