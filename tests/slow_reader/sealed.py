"""Sealed segments: header, nodes, copy of the snapshot, index, footer. docs/format/segment.md."""

from collections.abc import Iterator
from pathlib import Path

import zstandard

from tests.slow_reader import layouts
from tests.slow_reader.layouts import FOOTER, INDEX_ROW, NODE_HEAD, PAGE_ROW
from tests.slow_reader.log import whole_frame
from tests.slow_reader.wire import Cursor, Entry, FormatError, NewerError, Pairs, checked, checked_file, crc32c

__all__ = ["Sealed"]


class Sealed:
    """A sealed segment: all around the nodes is checked when it is opened."""

    def __init__(self, path: Path) -> None:
        self.path, self.data = path, path.read_bytes()
        header = checked_file(path, self.data, 0, layouts.SEGMENT_HEADER, layouts.SEGMENT_MAGIC)
        self.base = max(0, len(self.data) - FOOTER.size)
        footer = checked_file(path, self.data[self.base :], self.base, FOOTER, layouts.FOOTER_MAGIC)
        self._same(0, header[1:6], footer[1:6])
        _, _, self.salt, self.uuid, self.number, self.generation, self.nodes, self.entries, *rest = footer
        self.first, self.last, self.times = (rest[0], rest[1]), (rest[2], rest[3]), (rest[4], rest[5])
        self.index_at, index_crc, copy_crc, self.copy_at, copy_length, length, self.raw_bytes, *pages = rest[6:]
        page_rows, pages_crc, _, _ = pages
        self.pages_at = self.copy_at + copy_length
        count = -(-self.nodes // page_rows) if page_rows else 0
        self._same(104, self.pages_at + count * PAGE_ROW.size, self.index_at)
        self._same(136, self.index_at + self.nodes * INDEX_ROW.size + FOOTER.size, length)
        self._same(136, len(self.data), length)
        self._same(112, crc32c(self.data[self.index_at : self.base]), index_crc)
        self.index = list(INDEX_ROW.iter_unpack(self.data[self.index_at : self.base]))
        self._check_pages(page_rows, pages_crc)
        self.copy = self.data[self.copy_at : self.pages_at]
        self._same(116, crc32c(self.copy), copy_crc)
        if self.copy:
            frame = whole_frame(path, self.data[: self.index_at], self.copy_at, None)
            self._same(128, (layouts.SNAPSHOT, copy_length), (frame.kind, frame.size))

    def _same(self, offset: int, expected: object, found: object) -> None:
        """Holds a field of the footer against what it must be."""
        if expected != found:
            raise FormatError(self.path, self.base + offset, expected, found)

    def _check_pages(self, page_rows: int, pages_crc: int) -> None:
        """Each page row says of its index rows what they are."""
        pages = self.data[self.pages_at : self.index_at]
        self._same(156, crc32c(pages) if page_rows else 0, pages_crc)
        for number, (ms, seq, before, crc, zero) in enumerate(PAGE_ROW.iter_unpack(pages)):
            start = self.index_at + number * page_rows * INDEX_ROW.size
            stop = min(start + page_rows * INDEX_ROW.size, self.base)
            first = self.index[number * page_rows]
            expected = (first[0], first[1], first[3], crc32c(self.data[start:stop]), bytes(4))
            if expected != (ms, seq, before, crc, zero):
                raise FormatError(self.path, self.pages_at + number * PAGE_ROW.size, expected, (ms, seq, before, crc))

    def read(self) -> Iterator[Entry]:
        """All entries in order, gone ones too; what the footer says of them is checked at the end."""
        end, position, raw_bytes = layouts.SEGMENT_HEADER.size, 0, 0
        last = None
        for number, (ms, seq, offset, before, length, entries) in enumerate(self.index):
            if (offset, before) != (end, position):
                at = self.index_at + number * INDEX_ROW.size + 16
                raise FormatError(self.path, at, (end, position), (offset, before))
            end = offset + length
            found = self.node(number, offset, length)
            if (len(found), found[0][0]) != (entries, (ms, seq)) or (last is not None and found[0][0] <= last):
                raise FormatError(self.path, offset, f"{entries} entries from {ms}-{seq} on", found[0][0])
            for entry_id, pairs in found:
                raw_bytes += sum(len(name) + len(value) for name, value in pairs)
                last = entry_id
                yield entry_id, pairs
            position += entries
        self._same(120, end, self.copy_at)
        self._same(48, position, self.entries)
        self._same(56, self.index[0][:2], self.first)
        self._same(72, last, self.last)
        self._same(144, raw_bytes, self.raw_bytes)

    def node(self, number: int, offset: int, length: int) -> list[Entry]:
        """The entries of one node."""
        data = self.data[offset : min(offset + length, self.copy_at)]
        salt, found, entries, raw_length, body_length, codec, _, body_crc, _ = checked(
            self.path, data, offset, NODE_HEAD
        )
        head = Cursor(self.path, data, offset)
        head.same((self.salt, number, length), (salt, found, NODE_HEAD.size + body_length))
        if not 0 < entries <= layouts.MAX_NODE_ENTRIES or raw_length > layouts.MAX_NODE_BYTES:
            raise head.fault("sizes within the limits", (entries, raw_length))
        head.take(NODE_HEAD.size)
        body = head.take(body_length)
        head.same(body_crc, crc32c(body))
        if codec > 1:
            raise NewerError(self.path, offset + 20, "codec 0 or 1", codec)
        try:
            raw = zstandard.ZstdDecompressor().decompress(body, max_output_size=raw_length) if codec else body
        except zstandard.ZstdError as error:
            raise head.fault("a zstd frame", error) from error
        head.same(raw_length, len(raw))
        return _contents(Cursor(self.path, raw), entries)


def _contents(cursor: Cursor, entries: int) -> list[Entry]:
    """The entries of a node's raw bytes."""
    ids = [cursor.id()]
    for ms, seq in zip(cursor.narrow(entries - 1), cursor.narrow(entries - 1), strict=True):
        ids.append(cursor.step(ids[-1], ms, seq))
    shapes = [cursor.shape() for _ in range(cursor.varint(layouts.MAX_NODE_SHAPES))]
    codes = cursor.narrow(entries) if len(shapes) > 1 else [0] * entries
    if max(codes) >= len(shapes):
        raise cursor.fault(f"shapes below {len(shapes)}", max(codes))
    columns = [[_column(cursor, codes.count(code)) for _ in names] for code, names in enumerate(shapes)]
    cursor.end()
    rows_of_shape = [zip(*fields, strict=True) for fields in columns]
    pairs: list[Pairs] = [list(zip(shapes[code], next(rows_of_shape[code]), strict=True)) for code in codes]
    return list(zip(ids, pairs, strict=True))


def _column(cursor: Cursor, rows: int) -> list[bytes]:
    lengths = cursor.narrow(rows)
    cursor.same(sum(lengths), cursor.varint())
    return [cursor.take(length) for length in lengths]
