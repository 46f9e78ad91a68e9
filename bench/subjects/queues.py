"""A queue in one process: put one, take one, acknowledge it.

Each contender puts some entries, one a call, and then takes each and acknowledges it at once, one after the other,
until the time of the turn is over; the two rates are taken apart. diskstream: `Stream.add`, then `Consumer.read` with
count 1 and `Group.ack`, fsync everysec. SQLite: a table in WAL mode with `synchronous=NORMAL`, a transaction for each
step. LMDB alone: a transaction for each step, without any flush. persist-queue: `SQLiteAckQueue` with its defaults.
Only diskstream keeps what was acknowledged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import diskstream
from bench import ours
from bench.context import Context
from bench.entries import Fields, sensor_entries
from bench.model import Figure, Result, Row
from bench.peers.queues import Queue, lmdb_queue, persist_queue, persist_queue_missing, sqlite_queue
from bench.rounds import Contender, take_turns

NAME = "queues"
RATE = "entries/s"
FIELD = "temperature"
ROWS = sensor_entries(200)
OURS = "diskstream"

Opened = Callable[[Path, str], AbstractContextManager[Queue]]


def run(context: Context, result: Result) -> None:
    """Measures, and puts the rows into `result`."""
    queues: dict[str, Opened] = {
        OURS: _ours,
        "SQLite, a table": sqlite_queue,
        "LMDB alone, no flush": lmdb_queue,
        "persist-queue": persist_queue,
    }
    without = persist_queue_missing()
    if without:
        result.skipped.append(without)
        del queues["persist-queue"]
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in queues}
    take_turns(context, [Contender(name, _turn(context, opened, found[name])) for name, opened in queues.items()])
    for place, case in enumerate(("put one", "take one and acknowledge it")):
        figures = {name: Figure(RATE, tuple(pair[place] for pair in pairs)) for name, pairs in found.items()}
        for name, figure in figures.items():
            if name != OURS:
                result.rows.append(Row(case, figures[OURS], name, figure))


@contextmanager
def _ours(path: Path, field: str) -> Iterator[Queue]:
    with diskstream.open(path, fsync="everysec") as store:
        stream = store.stream(ours.NAME)
        group = stream.group("workers", start="0")
        consumer = group.consumer("one")

        def take() -> str:
            (entry,) = consumer.read(count=1)
            value = entry[field]
            group.ack(entry.id)
            return str(value)

        yield Queue(stream.add, take)


def _turn(context: Context, opened: Opened, found: list[tuple[float, float]]) -> Callable[[], float]:
    def turn() -> float:
        with context.fresh("queue") as path, opened(path, FIELD) as queue:
            _cycle(queue, ROWS[:20])
            putting = taking = done = 0
            while putting + taking < context.seconds * 1e9:
                put, took = _cycle(queue, ROWS)
                putting, taking, done = putting + put, taking + took, done + len(ROWS)
        found.append((done / putting * 1e9, done / taking * 1e9))
        return done / (putting + taking) * 1e9

    return turn


def _cycle(queue: Queue, rows: list[Fields]) -> tuple[int, int]:
    """Puts all and takes all; the ns of both."""
    begin = time.perf_counter_ns()
    for row in rows:
        queue.put(row)
    between = time.perf_counter_ns()
    for _ in rows:
        queue.take()
    return between - begin, time.perf_counter_ns() - between
