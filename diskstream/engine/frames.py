"""The frames of a log file one by one, past those that are damaged: what is whole, and what lies between.

A frame counts by itself: its two checksums, the salt of its file, a sequence number above that of the frame before. So
what stands behind a damaged place is found again, though the chain is broken there.
"""

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from diskstream._native import LOG_HEADER_BYTES, checksum
from diskstream.engine.files import open_regular, wrapped
from diskstream.engine.layouts import (
    ENTRIES,
    FRAME_HEADER,
    FRONTIER_SLOT,
    KINDS,
    LOG_HEADER,
    MAX_PAYLOAD_BYTES,
    MAX_SNAPSHOT_BYTES,
    SLOT_OFFSETS,
    SNAPSHOT,
    padded,
)
from diskstream.engine.wire import ID
from diskstream.errors import NewerFormatError

__all__ = ["Frame", "Gap", "encode", "find_salt", "frame_at", "frontier", "halves", "header_block", "read_all", "walk"]

_READ_BYTES = 1 << 20
_BLOCK_BYTES = 4096
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame of which at least the header is sound.

    Attributes:
        offset, size: where it begins, and its bytes with header and padding.
        whole: whether its payload is sound too.
    """

    offset: int
    size: int
    kind: int
    flags: int
    entries: int
    lsn: int
    synced: int
    chain: int
    time: int
    first: ID
    length: int
    crc: int
    whole: bool

    @property
    def end(self) -> int:
        """Where the next frame begins."""
        return self.offset + self.size

    def payload(self, data: bytes) -> bytes:
        """Its payload."""
        start = self.offset + FRAME_HEADER.size
        return data[start : start + self.length]


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes that are no frame.

    Attributes:
        header: the frame that stood here, where its header is sound.
        lost: frames that are missing here by the sequence numbers; None where nothing follows.
    """

    offset: int
    end: int
    header: Frame | None
    lost: int | None


def read_all(path: Path) -> tuple[bytes, list[int]]:
    """A whole file, and the offsets of blocks that the disk does not give: they are read as zeros."""
    bad: list[int] = []
    parts: list[bytes] = []
    with wrapped(path, "open"):
        fd = open_regular(path)
    try:
        with wrapped(path, "look at"):
            at, size = 0, os.fstat(fd).st_size
        while at < size:
            step = _READ_BYTES
            try:
                part = os.pread(fd, step, at)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                part = _read_block(fd, at, bad)
            if not part:
                break
            parts.append(part)
            at += len(part)
    finally:
        os.close(fd)
    return b"".join(parts), bad


def _read_block(fd: int, at: int, bad: list[int]) -> bytes:
    try:
        return os.pread(fd, _BLOCK_BYTES - at % _BLOCK_BYTES, at)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        bad.append(at)
        return bytes(_BLOCK_BYTES - at % _BLOCK_BYTES)


def frame_at(data: bytes, offset: int, salt: int | None, path: str = "") -> Frame | None:
    """The frame at an offset, if its header is sound; `salt` is None where any will do.

    Raises:
        NewerFormatError: it is sound, and a later version wrote it.
    """
    if salt is not None and data[offset : offset + 4] != salt.to_bytes(4, "little"):
        return None
    head = FRAME_HEADER.sound(data, offset)
    if head is None or head["length"] > (MAX_SNAPSHOT_BYTES if head["kind"] == SNAPSHOT else MAX_PAYLOAD_BYTES):
        return None
    kind, flags, length = head["kind"], head["flags"], head["length"]
    if kind not in KINDS or flags & ~int(kind == ENTRIES) or head["zero"] != b"\0\0":
        why = f"a frame at offset {offset} is not of this version: {_unknown(kind, flags)}"
        raise NewerFormatError(path, "a frame", _FORMAT, kind, why)
    start = offset + FRAME_HEADER.size
    whole = start + length <= len(data) and checksum(data[start : start + length]) == head["payload_crc"]
    behind = head["behind"]
    return Frame(
        offset=offset,
        size=FRAME_HEADER.size + padded(length),
        kind=kind,
        flags=flags,
        entries=head["entries"],
        lsn=head["lsn"],
        synced=0 if behind == 2**32 - 1 else max(0, head["lsn"] - behind),
        chain=head["chain"],
        time=head["time"],
        first=(head["first_ms"], head["first_seq"]),
        length=length,
        crc=head["crc"],
        whole=whole,
    )


def _unknown(kind: int, flags: int) -> str:
    """What of the header of a frame is not known."""
    if kind not in KINDS:
        return f"it is of kind {kind}"
    if flags & ~int(kind == ENTRIES):
        return f"it has the flags {flags:#04x}"
    return "bytes 10 and 11 of the header, which are reserved, are not zero"


def halves(frame: Frame, payload: bytes) -> tuple[bytes, bytes]:
    """The rows of an entries frame, and the records behind them."""
    if not frame.flags:
        return payload, b""
    size = int.from_bytes(payload[-4:], "little")
    if size > len(payload) - 4:
        return payload, b""
    return payload[: len(payload) - 4 - size], payload[len(payload) - 4 - size : -4]


def find_salt(data: bytes) -> int | None:
    """The salt that the frames of a log have, where its header does not say: that of the first sound frame."""
    for offset in SLOT_OFFSETS:
        slot = FRONTIER_SLOT.sound(data, offset)
        if slot is not None:
            return int(slot["salt"])
    for offset in range(LOG_HEADER_BYTES, len(data) - FRAME_HEADER.size + 1, 8):
        if data[offset : offset + 4] != b"\0\0\0\0" and data[offset + 8] in KINDS:
            found = frame_at(data, offset, None)
            if found is not None and found.whole:
                return int.from_bytes(data[offset : offset + 4], "little")
    return None


def _resume(data: bytes, at: int, end: int, *, salt: int, lsn: int, path: str) -> int:
    """Where the next whole frame with a greater sequence number begins; `end` where none does."""
    word = salt.to_bytes(4, "little")
    while (at := data.find(word, at, end)) >= 0:
        if at % 8 == 0:
            found = frame_at(data, at, salt, path)
            if found is not None and found.whole and found.lsn > lsn and found.kind != SNAPSHOT:
                return at
        at += 1
    return end


def walk(data: bytes, salt: int, start: int, lsn: int, path: str = "") -> Iterator[Frame | Gap]:
    """Whole frames from `start` on, behind the one of number `lsn`, and the gaps between them.

    What is zero up to the end of the file is no gap.

    Raises:
        NewerFormatError: a later version wrote one of them.
    """
    end = len(data.rstrip(b"\0"))
    at = start
    while at < end:
        found = frame_at(data, at, salt, path)
        if found is not None and found.whole and found.lsn > lsn and found.kind != SNAPSHOT:
            if found.lsn > lsn + 1:
                yield Gap(at, at, None, found.lsn - lsn - 1)
            yield found
            at, lsn = found.end, found.lsn
            continue
        headed = found if found is not None and found.lsn == lsn + 1 and found.kind != SNAPSHOT else None
        if headed is not None:
            yield Gap(at, min(headed.end, max(end, at + 8)), headed, 1)
            at, lsn = headed.end, headed.lsn
            continue
        following = _resume(data, at + 8, end, salt=salt, lsn=lsn, path=path)
        after = frame_at(data, following, salt, path) if following < end else None
        yield Gap(at, following, None, None if after is None else after.lsn - lsn - 1)
        at = following
        if after is not None:
            lsn = after.lsn - 1


def frontier(data: bytes, salt: int) -> dict[str, int] | None:
    """The frontier slot that counts: sequence, frontier, floor, synced. None where neither is sound."""
    best: dict[str, int] | None = None
    for parity, offset in enumerate(SLOT_OFFSETS):
        slot = FRONTIER_SLOT.sound(data, offset)
        if slot is None or slot["salt"] != salt or slot["sequence"] % 2 != parity:
            continue
        if best is None or slot["sequence"] > best["sequence"]:
            best = slot
    return best


def encode(frame: Frame, payload: bytes, salt: int, lsn: int, chain: int) -> tuple[bytes, int]:
    """A frame with another place in the chain; it claims nothing of what was durable. Returns it and its checksum."""
    head = FRAME_HEADER.make(
        salt=salt,
        length=len(payload),
        kind=frame.kind,
        flags=frame.flags,
        entries=frame.entries,
        lsn=lsn,
        behind=2**32 - 1,
        chain=chain,
        time=frame.time,
        first_ms=frame.first[0],
        first_seq=frame.first[1],
        payload_crc=checksum(payload),
    )
    return head + payload + bytes(padded(len(payload)) - len(payload)), int.from_bytes(head[-4:], "little")


def header_block(uuid: bytes, salt: int, number: int, created: int, slot: dict[str, int]) -> bytes:
    """The first 4096 bytes of a log file, with one frontier slot."""
    block = bytearray(LOG_HEADER_BYTES)
    head = LOG_HEADER.make(version=_FORMAT, salt=salt, uuid=uuid, segment=number, created=created)
    block[: len(head)] = head
    offset = SLOT_OFFSETS[slot["sequence"] % 2]
    packed = FRONTIER_SLOT.make(**{**slot, "salt": salt})
    block[offset : offset + len(packed)] = packed
    return bytes(block)
