"""What the shared page of a stream says of durability, looked at without opening it: for who must not disturb."""

import os
import struct
from dataclasses import dataclass
from pathlib import Path

from diskstream._native import CTL_BYTES
from diskstream.engine.files import open_regular
from diskstream.engine.page import MAGIC, POISONED, VERSION, boot_id

__all__ = ["Peek", "peek"]

_HEAD = struct.Struct("<8sII16s")  # magic, version, flags, boot
_POSITIONS_AT, _POSITIONS = 256, struct.Struct("<QQQ")  # written, visible, durable
_ROTTEN = 8
_OFFSET_BITS = 40


@dataclass(frozen=True)
class Peek:
    """Hints of one moment, from a page that others are changing.

    Attributes:
        unflushed_bytes: of frames written, those that are not known to be on disk; None where the page is of an
            earlier boot, or is just being made.
        is_poisoned: whether a write or flush failed, so that the stream takes no more.
        is_rotten: whether its log was found damaged.
    """

    unflushed_bytes: int | None
    is_poisoned: bool
    is_rotten: bool


def peek(directory: Path) -> Peek | None:
    """What the page of a stream says; None where there is none that can be read."""
    try:
        descriptor = open_regular(directory / "ctl")
        try:
            page = os.pread(descriptor, CTL_BYTES, 0)
        finally:
            os.close(descriptor)
    except OSError:
        return None
    if len(page) < _POSITIONS_AT + _POSITIONS.size:
        return None
    magic, version, flags, boot = _HEAD.unpack_from(page)
    if magic != MAGIC or version != VERSION:
        return None
    return Peek(
        _unflushed(page) if boot == boot_id() else None,
        is_poisoned=bool(flags & POISONED),
        is_rotten=bool(flags & _ROTTEN),
    )


def _unflushed(page: bytes) -> int:
    written: int
    durable: int
    written, _, durable = _POSITIONS.unpack_from(page, _POSITIONS_AT)
    offset = (1 << _OFFSET_BITS) - 1
    if durable >= written:
        return 0
    # A segment that was left behind was flushed first.
    return (written & offset) - (durable & offset if durable >> _OFFSET_BITS == written >> _OFFSET_BITS else 0)
