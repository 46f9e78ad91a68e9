"""Primitive encodings: CRC32C, varints, ID steps, narrow columns, shapes, bitmaps. docs/format/README.md."""

import struct
from pathlib import Path
from typing import Any

from tests.slow_reader import layouts

__all__ = [
    "Cursor",
    "Entry",
    "FormatError",
    "Identifier",
    "NewerError",
    "Pairs",
    "RottenError",
    "checked",
    "checked_file",
    "crc32c",
]

Identifier = tuple[int, int]
Pairs = list[tuple[bytes, bytes]]
Entry = tuple[Identifier, Pairs]


class FormatError(Exception):
    """The bytes are not what the pages say: file, offset, what was expected and what was found."""

    def __init__(self, path: Path, offset: int, expected: object, found: object) -> None:
        super().__init__(f"{path.name} at {offset}: expected {expected}, found {found}")
        self.path, self.offset = path, offset


class NewerError(FormatError):
    """The bytes are sound, and written by a later version."""


class RottenError(FormatError):
    """What was durable cannot be read."""


def _table() -> list[int]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _table()


def crc32c(data: bytes) -> int:
    """CRC32C of `data`."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


class Cursor:
    """A place in some bytes of a file, the first of which stands at offset `base` there."""

    def __init__(self, path: Path, data: bytes, base: int = 0) -> None:
        self.path, self.data, self.base, self.at = path, data, base, 0

    def fault(self, expected: object, found: object) -> FormatError:
        return FormatError(self.path, self.base + self.at, expected, found)

    def same(self, expected: object, found: object) -> None:
        """Refuses what is not as expected."""
        if expected != found:
            raise self.fault(expected, found)

    def end(self) -> None:
        """Refuses bytes that are left over."""
        self.same(0, len(self.data) - self.at)

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            raise self.fault(f"{size} bytes", f"{len(self.data) - self.at} bytes")
        self.at += size
        return self.data[self.at - size : self.at]

    def byte(self) -> int:
        return self.take(1)[0]

    def fixed(self, layout: struct.Struct) -> tuple[int, ...]:
        values: tuple[int, ...] = layout.unpack(self.take(layout.size))
        return values

    def id(self) -> Identifier:
        ms, seq = self.fixed(layouts.ID)
        return ms, seq

    def varint(self, limit: int = 2**64 - 1) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > limit:
                    raise self.fault(f"at most {limit}", value)
                return value
        raise self.fault("a varint of at most ten bytes", "a longer one")

    def narrow(self, count: int) -> list[int]:
        width = self.byte()
        if width == 0:
            return [self.varint()] * count
        if width not in (1, 2, 4, 8):
            raise self.fault("a width of 0, 1, 2, 4 or 8", width)
        data = self.take(width * count)
        return [int.from_bytes(data[at : at + width], "little") for at in range(0, len(data), width)]

    def step(self, before: Identifier, ms: int, seq: int) -> Identifier:
        after = (before[0] + ms, seq) if ms else (before[0], before[1] + 1 + seq)
        if max(after) >= 2**64:
            raise self.fault("an ID of twice 64 bits", after)
        return after

    def signed(self, before: int) -> int:
        """A number as its difference from another one, in either direction, of 64 bits."""
        coded = self.varint()
        return (before + (coded >> 1 ^ -(coded & 1))) % 2**64

    def any_step(self, before: Identifier) -> Identifier:
        ms = self.signed(before[0])
        return ms, self.signed(before[1]) if ms == before[0] else self.varint()

    def optional(self, limit: int = 2**64 - 2) -> int | None:
        value = self.varint(limit + 1)
        return value - 1 if value else None

    def name(self) -> bytes:
        return self.take(self.varint(layouts.MAX_MEMBER_NAME_BYTES))

    def shape(self) -> list[bytes]:
        fields = self.varint(layouts.MAX_FIELDS)
        if fields == 0:
            raise self.fault("at least one field", 0)
        return [self.take(self.varint(layouts.MAX_FIELD_BYTES)) for _ in range(fields)]

    def run(self, end: int, entries: int) -> range:
        """Positions below `entries`: the run after the one that ended at `end`."""
        start = end + self.varint()
        stop = start + self.varint() + 1
        if stop > entries:
            raise self.fault(f"positions below {entries}", stop - 1)
        return range(start, stop)

    def bitmap(self, entries: int) -> set[int]:
        count = self.varint(entries)
        form = self.byte()
        found: set[int] = set()
        if form == 0:
            run = range(0)
            while len(found) < count:
                run = self.run(run.stop, entries)
                found.update(run)
        else:
            self.same(1, form)
            bits = int.from_bytes(self.take(8 * self.varint(entries // 64 + 1)), "little")
            if bits >> entries:
                raise self.fault(f"positions below {entries}", bits.bit_length() - 1)
            found.update(position for position in range(entries) if bits >> position & 1)
        self.same(count, len(found))
        return found


def checked(path: Path, data: bytes, base: int, layout: struct.Struct) -> tuple[Any, ...]:
    """The fields of the structure that `data` begins with, which ends with the CRC of the bytes before it."""
    values = Cursor(path, data, base).fixed(layout)
    crc = crc32c(data[: layout.size - 4])
    if values[-1] != crc:
        raise FormatError(path, base + layout.size - 4, f"checksum {crc:08x}", f"{values[-1]:08x}")
    return values


def checked_file(path: Path, data: bytes, base: int, layout: struct.Struct, magic: bytes) -> tuple[Any, ...]:
    """The same, of a structure that begins with a magic and a format version."""
    if data[:8] != magic:
        raise FormatError(path, base, magic, data[:8])
    values = checked(path, data, base, layout)
    if values[1] > layouts.FORMAT_VERSION:
        raise NewerError(path, base + 8, f"format version {layouts.FORMAT_VERSION}", values[1])
    return values
