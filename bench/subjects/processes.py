"""Throughput by the number of processes.

1, 2, 4 and 8 processes open one store with fsync everysec and begin together, in turn: all add by 100 to one stream,
each adds by 100 to a stream of its own, or each ranges over the same sealed stream. A rate is what all of them did
between the common start and the end of the last. The machine has as many cores as it says below.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import diskstream
from bench import ours
from bench.context import Context
from bench.entries import batches, sensor_entries
from bench.model import Figure, Result, Row, Series
from bench.procs import FORKING, PATIENCE, ChildError
from bench.rounds import Contender, take_turns

NAME = "processes"
RATE = "entries/s"
CHART = "processes"
COUNTS = (1, 2, 4, 8)
BATCH = 100
ROWS = sensor_entries(20 * BATCH)
MOST_ENTRIES = 200_000
# Of the length of a turn: there are many of them.
SHARE = 0.3
ONE, OWN, READ = "add to one stream", "add to a stream each", "range over one stream"


def run(context: Context, result: Result) -> None:
    """Measures, and puts the rows into `result`."""
    with context.fresh("sealed") as sealed:
        with diskstream.open(sealed, fsync="everysec") as store:
            stream = store.stream(ours.NAME)
            ours.fill(stream, sensor_entries(min(MOST_ENTRIES, context.scale.entries)))
            stream.seal()
        contenders = [
            Contender(_name(what, count), _turn(context, what, count, sealed))
            for what in (ONE, OWN, READ)
            for count in COUNTS
        ]
        found = {name: Figure(RATE, samples) for name, samples in take_turns(context, contenders).items()}
    for what in (ONE, OWN, READ):
        alone = _name(what, 1)
        result.rows.append(Row(alone, found[alone]))
        result.rows += [Row(_name(what, n), found[_name(what, n)], alone, found[alone]) for n in COUNTS[1:]]
        points = tuple((float(count), found[_name(what, count)].median) for count in COUNTS)
        result.series.append(Series(CHART, what, "processes", RATE, points))


def _name(what: str, count: int) -> str:
    return f"{what}, {count} {'process' if count == 1 else 'processes'}"


def _turn(context: Context, what: str, count: int, sealed: Path) -> Callable[[], float]:
    def turn() -> float:
        with context.fresh("store") as fresh:
            path = sealed if what == READ else fresh
            with diskstream.open(path, fsync="everysec"):
                pass
            streams = [f"{ours.NAME}-{number}" if what == OWN else ours.NAME for number in range(count)]
            return _together(path, streams, context.seconds * SHARE, reads=what == READ)

    return turn


def _together(path: Path, streams: list[str], seconds: float, *, reads: bool) -> float:
    """The rate of all processes, one for each name of a stream."""
    start, answers = FORKING.Barrier(len(streams) + 1), FORKING.SimpleQueue()
    wanted = {"path": str(path), "seconds": seconds, "reads": reads, "start": start, "answers": answers}
    started = [FORKING.Process(target=_work, kwargs={"name": name, **wanted}) for name in streams]
    try:
        for each in started:
            each.start()
        start.wait(PATIENCE)
        begin = time.monotonic()
        for each in started:
            each.join(PATIENCE)
        if any(each.exitcode for each in started):
            raise ChildError("a process that worked beside others failed, or did not end in time")
        found = [answers.get() for _ in started]
    finally:
        for each in started:
            each.kill()
            each.join()
    return float(sum(done for done, _ in found) / (max(end for _, end in found) - begin))


def _work(*, path: str, name: str, seconds: float, reads: bool, start: Any, answers: Any) -> None:
    """What one of the processes does until its time is over: it answers how much, and when it ended."""
    with diskstream.open(path, fsync="everysec") as store:
        stream = store.stream(name)
        len(stream)
        step = ours.add_many_step(stream, batches(ROWS, BATCH))
        if not reads:
            step()  # makes the stream
        start.wait(PATIENCE)
        deadline, done = time.monotonic() + seconds, 0
        while time.monotonic() < deadline:
            if not reads:
                done += step()
                continue
            for entry in stream.range(count=20 * BATCH):
                _id, _value = entry.id, entry["temperature"]
                done += 1
        answers.put((done, time.monotonic()))
