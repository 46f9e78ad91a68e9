"""A store with a group that has much pending: how it is built, and how a new process looks into it."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import diskstream
from bench import ours
from bench.subjects.large_store import pool, resident_kib

GROUP = "workers"
HOLDER = "holder"
BATCH = 1000
READ_BATCH = 10_000
CLAIM = 100
PLACES = 60
SUMMARIES = 50
# Where the log says what is pending: in the snapshot that begins the newest segment, or in the frames of one segment.
IN_SNAPSHOT, IN_FRAMES = "snapshot", "frames"
WIDE = 1 << 30  # a segment that is never full


def _open(path: str, place: str) -> diskstream.Store:
    if place == IN_FRAMES:
        return diskstream.open(path, fsync="everysec", segment_bytes=WIDE)
    return diskstream.open(path, fsync="everysec")


def build(path: str, entries: int, pending: int, place: str) -> dict[str, Any]:
    """Adds `entries` entries and has one consumer read the last `pending` of them."""
    rows = pool() if entries else []
    known = Known(pending)
    begin = time.monotonic()

    def add(stream: diskstream.Stream, count: int) -> Iterator[list[diskstream.EntryID]]:
        for number in range(0, count, BATCH):
            at = number % (len(rows) - BATCH)
            yield stream.add_many(rows[at : at + min(BATCH, count - number)])

    with _open(path, place) as store:
        stream = store.stream(ours.NAME)
        for _ in add(stream, entries - pending):
            pass
        group = stream.group(GROUP, start="$")
        for number, ids in enumerate(add(stream, pending)):
            known.note(number, ids)
        holder = group.consumer(HOLDER)
        while holder.read(count=READ_BATCH):
            pass
        if place == IN_SNAPSHOT:
            stream.seal()
        must_be_pending(group, pending)
    known.write(_ids_file(path))
    return {
        "seconds": time.monotonic() - begin,
        "bytes": ours.bytes_below(Path(path) / "streams"),
        "view_bytes": ours.bytes_below(Path(path) / "view"),
        "pending": pending,
        "place": place,
    }


def _ids_file(path: str) -> Path:
    """Where the IDs are kept that `build` noted: they are too many for a command line."""
    return Path(path).with_suffix(".ids")


def must_be_pending(group: diskstream.Group, pending: int) -> None:
    """A figure counts only when as much is pending as it says."""
    total = group.pending().total
    if total != pending:
        raise RuntimeError(f"{total} entries are pending and not {pending}")


class Known:
    """IDs to be asked for later: `PLACES` times a hundred neighbours at random places, and a hundred from all over."""

    def __init__(self, pending: int) -> None:
        chance = random.Random(pending)
        size = min(BATCH, pending)
        self.neighbours: list[list[diskstream.EntryID]] = []
        self.scattered: list[diskstream.EntryID] = []
        self._places: defaultdict[int, list[int]] = defaultdict(list)
        self._points: defaultdict[int, list[int]] = defaultdict(list)
        if pending >= CLAIM:
            for _ in range(PLACES):
                self._places[chance.randrange(pending // size)].append(chance.randrange(size - CLAIM + 1))
            for point in chance.sample(range(pending), CLAIM):
                self._points[point // size].append(point % size)
        self._chance = chance

    def note(self, number: int, ids: list[diskstream.EntryID]) -> None:
        """Keeps what is wanted of batch `number`."""
        for start in self._places.pop(number, ()):
            self.neighbours.append(ids[start : start + CLAIM])
        for at in self._points.pop(number, ()):
            self.scattered.append(ids[at])

    def write(self, file: Path) -> None:
        """For the processes to come."""
        self._chance.shuffle(self.neighbours)
        neighbours = [[str(each) for each in ids] for ids in self.neighbours]
        file.write_text(json.dumps([neighbours, [str(each) for each in self.scattered]]), encoding="utf-8")


def _timed(action: Callable[[], object]) -> float:
    begin = time.perf_counter_ns()
    action()
    return (time.perf_counter_ns() - begin) / 1e6


def _timed_claim(consumer: diskstream.Consumer, ids: list[str]) -> float:
    begin = time.perf_counter_ns()
    entries = consumer.claim(*ids)
    took = (time.perf_counter_ns() - begin) / 1e6
    if len(entries) != len(ids):
        raise RuntimeError(f"{len(entries)} of {len(ids)} entries were claimed")
    return took


def probe(path: str, known: dict[str, Any]) -> dict[str, Any]:
    """Open and first look; summaries; claims: the first, at other places, of the same again, scattered. Times in ms."""
    begin = time.perf_counter_ns()
    store = _open(path, known["place"])
    group = store.stream(ours.NAME).group(GROUP, create=False)
    total = group.pending().total
    opened = (time.perf_counter_ns() - begin) / 1e6
    if total != known["pending"]:
        raise RuntimeError(f"{total} entries are pending and not {known['pending']}")
    answer: dict[str, Any] = {"open": opened, "resident_open": resident_kib()}
    answer["summary"] = [_timed(group.pending) for _ in range(SUMMARIES)]
    (first, *others), scattered = json.loads(_ids_file(path).read_text(encoding="utf-8"))
    takers = cycle([group.consumer("taker-1"), group.consumer("taker-2")])
    answer["first_claim"] = _timed_claim(next(takers), first)
    answer["claim"] = [_timed_claim(next(takers), ids) for ids in others]
    answer["again"] = [_timed_claim(next(takers), first) for _ in others]
    answer["scattered"] = _timed_claim(next(takers), scattered)
    answer["autoclaim"] = [_timed(partial(next(takers).autoclaim, 0, ids[0], count=CLAIM)) for ids in others]
    answer["summary_after"] = [_timed(group.pending) for _ in range(SUMMARIES)]
    answer["close"] = _timed(store.close)
    return answer


def rebuild(path: str, known: dict[str, Any], chance: int) -> dict[str, Any]:
    """Opens a store without a view; looks at pending entries in the middle, then claims one: times in s, from the open.

    After the claim the view is there again: a change merges what is kept in memory, where that is more than a little.
    """
    shutil.rmtree(Path(path) / "view", ignore_errors=True)  # few pending entries stay in memory: no view then
    _, scattered = json.loads(_ids_file(path).read_text(encoding="utf-8"))
    wanted = random.Random(chance).choice(scattered)
    begin = time.perf_counter()
    store = _open(path, known["place"])
    group = store.stream(ours.NAME).group(GROUP, create=False)
    total = group.info().pending
    opened = time.perf_counter() - begin
    rows = group.pending_range(wanted, "+", count=10)
    looked = time.perf_counter() - begin
    claimed = group.consumer("taker-1").claim_ids(wanted)
    answer = {"seconds": time.perf_counter() - begin, "looked": looked, "opened": opened, "resident": resident_kib()}
    if total != known["pending"] or str(rows[0].id) != wanted or len(claimed) != 1:
        raise RuntimeError(f"the view made anew is wrong: {total} pending, {rows[0]}, {len(claimed)} claimed")
    must_be_pending(group, total)
    store.close()
    answer["view_bytes"] = ours.bytes_below(Path(path) / "view")
    return answer
