"""The costs whose growth is looked at: each function gives one figure for each size."""

from __future__ import annotations

import math
import random
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import diskstream
from bench import ours
from bench.context import Context
from bench.entries import sensor_entries
from bench.procs import FORKING, PATIENCE, ChildError, ask

GROUP, CONSUMER = "workers", "one"
BATCH = 500
# Of so many repetitions the least counts: whatever disturbs a run makes it longer.
REPEATS = 5
TRIMS = 3
ADDS, SEEKS, ACTIVE, FEW = 500, 40, 2000, 100
# The smallest: for a store of many segments.
SEGMENT_BYTES = 8 << 10
ROWS = sensor_entries(20 * BATCH)
# No thread of the store works beside the one that is measured.
ALONE: dict[str, Any] = {"fsync": "os", "seal": "manual", "retention_interval_ms": 0}


@dataclass
class Stores:
    """Stores of each size, sealed and closed: made when first asked for, and used by all that change little."""

    context: Context
    home: Path
    known: dict[int, list[str]] = field(default_factory=dict)

    def sealed(self, entries: int) -> Path:
        """The store with so many sealed entries, some of whose IDs are in `known`."""
        path = self.home / str(entries)
        if entries not in self.known:
            self.known[entries] = []
            with diskstream.open(path, **ALONE) as store:
                stream = store.stream(ours.NAME)
                for first in range(0, entries, BATCH):
                    ids = stream.add_many(_rows(first, min(BATCH, entries - first)))
                    self.known[entries].append(str(ids[len(ids) // 2]))
                stream.seal()
        return path

    def segmented(self, segments: int) -> Path:
        """The store with so many sealed segments of a hundred entries."""
        path = self.home / f"segments-{segments}"
        if not path.exists():
            with diskstream.open(path, **ALONE, segment_bytes=SEGMENT_BYTES) as store:
                for number in range(segments):
                    store.stream(ours.NAME).add_many(_rows(number, FEW))
                    store.stream(ours.NAME).seal()
        return path


@contextmanager
def stores(context: Context) -> Iterator[Stores]:
    """A place for the stores, removed afterwards."""
    with context.fresh("growth") as home:
        home.mkdir()
        yield Stores(context, home)


def _rows(first: int, count: int) -> list[dict[str, str]]:
    at = first % (len(ROWS) - BATCH + 1)
    return ROWS[at : at + count]


def least(
    work: Callable[[], object], repeats: int = REPEATS, *, clock: Callable[[], int] = time.thread_time_ns
) -> float:
    """The processor time of this thread in µs, the least of some repetitions."""
    best = math.inf
    for _ in range(repeats):
        begin = clock()
        work()
        best = min(best, clock() - begin)
    return max(best, 1) / 1000


def add(made: Stores, sizes: list[int]) -> list[float]:
    """µs for one `add`."""
    found = []
    for size in sizes:
        with diskstream.open(made.sealed(size), **ALONE) as store:
            step = ours.add_step(store.stream(ours.NAME), ROWS[:ADDS])
            step()
            found.append(least(step) / ADDS)
            store.stream(ours.NAME).seal()
    return found


def seek(made: Stores, sizes: list[int]) -> list[float]:
    """µs for one `get` whose node is not decoded."""
    found = []
    for size in sizes:
        with diskstream.open(made.sealed(size), **ALONE, cache_bytes=0) as store:
            stream = store.stream(ours.NAME)
            known = random.Random(size).choices(made.known[size], k=SEEKS)

            def work(stream: diskstream.Stream = stream, known: list[str] = known) -> None:
                for each in known:
                    stream.get(each)

            work()
            found.append(least(work) / SEEKS)
    return found


def _open(path: Path) -> None:
    with diskstream.open(path, **ALONE) as store:
        len(store.stream(ours.NAME))


def open_store(made: Stores, sizes: list[int]) -> list[float]:
    """µs from `open` to `close`, with a `len` in between."""
    found = []
    for size in sizes:
        path = made.sealed(size)
        _open(path)
        found.append(least(lambda path=path: _open(path)))  # type: ignore[misc]  # bound now
    return found


def open_segments(made: Stores, sizes: list[int]) -> list[float]:
    """µs from `open` to `close`, with a `len` in between, by the segments of the stream."""
    paths = [made.segmented(size) for size in sizes]
    return [least(lambda path=path: _open(path)) for path in paths]  # type: ignore[misc]  # bound now


def look_among_segments(made: Stores, sizes: list[int]) -> list[float]:
    """µs of one `len` and one `get` of the last entry, opened for reading only, by the segments of the stream."""
    found = []
    for size in sizes:
        with diskstream.open(made.segmented(size), read_only=True) as store:
            stream = store.stream(ours.NAME)
            last = stream.last_id()

            def work(stream: diskstream.Stream = stream, last: diskstream.EntryID = last) -> None:
                if not len(stream) or stream.get(last) is None:
                    raise RuntimeError("the last entry is not there")

            work()
            found.append(least(work, 4 * REPEATS))
    return found


def _killed(path: Path, entries: int) -> float:
    """µs of the first open after a process that added so many entries was killed."""
    ready = FORKING.Event()
    writer = FORKING.Process(target=_fill_and_wait, args=(path, entries, ready))
    writer.start()
    try:
        if not ready.wait(PATIENCE):
            raise ChildError("a process that was to be killed did not write in time")
    finally:
        writer.kill()
        writer.join()
    return least(lambda: _open(path), 1)


def _fill_and_wait(path: Path, entries: int, ready: Any) -> None:
    stream = diskstream.open(path, **ALONE).stream(ours.NAME)
    for first in range(0, entries, BATCH):
        stream.add_many(_rows(first, min(BATCH, entries - first)))
    ready.set()
    time.sleep(PATIENCE)  # until it is killed


def recovery(made: Stores, sizes: list[int]) -> list[float]:
    """µs of an open after a kill, with the same number of entries in the active segment of stores of each size."""
    found = []
    for size in sizes:
        with made.context.fresh("killed") as path:
            shutil.copytree(made.sealed(size), path)
            found.append(_killed(path, ACTIVE))
    return found


def recovery_of_active(made: Stores, sizes: list[int]) -> list[float]:
    """µs of an open after a kill, by the entries in the active segment."""
    found = []
    for size in sizes:
        with made.context.fresh("killed") as path:
            found.append(_killed(path, size))
    return found


def _trimmed(made: Stores, segments: int, entries: int, **options: Any) -> float:
    """µs to trim away so many sealed segments of so many entries, and to close; the least of some stores.

    The files are removed by then: by `close`, or by the thread of the store, so that all threads are looked at.
    """
    return min(_trimmed_once(made, segments, entries, **options) for _ in range(TRIMS))


def _trimmed_once(made: Stores, segments: int, entries: int, **options: Any) -> float:
    with made.context.fresh("trimmed") as path, diskstream.open(path, **ALONE, **options) as store:
        stream = store.stream(ours.NAME)
        for _ in range(segments):
            for first in range(0, entries, BATCH):
                stream.add_many(_rows(first, min(BATCH, entries - first)))
            stream.seal()
        stream.add(ROWS[0])

        def work() -> None:
            stream.trim(maxlen=1)
            store.close()

        found = least(work, 1, clock=time.process_time_ns)
        if any(path.rglob("*.seg")):
            raise RuntimeError("segments were trimmed away and their files are there")
        return found


def trim_of_one(made: Stores, sizes: list[int]) -> list[float]:
    """µs to trim away one segment, by the entries in it."""
    return [_trimmed(made, 1, size) for size in sizes]


def trim_of_many(made: Stores, sizes: list[int]) -> list[float]:
    """µs to trim away all segments but the last."""
    return [_trimmed(made, size, 100, segment_bytes=SEGMENT_BYTES) for size in sizes]


def _consume(made: Stores, entries: int, pending: int, count: int) -> float:
    """µs to read and acknowledge so many entries at once, with others pending; the least of some turns."""
    with made.context.fresh("group") as path, diskstream.open(path, **ALONE) as store:
        stream = store.stream(ours.NAME)
        group = stream.group(GROUP, start="0")
        for first in range(0, entries, BATCH):
            stream.add_many(_rows(first, min(BATCH, entries - first)))
        other, consumer = group.consumer("other"), group.consumer(CONSUMER)
        for first in range(0, pending, BATCH):
            other.read(count=min(BATCH, pending - first))

        def work() -> None:
            group.ack(*[entry.id for entry in consumer.read(count=count)])

        work()
        return least(work, 4 * REPEATS)


def touch(made: Stores, sizes: list[int]) -> list[float]:
    """µs of one `read` and one `ack`, by the entries that they take."""
    return [_consume(made, (4 * REPEATS + 1) * size, 0, size) for size in sizes]


def touch_beside_pending(made: Stores, sizes: list[int]) -> list[float]:
    """µs of one `read` of ten and one `ack`, by what is pending beside them."""
    return [_consume(made, size + (4 * REPEATS + 1) * 10, size, 10) for size in sizes]


def trim_beside_pending(made: Stores, sizes: list[int]) -> list[float]:
    """µs of one `add` with MAXLEN and ACKED behind a `read` and an `ack` of one, by what is pending beside it."""
    found = []
    for size in sizes:
        with made.context.fresh("acked") as path, diskstream.open(path, **ALONE) as store:
            stream = store.stream(ours.NAME)
            group = stream.group(GROUP, start="0")
            for first in range(0, size, BATCH):
                stream.add_many(_rows(first, min(BATCH, size - first)))
                group.consumer("other").read(count=BATCH)
            consumer = group.consumer(CONSUMER)

            def work(stream: diskstream.Stream = stream, group: Any = group, consumer: Any = consumer) -> None:
                stream.add(ROWS[0], maxlen=1, ref="ACKED")
                group.ack(*[entry.id for entry in consumer.read(count=1)])

            work()
            found.append(least(work, 4 * REPEATS))
    return found


def read_behind_deleted(made: Stores, sizes: list[int]) -> list[float]:
    """µs of one `read` of the first entry, by what was deleted before it and is still in the log."""
    found = []
    for size in sizes:
        with made.context.fresh("deleted") as path, diskstream.open(path, **ALONE) as store:
            stream = store.stream(ours.NAME)
            for first in range(0, size, BATCH):
                stream.delete(*stream.add_many(_rows(first, min(BATCH, size - first))))
            stream.add(ROWS[0])
            found.append(least(lambda stream=stream: stream.read("0", count=1)))  # type: ignore[misc]  # bound now
    return found


def memory(made: Stores, sizes: list[int]) -> list[float]:
    """MiB that a new process had resident at most."""
    found = []
    for size in sizes:
        path = made.sealed(size)
        found.append(ask("range_and_weigh", str(path), made.known[size][:200]) / 1024)
    return found
