"""A small store with a segment of every kind, and what it holds: the thing that the other tests damage."""

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import diskstream
from diskstream import Entry, EntryID, Store, Stream
from diskstream._native import SealedSegment, SegmentView
from diskstream.engine.log import StreamLog

SMALL: dict[str, Any] = {"segment_bytes": 8192, "node_max_entries": 4, "seal": "manual", "fsync": "os"}

Row = tuple[EntryID, list[tuple[bytes, bytes]]]


def rows(entries: Iterable[Entry]) -> list[Row]:
    """IDs and pairs: what an entry is, in plain Python."""
    return [(entry.id, entry.pairs) for entry in entries]


def log_of(store: Store, name: bytes = b"x") -> StreamLog:
    """The log behind a stream, which exists."""
    log = store._log(name, create=False)
    assert log is not None
    return log


def sealed(store: Store, name: bytes = b"x") -> tuple[SealedSegment, SegmentView]:
    """The one segment of a stream, which is sealed, and what its log says of it."""
    log = log_of(store, name)
    (view,) = log.segments.views()
    segment = log.segments.get(view)
    assert isinstance(segment, SealedSegment)
    return segment, view


def damage_node(root: Path, number: int) -> int:
    """Flips a bit of a node of stream ``x``, which is one sealed segment; the entries before that node."""
    with diskstream.open(root, read_only=True) as store:
        offset, length, before, *_ = sealed(store)[0].node_row(number)
    (path,) = (root / "streams" / "x").glob("*.seg")
    content = bytearray(path.read_bytes())
    content[offset + length // 2] ^= 0x10
    path.write_bytes(content)
    return before


def as_if_killed(store: Store) -> None:
    """Leaves a store as the death of its process does: its locks go, and nothing is flushed or said."""
    for page in (*(log.page for log in store._logs.values()), store._page):
        page.close()
    store._closed = True


def files_of(root: Path) -> dict[str, bytes]:
    """Every file below a directory, by its path there."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


@dataclass
class Sample:
    """A stream, the entries that are in it, and those that were after each change since its active segment began."""

    store: Store
    name: str
    live: list[Row] = field(default_factory=list)
    states: list[list[Row]] = field(default_factory=list)
    added: int = 0

    @property
    def stream(self) -> Stream:
        return self.store.stream(self.name)

    def add(self, count: int) -> None:
        for _ in range(count):
            pairs = [(b"n", b"%d of %s" % (self.added, self.name.encode())), (b"pad", b"\x00\xff" * (self.added % 5))]
            self.added += 1
            self.stream.add(pairs, EntryID(self.added, 7))
            self.live.append((EntryID(self.added, 7), pairs))
            self.states.append(list(self.live))

    def delete(self, *places: int) -> None:
        gone = [self.live[place][0] for place in places]
        assert self.stream.delete(*gone) == len(gone)
        self.live = [row for row in self.live if row[0] not in gone]
        self.states.append(list(self.live))

    def trim(self, count: int) -> None:
        assert self.stream.trim(maxlen=len(self.live) - count) == count
        del self.live[:count]
        self.states.append(list(self.live))

    def roll(self) -> None:
        log_of(self.store, self.name.encode()).roll()
        self.states = [list(self.live)]

    def fill(self) -> None:
        """A compacted, a sealed, a rolled and an active segment; entries are gone from each."""
        for _ in range(2):
            self.add(7)
            self.delete(-2)
            self.stream.seal()
        self.stream.compact()
        self.add(9)
        self.stream.seal()
        self.add(6)
        self.delete(-1, 3, 14)
        self.roll()
        self.add(5)
        self.delete(-3)
        self.trim(2)
        self.stream.add_many([{"n": "many"}, {"n": "of them"}], ids=["100-1", "100-2"])
        self.live += [(EntryID(100, 1), [(b"n", b"many")]), (EntryID(100, 2), [(b"n", b"of them")])]
        self.states.append(list(self.live))
        assert rows(self.stream.range()) == self.live


def build(path: Path, *names: str, **options: Any) -> dict[str, Sample]:
    """Makes a store with a segment of every kind in each stream, and closes it."""
    with diskstream.open(path, **{**SMALL, **options}) as store:
        samples = {name: Sample(store, name) for name in names or ("x",)}
        for sample in samples.values():
            sample.fill()
    return samples


@contextmanager
def fast_directory() -> Iterator[Path]:
    """A directory in memory where there is one: what is tried thousands of times shall not wait for a disk."""
    memory = Path("/dev/shm")
    parent = memory if memory.is_dir() and os.access(memory, os.W_OK) else None
    made = Path(tempfile.mkdtemp(prefix="diskstream-", dir=parent))
    try:
        yield made
    finally:
        shutil.rmtree(made)
