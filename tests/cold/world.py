"""A stream with sealed segments, and what is to be seen of one."""

from pathlib import Path
from typing import Any

import diskstream
from diskstream import Entry, EntryID, Store, Stream
from diskstream.cold_segments import segments_of

SMALL: dict[str, Any] = {"segment_bytes": 8192, "node_max_entries": 8, "seal": "manual", "fsync": "os"}
ENTRIES = 200

Row = tuple[EntryID, list[tuple[bytes, bytes]]]


def filled(store: Store, name: str = "x", count: int = ENTRIES) -> Stream:
    """A stream with IDs 1-0 to N-0, sealed in segments of some twenty entries."""
    stream = store.stream(name)
    for number in range(1, count + 1):
        stream.add({"n": str(number), "pad": f"{number:03d}" * 80}, f"{number}-0")
    stream.seal()
    return stream


def rows(stream: Stream, start: str = "-", end: str = "+") -> list[Row]:
    return [(entry.id, entry.pairs) for entry in stream.range(start, end)]


def where(stream: Stream) -> list[str]:
    """Where each segment is, in order."""
    return [each.where for each in segments_of(stream)]


def names_in(folder: Path, suffix: str) -> list[str]:
    return sorted(path.name for path in folder.rglob(f"*{suffix}"))


def opened(path: Path, **options: Any) -> Store:
    return diskstream.open(path, **{**SMALL, **options})


def spoilt(data: bytes) -> bytes:
    """With another last byte, whatever it was: checksums end files, so one of 256 would equal any fixed byte."""
    return data[:-1] + bytes([data[-1] ^ 1])


def numbers(entries: list[Entry]) -> list[int]:
    return [entry.id.ms for entry in entries]
