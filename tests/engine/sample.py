"""A small store with a segment of every kind, and what it holds: the thing that the other tests damage."""

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import diskstream
from diskstream import Entry, EntryID, Store
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


def files_of(root: Path) -> dict[str, bytes]:
    """Every file below a directory, by its path there."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def _fill(store: Store, name: str) -> list[Row]:
    stream = store.stream(name)
    live: list[Row] = []

    def add(count: int) -> None:
        for _ in range(count):
            number = stream.info().entries_added if stream.exists() else 0
            pairs = [(b"n", b"%d of %s" % (number, name.encode())), (b"pad", b"\x00\xff" * (number % 5))]
            stream.add(pairs, EntryID(number + 1, 7))
            live.append((EntryID(number + 1, 7), pairs))

    def delete(*places: int) -> None:
        gone = [live[place][0] for place in places]
        assert stream.delete(*gone) == len(gone)
        live[:] = [row for row in live if row[0] not in gone]

    for _ in range(2):
        add(7)
        delete(-2)
        store.seal(name)
    store.compact(name)
    add(9)
    store.seal(name)
    add(6)
    delete(-1, 3, 14)
    log_of(store, name.encode()).roll()
    add(5)
    delete(-3)
    stream.trim(maxlen=len(live) - 2)
    del live[:2]
    stream.add_many([{"n": "many"}, {"n": "of them"}], ids=["100-1", "100-2"])
    live += rows(stream.range("100-1"))
    return live


def build(path: Path, *names: str) -> dict[str, list[Row]]:
    """Makes a store with a compacted, a sealed, a rolled and an active segment in each stream, and closes it."""
    with diskstream.open(path, **SMALL) as store:
        return {name: _fill(store, name) for name in names or ("x",)}


@contextmanager
def fast_directory() -> Iterator[Path]:
    """A directory in memory where there is one: what is tried thousands of times shall not wait for a disk."""
    memory = Path("/dev/shm")  # noqa: S108
    parent = memory if memory.is_dir() and os.access(memory, os.W_OK) else None
    made = Path(tempfile.mkdtemp(prefix="diskstream-", dir=parent))
    try:
        yield made
    finally:
        shutil.rmtree(made)
