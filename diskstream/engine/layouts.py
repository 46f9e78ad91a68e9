"""The fixed structures of docs/format/ with the names of their fields: for what is read beside the native core."""

import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from diskstream._native import checksum

__all__ = [
    "AUDIT_BLOCK_HEAD",
    "AUDIT_FOOTER",
    "AUDIT_HEADER",
    "DELETE",
    "ENTRIES",
    "FOOTER",
    "FRAME_HEADER",
    "FRONTIER_SLOT",
    "GROUPS",
    "INDEX_ROW",
    "KINDS",
    "LEFT_BEHIND_MARK",
    "LOG_HEADER",
    "MARK",
    "MAX_PAYLOAD_BYTES",
    "MAX_SNAPSHOT_BYTES",
    "NODE_HEAD",
    "PAGE_ROW",
    "REPLACE",
    "SEGMENT_HEADER",
    "SET_ID",
    "SLOT_OFFSETS",
    "SNAPSHOT",
    "TRIM",
    "VIEW",
    "Layout",
    "padded",
]

SNAPSHOT, ENTRIES, DELETE, TRIM, SET_ID, REPLACE, MARK = range(1, 8)
GROUPS, VIEW = 16, 17
KINDS = {
    SNAPSHOT: "snapshot",
    ENTRIES: "entries",
    DELETE: "delete",
    TRIM: "trim",
    SET_ID: "set-id",
    REPLACE: "replace",
    MARK: "mark",
    GROUPS: "groups",
    VIEW: "view",
}
MAX_PAYLOAD_BYTES = 64 << 20
MAX_SNAPSHOT_BYTES = 3 << 30
SLOT_OFFSETS = (512, 1024)


def padded(size_bytes: int) -> int:
    """The next multiple of eight."""
    return (size_bytes + 7) // 8 * 8


@dataclass(frozen=True)
class Layout:
    """A structure of fixed size. All but page rows and index rows end with the CRC32C of what stands before in them.

    Attributes:
        name: as the pages of the format call it.
        fields: (name, code of `struct`), in order.
        magic: what it begins with, if it has one.
    """

    name: str
    fields: tuple[tuple[str, str], ...]
    magic: bytes = b""

    @cached_property
    def packed(self) -> struct.Struct:
        """The same for `struct`."""
        return struct.Struct("<" + "".join(code for _, code in self.fields))

    @cached_property
    def size(self) -> int:
        """Bytes of it."""
        return self.packed.size

    def read(self, data: bytes, offset: int = 0) -> dict[str, Any] | None:
        """Its fields by name; None where the bytes are too few."""
        packed = self.packed
        if offset < 0 or len(data) - offset < packed.size:
            return None
        return dict(zip(self._names, packed.unpack_from(data, offset), strict=True))

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.fields)

    def sound(self, data: bytes, offset: int = 0) -> dict[str, Any] | None:
        """The same, but None also where magic or checksum are wrong."""
        found = self.read(data, offset)
        if found is None or data[offset : offset + len(self.magic)] != self.magic:
            return None
        return found if found["crc"] == checksum(data[offset : offset + self.size - 4]) else None

    def make(self, **values: Any) -> bytes:
        """The structure with these fields, the others zero, and its checksum."""
        zero: dict[str, Any] = {name: b"" if code.endswith("s") else 0 for name, code in self.fields}
        if self.magic:
            values["magic"] = self.magic
        body = self.packed.pack(*(zero | values).values())
        return body[:-4] + checksum(body[:-4]).to_bytes(4, "little")

    def places(self) -> list[tuple[str, int, int]]:
        """(name, offset, size) of each field."""
        found, at = [], 0
        for name, code in self.fields:
            size = struct.calcsize("<" + code)
            found.append((name, at, size))
            at += size
        return found


_OWNER = (("version", "I"), ("salt", "I"), ("uuid", "16s"), ("segment", "Q"))
_MAGIC = (("magic", "8s"),)
_TIMES = (("least_time", "Q"), ("greatest_time", "Q"))
LOG_HEADER = Layout("log header", (*_MAGIC, *_OWNER, ("created", "Q"), ("zero", "12s"), ("crc", "I")), b"DSKLOG01")
FRONTIER_SLOT = Layout(
    "frontier slot",
    (("sequence", "Q"), ("frontier", "Q"), ("floor", "Q"), ("synced", "Q"), ("salt", "I"), ("crc", "I")),
)
LEFT_BEHIND_MARK = Layout("left-behind mark", (*_MAGIC, ("successor", "Q"), ("crc", "I")), b"DSKNEXT1")
FRAME_HEADER = Layout(
    "frame header",
    (
        *(("salt", "I"), ("length", "I"), ("kind", "B"), ("flags", "B"), ("zero", "2s"), ("entries", "I")),
        *(("lsn", "Q"), ("behind", "I"), ("chain", "I"), ("time", "Q"), ("first_ms", "Q"), ("first_seq", "Q")),
        *(("payload_crc", "I"), ("crc", "I")),
    ),
)
SEGMENT_HEADER = Layout(
    "segment header", (*_MAGIC, *_OWNER, ("generation", "I"), ("zero", "16s"), ("crc", "I")), b"DSKSEG01"
)
FOOTER = Layout(
    "footer",
    (
        *_MAGIC,
        *_OWNER,
        *(("generation", "I"), ("nodes", "I"), ("entries", "Q"), ("first_ms", "Q"), ("first_seq", "Q")),
        *(("last_ms", "Q"), ("last_seq", "Q")),
        *_TIMES,
        *(("index_offset", "Q"), ("index_crc", "I"), ("snapshot_crc", "I"), ("snapshot_offset", "Q")),
        *(("snapshot_length", "Q"), ("file_length", "Q"), ("raw_bytes", "Q"), ("page_rows", "I"), ("pages_crc", "I")),
        *(("zero", "28s"), ("crc", "I")),
    ),
    b"DSKFOOT1",
)
PAGE_ROW = Layout(
    "page row", (("first_ms", "Q"), ("first_seq", "Q"), ("before", "Q"), ("rows_crc", "I"), ("zero", "4s"))
)
INDEX_ROW = Layout(
    "index row",
    (("first_ms", "Q"), ("first_seq", "Q"), ("offset", "Q"), ("before", "Q"), ("length", "I"), ("entries", "I")),
)
NODE_HEAD = Layout(
    "node head",
    (
        *(("salt", "I"), ("number", "I"), ("entries", "I"), ("raw_length", "I"), ("body_length", "I")),
        *(("codec", "B"), ("zero", "3s"), ("body_crc", "I"), ("crc", "I")),
    ),
)
AUDIT_HEADER = Layout("audit header", (*_MAGIC, *_OWNER, ("zero", "20s"), ("crc", "I")), b"DSKAUD01")
AUDIT_BLOCK_HEAD = Layout(
    "audit block head",
    (
        *(("salt", "I"), ("number", "I"), ("items", "I"), ("raw_length", "I"), ("body_length", "I")),
        *(("codec", "B"), ("zero", "3s")),
        *_TIMES,
        *(("body_crc", "I"), ("crc", "I")),
    ),
)
AUDIT_FOOTER = Layout(
    "audit footer",
    (
        *_MAGIC,
        *_OWNER,
        *(("blocks", "I"), ("gap", "4s"), ("frames", "Q"), ("records", "Q"), ("first_lsn", "Q"), ("last_lsn", "Q")),
        *_TIMES,
        *(("names_offset", "Q"), ("file_length", "Q"), ("zero", "12s"), ("crc", "I")),
    ),
    b"DSKAEND1",
)
