"""What the demo measures of each stream in the end. Every figure is of this run."""

from __future__ import annotations

import random
from dataclasses import dataclass
from statistics import median
from time import perf_counter, perf_counter_ns
from typing import Final

import diskstream
from diskstream.cli.demo.board import STREAMS, Board, Word
from diskstream.cli.demo.sequence import NUMBER, SequenceCheck
from diskstream.cli.failure import Failure
from diskstream.cli.telemetry import MEMORY

_SEEKS: Final = 200


@dataclass(slots=True)
class Figures:
    """One stream."""

    stream: str
    entries: int
    raw_bytes: int  # names and values, nothing else
    disk_bytes: int
    appended_by: str
    appends_per_s: float  # entries, over the time spent in appends alone
    reads_per_s: float  # entries, touching the ID and one field
    seek_us: float  # one entry by its ID, the median


def measure(store: diskstream.Store, board: Board) -> list[Figures]:
    """Read each stream from end to end, once to check it and once against the clock, then seek in it."""
    measured = []
    for name in STREAMS:
        if not store.exists(name):
            continue
        stream = store.stream(name)
        raw_bytes, sample = _check_whole(stream, name)
        entries = len(stream)
        appended, append_ns = board.get(name, Word.APPENDED), board.get(name, Word.APPEND_NS)
        measured.append(
            Figures(
                stream=name,
                entries=entries,
                raw_bytes=raw_bytes,
                disk_bytes=stream.info().size_bytes,
                appended_by="add" if name == MEMORY.name else "add_many",
                appends_per_s=appended / append_ns * 1e9 if append_ns else 0.0,
                reads_per_s=entries / _time_to_read(stream),
                seek_us=_seek_us(stream, sample),
            )
        )
    return measured


def _check_whole(stream: diskstream.Stream, name: str) -> tuple[int, list[diskstream.EntryID]]:
    """The raw bytes of all entries, and the IDs of some, after checking that none is missing."""
    check = SequenceCheck(name)
    chance = random.Random(0)
    sample: list[diskstream.EntryID] = []
    raw_bytes = count = 0
    for entry in stream.range():
        check(entry)
        count += 1
        raw_bytes += sum(len(part) for pair in entry.pairs for part in pair)
        if len(sample) < _SEEKS:
            sample.append(entry.id)
        elif (place := chance.randrange(count)) < _SEEKS:
            sample[place] = entry.id
    if count != len(stream):
        raise Failure(f"stream {name}: {count:,} entries were read, its length is {len(stream):,}")
    return raw_bytes, sample


def _time_to_read(stream: diskstream.Stream) -> float:
    started = perf_counter()
    for entry in stream.range():
        entry.id, entry[NUMBER]
    return max(perf_counter() - started, 1e-9)


def _seek_us(stream: diskstream.Stream, sample: list[diskstream.EntryID]) -> float:
    random.Random(1).shuffle(sample)
    took = []
    for entry_id in sample:
        started = perf_counter_ns()
        entry = stream.get(entry_id)
        took.append(perf_counter_ns() - started)
        if entry is None or entry.id != entry_id:
            raise Failure(f"stream {stream.name!r}: the entry {entry_id} is not found by its ID")
    return median(took) / 1000 if took else 0.0
