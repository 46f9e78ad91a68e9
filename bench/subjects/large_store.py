"""A store of very many entries: how it is built, and how a new process looks into it."""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import diskstream
from bench import ours
from bench.entries import Fields, sensor_entries

BATCH = 1000
POINTS = 500
FAR_APART = 20
READ_ALONG = 1_000_000


def pool() -> list[Fields]:
    """The entries that a large store repeats: a hundred thousand different ones."""
    return sensor_entries(100_000)


def build(path: str, entries: int) -> dict[str, Any]:
    """Adds `entries` entries by a thousand, seals, closes; some IDs, evenly spread, are kept to be asked for later."""
    rows = pool()
    chance = random.Random(entries)
    spacing = max(1, entries // (2 * POINTS))
    known: list[str] = []
    begin = said = time.monotonic()
    with diskstream.open(path, fsync="everysec") as store:
        stream = store.stream(ours.NAME)
        added, wanted = 0, spacing // 2
        while added < entries:
            at = added % len(rows)
            batch = rows[at : at + min(BATCH, entries - added)]
            ids = stream.add_many(batch)
            while wanted < added + len(batch):
                known.append(str(ids[wanted - added]))
                wanted += spacing + chance.randrange(-(spacing // 4), spacing // 4 + 1)
            added += len(batch)
            if time.monotonic() - said > 10:
                said = time.monotonic()
                print(
                    f"  {added:,} of {entries:,} entries, {added / (said - begin):,.0f}/s", file=sys.stderr, flush=True
                )
        stream.seal()
        took = time.monotonic() - begin
        ours.must_hold(stream, entries)
    return {"seconds": took, "known": known, "bytes": ours.bytes_below(Path(path))}


def resident_kib() -> int:
    """The most memory that this process had resident so far (VmHWM)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise RuntimeError("no VmHWM in /proc/self/status")


def _timed_get(stream: diskstream.Stream, entry_id: str) -> float:
    begin = time.perf_counter_ns()
    entry = stream.get(entry_id)
    took = time.perf_counter_ns() - begin
    if entry is None:
        raise RuntimeError(f"the entry {entry_id} is not there")
    return took / 1000


def fill_page_cache(path: str) -> None:
    """Has the kernel read all files, which `drop_page_cache` may have made it forget in the round before."""
    for file in Path(path).rglob("*"):
        if file.is_file():
            with file.open("rb", buffering=0) as opened:
                while opened.read(1 << 20):
                    pass


def drop_page_cache(path: str) -> None:
    """Asks the kernel to forget the sealed segments; what a process has mapped it keeps."""
    for segment in Path(path).rglob("*.seg"):
        descriptor = os.open(segment, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def _first_touches(path: str, known: list[str]) -> list[float]:
    """Of a new opening and from the disk: entries far apart, in stores of many segments each in one not yet opened."""
    with diskstream.open(path, read_only=True) as store:
        stream = store.stream(ours.NAME)
        _timed_get(stream, known[len(known) // 2])
        drop_page_cache(path)
        return [_timed_get(stream, entry_id) for entry_id in known[:: len(known) // FAR_APART]]


def probe(path: str, known: list[str], chance: int) -> dict[str, Any]:
    """Open; a first read in the middle; random other nodes, each twice; some from the disk; a long range; memory."""
    fill_page_cache(path)
    begin = time.perf_counter_ns()
    store = diskstream.open(path)
    stream = store.stream(ours.NAME)
    count = len(stream)
    opened = (time.perf_counter_ns() - begin) / 1000
    middle = known[len(known) // 2]
    answer: dict[str, Any] = {"open": opened, "count": count, "first": _timed_get(stream, middle)}
    others = [entry_id for entry_id in known if entry_id != middle]
    random.Random(chance).shuffle(others)
    half = len(others) // 2
    cold, warm = [], []
    for entry_id in others[:half]:
        cold.append(_timed_get(stream, entry_id))
        warm.append(_timed_get(stream, entry_id))
    drop_page_cache(path)
    disk = [_timed_get(stream, entry_id) for entry_id in others[half:]]
    answer |= {"cold": cold, "warm": warm, "disk": disk, "recoveries": len(store.recoveries)}
    answer["disk_first"] = _first_touches(path, known)
    answer["resident_points"] = resident_kib()
    for entry in stream.range(middle, "+", count=READ_ALONG):
        _id = entry.id
    answer["resident_range"] = resident_kib()
    store.close()
    return answer
