"""Audit files: header, blocks of frames, names, footer. docs/format/audit.md."""

from pathlib import Path

import zstandard

from tests.slow_reader import layouts
from tests.slow_reader.layouts import AUDIT_BLOCK_HEAD, AUDIT_FOOTER, AUDIT_HEADER
from tests.slow_reader.wire import Cursor, FormatError, NewerError, checked, checked_file, crc32c

__all__ = ["Audit"]

Kept = tuple[int, int, bytes]  # LSN, time, records


class Audit:
    """An audit file, read as a whole.

    Attributes:
        frames: in order.
        groups, consumers: names by number, and by the numbers of group and consumer.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.data = path, path.read_bytes()
        header = checked_file(path, self.data, 0, AUDIT_HEADER, layouts.AUDIT_MAGIC)
        self.base = max(0, len(self.data) - AUDIT_FOOTER.size)
        footer = checked_file(path, self.data[self.base :], self.base, AUDIT_FOOTER, layouts.AUDIT_FOOTER_MAGIC)
        self._same(8, header[1:5], footer[1:5])
        _, _, self.salt, self.uuid, self.number, blocks, _, frames, self.records, *rest = footer
        first, last, least, greatest, names_at, length, _, _ = rest
        self._same(104, len(self.data), length)
        self._same(32, int(path.stem), self.number)
        self.frames: list[Kept] = []
        at = AUDIT_HEADER.size
        for number in range(blocks):
            raw, items, times, at = self._block(number, at)
            some = _frames(raw, items)
            self._same(80, times, (min(time for _, time, _ in some), max(time for _, time, _ in some)))
            self.frames += some
        self._same(96, at, names_at)
        raw, items, _, at = self._block(blocks, at)
        self._same(96, (0, self.base), (items, at))
        self.groups = {raw.varint(): raw.name() for _ in range(raw.varint())}
        self.consumers = {(raw.varint(), raw.varint()): raw.name() for _ in range(raw.varint())}
        raw.end()
        lsns = [lsn for lsn, _, _ in self.frames]
        self._same(48, len(lsns), frames)
        self._same(64, (lsns[0], lsns[-1]), (first, last))
        self._same(64, sorted(set(lsns)), lsns)
        all_times = [time for _, time, _ in self.frames]
        self._same(80, (min(all_times), max(all_times)), (least, greatest))

    def _same(self, offset: int, expected: object, found: object) -> None:
        """Holds a field of the footer against what it must be."""
        if expected != found:
            raise FormatError(self.path, self.base + offset, expected, found)

    def _block(self, number: int, offset: int) -> tuple[Cursor, int, tuple[int, int], int]:
        """Contents, items and times of a block, and where it ends."""
        data = self.data[offset : self.base]
        values = checked(self.path, data, offset, AUDIT_BLOCK_HEAD)
        salt, found, items, raw_length, body_length, codec, _, least, greatest, body_crc, _ = values
        head = Cursor(self.path, data, offset)
        head.same((self.salt, number), (salt, found))
        if (
            not body_length
            <= raw_length
            <= (layouts.MAX_AUDIT_FRAMES_BYTES if items else layouts.MAX_AUDIT_NAMES_BYTES)
        ):
            raise head.fault("sizes within the limits", (raw_length, body_length))
        head.take(AUDIT_BLOCK_HEAD.size)
        body = head.take(body_length)
        head.same(body_crc, crc32c(body))
        if codec > 1:
            raise NewerError(self.path, offset + 20, "codec 0 or 1", codec)
        try:
            raw = zstandard.ZstdDecompressor().decompress(body, max_output_size=raw_length) if codec else body
        except zstandard.ZstdError as error:
            raise head.fault("a zstd frame", error) from error
        head.same(raw_length, len(raw))
        return Cursor(self.path, raw), items, (least, greatest), offset + head.at


def _frames(raw: Cursor, items: int) -> list[Kept]:
    found = []
    lsn = time = 0
    for _ in range(items):
        lsn, time = lsn + raw.varint(), raw.signed(time)
        found.append((lsn, time, raw.take(raw.varint())))
    raw.end()
    return found
