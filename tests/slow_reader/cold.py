"""Stubs of cold segments, read as docs/format/cold.md says."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from tests.slow_reader import layouts
from tests.slow_reader.wire import FormatError


@dataclass(frozen=True)
class SlowStub:
    uuid: bytes
    number: int
    generation: int
    size_bytes: int
    entries: int
    sha256: bytes
    first: tuple[int, int]
    last: tuple[int, int]
    moved_ms: int
    url: str
    path: str


def read_stub(path: Path) -> SlowStub:
    data = path.read_bytes()
    body, digest = data[:-32], data[-32:]
    if body[:8] != layouts.STUB_MAGIC or hashlib.sha256(body).digest() != digest:
        raise FormatError(path, 0, "a stub", "something else")
    fields = layouts.STUB.unpack_from(body)
    _, version, zero, uuid, number, generation, url, at, size, entries, sha256, *ids, moved = fields
    text = body[layouts.STUB.size :]
    if version != layouts.FORMAT_VERSION or zero != bytes(4) or len(text) != url + at:
        raise FormatError(path, 8, "a stub of this version", f"version {version}")
    first, last = (ids[0], ids[1]), (ids[2], ids[3])
    place, where = text[:url].decode(), text[url:].decode()
    return SlowStub(uuid, number, generation, size, entries, sha256, first, last, moved, place, where)
