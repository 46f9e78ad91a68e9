"""Log files: header, frontier slots, frames, rows, and where a log ends. docs/format/log.md."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.slow_reader import layouts
from tests.slow_reader.layouts import FRAME_HEADER, FRONTIER_SLOT
from tests.slow_reader.wire import Cursor, Entry, FormatError, Identifier, NewerError, checked, checked_file, crc32c

__all__ = ["Frame", "Log", "rows", "whole_frame"]


@dataclass(frozen=True)
class Frame:
    """A whole frame; `size` counts header, payload and padding."""

    path: Path
    offset: int
    size: int
    kind: int
    flags: int
    entries: int
    lsn: int
    synced: int
    chain: int
    time: int
    first: Identifier
    crc: int
    payload: bytes

    @property
    def end(self) -> int:
        return self.offset + self.size

    def cursor(self) -> Cursor:
        return Cursor(self.path, self.payload, self.offset + FRAME_HEADER.size)

    def halves(self) -> tuple[Cursor, Cursor]:
        """The rows of an entries frame, and the records behind them."""
        both = self.cursor()
        end = len(self.payload)
        if self.flags & layouts.RECORDS:
            both.at = max(0, end - 4)
            end = both.at - int.from_bytes(both.take(4), "little")
            if end < 0:
                raise both.fault("records within the frame", end)
        records = self.payload[end : -4 if self.flags & layouts.RECORDS else None]
        return Cursor(self.path, self.payload[:end], both.base), Cursor(self.path, records, both.base + end)


def whole_frame(path: Path, data: bytes, offset: int, salt: int | None) -> Frame:
    """The whole frame at an offset of some bytes; `salt` is None where the log that it is from is not known."""
    cursor = Cursor(path, data)
    cursor.at = offset
    head = cursor.take(FRAME_HEADER.size)
    if salt is not None and head[:4] != salt.to_bytes(4, "little"):
        raise FormatError(path, offset, f"salt {salt:08x}", head[:4][::-1].hex())
    values = checked(path, head, offset, FRAME_HEADER)
    _, length, kind, flags, zero, entries, lsn, behind, chain, time, ms, seq, payload_crc, crc = values
    limit = layouts.MAX_SNAPSHOT_BYTES if kind == layouts.SNAPSHOT else layouts.MAX_PAYLOAD_BYTES
    known = layouts.RECORDS if kind == layouts.ENTRIES else 0
    if kind not in layouts.KINDS.values() or flags & ~known or zero != b"\0\0":
        raise NewerError(path, offset + 8, "a known kind with known flags", (kind, flags, zero))
    if length > limit:
        raise FormatError(path, offset + 4, "a length within the limit", length)
    payload = cursor.take(length)
    if crc32c(payload) != payload_crc:
        raise FormatError(path, offset + 56, f"checksum {crc32c(payload):08x}", f"{payload_crc:08x}")
    size = FRAME_HEADER.size + (length + 7) // 8 * 8
    synced = 0 if behind == 2**32 - 1 else max(0, lsn - behind)
    return Frame(path, offset, size, kind, flags, entries, lsn, synced, chain, time, (ms, seq), crc, payload)


class Log:
    """A log file: its header, and the frames that stand in it."""

    def __init__(self, path: Path) -> None:
        self.path, self.data = path, path.read_bytes()
        header = checked_file(path, self.data, 0, layouts.LOG_HEADER, layouts.LOG_MAGIC)
        _, _, self.salt, self.uuid, self.segment, self.created, _, _ = header
        if self.segment != int(path.stem) or not 0 < self.segment <= layouts.MAX_SEGMENT:
            raise FormatError(path, 32, f"segment {int(path.stem)}", self.segment)
        if len(self.data) < layouts.FIRST_FRAME:
            raise FormatError(path, len(self.data), f"{layouts.FIRST_FRAME} bytes", len(self.data))
        slots = sorted(self._slots())
        if not slots:
            raise FormatError(path, layouts.SLOT_OFFSETS[0], "a whole frontier slot", "none")
        self.frontier_sequence, self.frontier, self.floor, self.synced = slots[-1]
        self.snapshot = whole_frame(path, self.data, layouts.FIRST_FRAME, self.salt)
        if self.snapshot.kind != layouts.SNAPSHOT:
            raise FormatError(path, layouts.FIRST_FRAME, "a snapshot", f"kind {self.snapshot.kind}")

    def _slots(self) -> Iterator[tuple[int, int, int, int]]:
        for parity, offset in enumerate(layouts.SLOT_OFFSETS):
            slot = self.data[offset : offset + FRONTIER_SLOT.size]
            sequence, frontier, floor, synced, salt, crc = FRONTIER_SLOT.unpack(slot)
            if crc == crc32c(slot[:-4]) and salt == self.salt and sequence % 2 == parity:
                yield sequence, frontier, floor, synced

    def next(self, before: Frame) -> Frame | None:
        """The next frame; None where only zeros follow.

        Raises:
            NewerError: it was written by a later version.
            FormatError: something else stands there.
        """
        if not any(self.data[before.end :]):
            return None
        found = whole_frame(self.path, self.data, before.end, self.salt)
        if (found.lsn, found.chain) != (before.lsn + 1, before.crc):
            expected = f"frame {before.lsn + 1} behind {before.crc:08x}"
            raise FormatError(self.path, found.offset, expected, f"{found.lsn} behind {found.chain:08x}")
        return found

    def claim(self, end: int, want: int) -> Frame | NewerError | None:
        """A frame from `end` on which says that the one with LSN `want` was durable, or is of a later version."""
        stop = end + len(self.data[end:].rstrip(b"\0"))
        while end < stop:
            try:
                found = whole_frame(self.path, self.data, end, self.salt)
            except NewerError as later:
                return later
            except FormatError:
                end += 8
                continue
            if found.lsn >= want and found.synced >= want:
                return found
            end += found.size if found.lsn >= want else 8
        return None


def rows(frame: Frame) -> Iterator[Entry]:
    """The entries of an entries frame."""
    cursor, _ = frame.halves()
    shapes: list[list[bytes]] = []
    entry_id = frame.first
    for row in range(frame.entries):
        if row > 0:
            entry_id = cursor.step(entry_id, cursor.varint(), cursor.varint())
        code = cursor.varint(len(shapes))
        if code == len(shapes):
            shapes.append(cursor.shape())
        lengths = [cursor.varint(layouts.MAX_FIELD_BYTES) for _ in shapes[code]]
        yield entry_id, [(name, cursor.take(length)) for name, length in zip(shapes[code], lengths, strict=True)]
    cursor.end()
