"""Streams that lie in every kind of segment at once, beside a plain list of what they should hold."""

from collections.abc import Iterable, Iterator
from typing import Any

import diskstream
from diskstream import Entry, EntryID, Store, Stream
from diskstream.engine.log import StreamLog

SMALL: dict[str, Any] = {"segment_bytes": 8192, "node_max_entries": 7, "seal": "manual", "fsync": "os"}

MAX = 2**64 - 1
MAX_ID = EntryID(MAX, MAX)

Pairs = list[tuple[bytes, bytes]]
Row = tuple[EntryID, Pairs]


def rows(entries: Iterable[Entry]) -> list[Row]:
    """IDs and pairs: what an entry is, in plain Python."""
    return [(entry.id, entry.pairs) for entry in entries]


def ids(entries: Iterable[Entry]) -> list[str]:
    return [str(entry.id) for entry in entries]


def log_of(store: Store, name: bytes | str = b"x") -> StreamLog:
    """The log behind a stream, to see how it lies on disk."""
    log = store._log(name.encode() if isinstance(name, str) else name, create=False)
    assert log is not None
    return log


def frames(store: Store, name: bytes | str = b"x") -> int:
    """The sequence number of the last frame: it grows by one with each."""
    return log_of(store, name).native.tail[2]


def nth_id(number: int) -> EntryID:
    """IDs with gaps: five share each millisecond, every other sequence and millisecond is left out."""
    return EntryID(2 * (number // 5) + 10, 2 * (number % 5) + 1)


def nth_pairs(number: int) -> Pairs:
    """Two shapes in turn, some with a repeated name, about 110 bytes."""
    if number % 3 == 0:
        return [(b"n", b"%d" % number), (b"pad", b"." * 100)]
    return [(b"n", b"%d" % number), (b"odd\xff", b"\x00\r\n" * (number % 9)), (b"n", b"again"), (b"pad", b"x" * 80)]


class Layered:
    """A stream, and the entries that it should hold."""

    def __init__(self, store: Store, stream: Stream) -> None:
        self.store, self.stream = store, stream
        self.live: list[Row] = []
        self.added = 0

    def add(self, count: int) -> None:
        for number in range(self.added, self.added + count):
            entry_id, pairs = nth_id(number), nth_pairs(number)
            self.stream.add(pairs, entry_id)
            self.live.append((entry_id, pairs))
        self.added += count

    def delete(self, chosen: Iterable[int]) -> None:
        """Deletes live entries by their index."""
        gone = {self.live[index][0] for index in chosen}
        assert self.stream.delete(*gone) == len(gone)
        self.live = [row for row in self.live if row[0] not in gone]

    def trim_to(self, length: int) -> None:
        assert self.stream.trim(maxlen=length) == len(self.live) - length
        self.live = self.live[len(self.live) - length :]


def kinds(store: Store, name: bytes | str = b"x") -> list[str]:
    """What each segment is, oldest first."""
    log = log_of(store, name)

    def found() -> Iterator[str]:
        for view in log.segments.views():
            yield "rows" if log.segments.is_rows(view) else "compacted" if view.generation else "sealed"
        yield "active"

    return list(found())


def layered(store: Store, name: str = "x") -> Layered:
    """A stream with compacted, sealed, rolled and active segments: entries deleted in all, the oldest trimmed."""
    made = Layered(store, store.stream(name))
    made.add(140)
    made.stream.seal()
    made.delete(range(0, 140, 7))
    made.stream.compact()
    start = len(made.live)
    made.add(140)
    made.stream.seal()
    made.delete(range(start, start + 140, 5))
    start = len(made.live)
    made.add(190)
    made.delete(range(start, start + 190, 4))
    made.delete(range(start + 3, start + 12))
    made.trim_to(len(made.live) - 33)
    return made


def small_store(path: Any, **options: Any) -> Store:
    """Opens a store with small segments; `options` go before those of `SMALL`."""
    return diskstream.open(path, **{**SMALL, **options})
