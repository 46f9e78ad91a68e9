"""Stubs: ``NNNNNNNN.cold`` stands for a sealed segment whose bytes are in object storage.

The log lists the segment as before; the stub says where its bytes are, how many, and what their SHA-256 is. Where both
the segment and its stub are there, the segment counts: the stub comes before it goes, and goes after it has come back.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import struct
from dataclasses import dataclass
from pathlib import Path

from diskstream._native import EntryID, Log, SegmentView
from diskstream.engine import names
from diskstream.engine.files import Files, reading, wrapped
from diskstream.engine.looks import is_there, named
from diskstream.errors import CorruptionError, NewerFormatError
from diskstream.plurals import number_of

__all__ = [
    "MAGIC",
    "MAX_OBJECT_BYTES",
    "MAX_STUB_BYTES",
    "MAX_URL_BYTES",
    "RETENTION",
    "DamagedObjectError",
    "Stub",
    "check",
    "find",
    "is_used",
    "moves",
    "read",
    "unpacked",
    "write",
]

# The one setting of a stream by which entries go, or are moved: docs/format/groups.md, "Settings".
RETENTION = b"retention"
MAGIC = b"DSKCOLD1"
_VERSION = 1
# The stream's uuid stands where the headers of log and segment have it: `recovery` and `audit` ask for it there.
_HEADER = struct.Struct("<8sI4s16sQIHHQQ32sQQQQQ")
_DIGEST_BYTES = 32
_LEAST_BYTES = _HEADER.size + _DIGEST_BYTES
MAX_URL_BYTES = 4096
# A segment has 1 GiB of frames at most, and a copy of a snapshot of 3 GiB.
MAX_OBJECT_BYTES = 8 << 30
MAX_STUB_BYTES = _HEADER.size + 2 * MAX_URL_BYTES + _DIGEST_BYTES


class DamagedObjectError(CorruptionError):
    """An object is not what was put there. No file of the store is damaged: a repair finds nothing to do."""

    hint = "bring the object back as it was, as from a version of it that the storage keeps"
    listed_by = "Store.verify(cold=True)", "diskstream verify --cold"

    def __init__(self, stub: Stub, expected: str, found: str) -> None:
        super().__init__(stub.path, f"object in {stub.url}", 0, expected, found)


@dataclass(frozen=True)
class Stub:
    """What a stub says.

    Attributes:
        uuid: the stream's.
        number, generation: the segment's.
        entries, first, last: what is in it, gone entries included.
        url: the place, without any secret.
        path: the object, below the place.
        size_bytes, sha256: of its bytes.
        moved_ms: when it was written, in milliseconds since 1970.
    """

    uuid: bytes
    number: int
    generation: int
    entries: int
    first: EntryID
    last: EntryID
    url: str
    path: str
    size_bytes: int
    sha256: bytes
    moved_ms: int

    def packed(self) -> bytes:
        """The stub's bytes."""
        url, path = self.url.encode(), self.path.encode()
        ids = (self.first.ms, self.first.seq, self.last.ms, self.last.seq)
        numbers = (self.number, self.generation, len(url), len(path), self.size_bytes, self.entries)
        head = _HEADER.pack(MAGIC, _VERSION, bytes(4), self.uuid, *numbers, self.sha256, *ids, self.moved_ms)
        body = head + url + path
        return body + hashlib.sha256(body).digest()


def unpacked(path: Path, data: bytes) -> Stub:
    """The stub in the bytes of a file.

    Raises:
        CorruptionError: they are not those of a stub.
        NewerFormatError: a later version wrote it.
    """

    def fault(offset: int, expected: str, found: str) -> CorruptionError:
        return CorruptionError(str(path), "stub of a cold segment", offset, expected, found)

    if len(data) < _LEAST_BYTES or data[:8] != MAGIC:
        raise fault(0, f"{_LEAST_BYTES:,} bytes that begin with {MAGIC!r}", number_of(len(data), "byte"))
    version = int.from_bytes(data[8:12], "little")
    if version > _VERSION:
        raise NewerFormatError(str(path), "the stub", _VERSION, version)
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if hashlib.sha256(body).digest() != digest:
        raise fault(len(body), "the SHA-256 of all that is before", "another one")
    _, _, zero, uuid, number, generation, url, at, size, entries, sha256, *rest = _HEADER.unpack_from(body)
    text = body[_HEADER.size :]
    if any(zero) or version < 1 or len(text) != url + at or max(url, at) > MAX_URL_BYTES:
        raise fault(
            8,
            "a stub of version 1 that ends with its path",
            f"version {version}, {number_of(len(text), 'byte')} of text",
        )
    if size > MAX_OBJECT_BYTES:
        raise fault(48, f"a size of at most {MAX_OBJECT_BYTES:,} bytes", str(size))
    first, last = EntryID(rest[0], rest[1]), EntryID(rest[2], rest[3])
    try:
        place, where = text[:url].decode(), text[url:].decode()
    except UnicodeDecodeError:
        raise fault(_HEADER.size, "a URL and a path in UTF-8", "other bytes") from None
    return Stub(uuid, number, generation, entries, first, last, place, where, size, sha256, rest[4])


def read(path: Path) -> Stub | None:
    """The stub in a file; None where there is no file.

    Raises:
        CorruptionError: it is damaged.
        NewerFormatError: a later version wrote it.
        StorageError: it cannot be read.
    """
    try:
        with wrapped(path, "read"), reading(path) as file:
            data = file.read(MAX_STUB_BYTES + 1)
    except FileNotFoundError:
        return None
    return unpacked(path, data)


def check(path: Path, stub: Stub, native: Log, view: SegmentView) -> Stub:
    """The stub again, if it stands for this segment of this stream.

    Raises:
        CorruptionError: it stands for another one.
    """
    found = (stub.uuid, stub.number, stub.generation, stub.entries, stub.first, stub.last)
    listed = (bytes(native.uuid), view.number, view.generation, view.entries, view.first, view.last)
    for what, is_one, ought in zip(
        ("stream", "segment", "generation", "entries", "first", "last"), found, listed, strict=True
    ):
        if is_one != ought:
            shown = [each.hex() if isinstance(each, bytes) else str(each) for each in (ought, is_one)]
            raise CorruptionError(str(path), "stub of a cold segment", 0, f"{what} {shown[0]}", shown[1])
    return stub


def find(directory: Path, native: Log, view: SegmentView) -> Stub | None:
    """The stub of a listed segment; None where there is none.

    Raises:
        CorruptionError: it is damaged, or stands for another segment.
    """
    path = names.cold_path(directory, view.number, view.generation)
    stub = read(path)
    return None if stub is None else check(path, stub, native, view)


def is_used(streams: Path, native: Log) -> bool:
    """Whether anything of a store is in object storage, or was, as far as its stubs, those of its leases, its cache and
    the rule of a stream tell.

    A stream may have lost all of its stubs: what they stood for is not gone because of that.

    Args:
        streams: where all streams of the store are.
        native: the log of the stream.

    Raises:
        StorageError: nobody can say.
    """
    leases = [lease / "streams" for lease in named(streams.parent / "leases", "")]
    found = any(named(each, ".cold") for folder in (streams, *leases) for each in named(folder, ""))
    return found or is_there(streams.parent / "cold-cache") or moves(native.setting(RETENTION) or b"")


def moves(rule: bytes) -> bool:
    """Whether a rule of retention moves to object storage instead of removing: docs/format/groups.md."""
    try:
        return bool(json.loads(rule).get("to"))
    except (ValueError, AttributeError, RecursionError):
        return False


def write(directory: Path, stub: Stub, files: Files) -> None:
    """Gives a directory a stub, durably. One that is there is replaced.

    Raises:
        StorageError: the disk said no; what was there is there.
    """
    target = names.cold_path(directory, stub.number, stub.generation)
    data = stub.packed()
    assert unpacked(target, data) == stub  # what is relied on from now on can be read
    temporary = target.with_name(target.name + ".tmp")
    files.unlink(temporary)  # of a process that was killed here
    try:
        with files.create(temporary) as new:
            new.write(data)
            new.sync()
        files.rename(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            files.unlink(temporary)
        raise
    files.sync_dir(directory)
