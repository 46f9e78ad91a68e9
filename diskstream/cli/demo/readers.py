"""The processes that read while others write: one follows the ends of the streams, one reads ranges anywhere."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic_ns
from typing import Final

import diskstream
from diskstream.cli.demo.board import STREAMS, Board, Word
from diskstream.cli.demo.sequence import SAMPLED_AT, SequenceCheck

_MAX_LATENCIES: Final = 100_000


@dataclass(slots=True)
class Tailed:
    """What the tailing process saw: where it is in each stream, and how old the newest entry of each read was."""

    positions: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    latencies_ns: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Ranged:
    """What the ranging process saw."""

    ranges: int = 0
    entries: int = 0


def tail(directory: Path, start: Tailed, board: Board) -> Tailed:
    """Follow all streams, from where `start` left off until the board says stop and nothing is left."""
    seen = Tailed(dict(start.positions), dict(start.numbers))
    checks = {name: SequenceCheck(name, after=seen.numbers.get(name, 0)) for name in STREAMS}
    positions: dict[str | bytes, str] = {name: seen.positions.get(name, "0-0") for name in STREAMS}
    with diskstream.open(directory, read_only=True) as store:
        while True:
            last_round = board.readers_stop
            found = store.read(positions, count=1000, block=None if last_round else 0.1)
            now = monotonic_ns()
            for key, entries in found.items():
                name = key.decode()
                for entry in entries:
                    checks[name](entry)
                positions[name] = str(entries[-1].id)
                board.add(name, Word.TAILED, len(entries))
                if len(seen.latencies_ns) < _MAX_LATENCIES:
                    seen.latencies_ns.append(now - int(entries[-1][SAMPLED_AT]))
            if last_round and not found:
                break
    seen.positions = {name: str(positions[name]) for name in STREAMS}
    seen.numbers = {name: check.last or 0 for name, check in checks.items()}
    return seen


def read_ranges(directory: Path, board: Board) -> Ranged:
    """Read ranges from random places, one stream after another, until the board says stop."""
    seen = Ranged()
    chance = random.Random()
    with diskstream.open(directory, read_only=True) as store:
        while not board.readers_stop:
            for name in STREAMS:
                stream = store.stream(name)
                first = next(iter(stream.range(count=1)), None)
                last = next(iter(stream.revrange(count=1)), None)
                if first is None or last is None:
                    continue
                ms = chance.randint(first.id.ms, last.id.ms)
                entries = list(stream.range(str(ms), "+", count=1000))
                check = SequenceCheck(name)
                for entry in entries:
                    check(entry)
                seen.ranges += 1
                seen.entries += len(entries)
                board.add(name, Word.RANGED, len(entries))
    return seen
