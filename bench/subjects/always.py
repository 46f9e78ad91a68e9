"""Durable appends, fsync always: each call returns when its entry is on the disk.

The bare loop is `pwrite` of 96 bytes and `fdatasync`, one after the other, on a file of 8 MiB whose zeros were written
and flushed before, on the same file system: what one flush at a time can reach. `Stream.add` runs in one thread, in 32
threads of one process, and in 8 processes with one store open in each, all on one stream; the last two may share
flushes, and so may `aio.Stream.add` in 32 tasks of one loop. Rates count from the common start to the last return. For
comparison: the loop with `RWF_DSYNC` in place of `fdatasync`, Redis with `appendfsync always` (redis-py on one
connection; `redis-benchmark` with 32 connections), and SQLite in WAL mode with `synchronous=FULL`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

import diskstream
from bench import ours
from bench.context import Context
from bench.entries import sensor_entries
from bench.model import Figure, Result, Row, Target
from bench.peers import bare, redis_server, sqlite
from bench.procs import child
from bench.rounds import Contender, rate, take_turns
from diskstream import aio

NAME = "always"
RATE = "entries/s"
ROWS = sensor_entries(8)
THREADS = 32
PROCESSES = 8

BARE = "bare pwrite + fdatasync"
DSYNC = "bare pwritev RWF_DSYNC"
ONE = "Stream.add, one thread"
THREADED = f"Stream.add, {THREADS} threads"
TASKED = f"aio.Stream.add, {THREADS} tasks"
SPREAD = f"Stream.add, {PROCESSES} processes"
REDIS = "redis-py xadd, one connection"
BENCHMARK = f"redis-benchmark, {THREADS} connections"
SQLITE = "SQLite WAL FULL, a transaction a row"


def run(context: Context, result: Result) -> None:
    """Measures, and puts the rows into `result`."""
    with ExitStack() as stack:
        contenders = [
            Contender(BARE, lambda: _bare(context, bare.flush_step)),
            Contender(ONE, lambda: _one(context)),
            Contender(THREADED, lambda: _threads(context)),
            Contender(TASKED, lambda: _tasks(context)),
            Contender(SPREAD, lambda: _processes(context)),
            Contender(DSYNC, lambda: _bare(context, bare.dsync_step)),
            Contender(SQLITE, lambda: _sqlite(context)),
        ]
        without = redis_server.missing()
        if without:
            result.skipped.append(without)
        else:
            server = stack.enter_context(redis_server.server(context, "always"))
            many = ("-c", str(THREADS))
            contenders.append(Contender(REDIS, lambda: _redis(context, server)))
            contenders.append(Contender(BENCHMARK, lambda: redis_server.benchmark(server, context.seconds, *many)))
        figures = {name: Figure(RATE, found) for name, found in take_turns(context, contenders).items()}
    gates = {
        ONE: Target("ratio", at_least=0.8),
        THREADED: Target("ratio", at_least=5),
        SPREAD: Target("ratio", at_least=5),
    }
    for case, target in gates.items():
        result.rows.append(Row(case, figures[case], BARE, figures[BARE], target))
    informational = (
        (TASKED, BARE),
        (ONE, DSYNC),
        (ONE, SQLITE),
        (ONE, REDIS),
        (THREADED, BENCHMARK),
        (TASKED, BENCHMARK),
    )
    for case, peer in informational:
        if peer in figures:
            result.rows.append(Row(case, figures[case], peer, figures[peer]))


def _bare(context: Context, make: Callable[[int], Callable[[], int]]) -> float:
    with context.fresh("bare") as path, bare.zero_filled(path / "zeros") as descriptor:
        return rate(make(descriptor), context.seconds)


def _one(context: Context) -> float:
    with ours.fresh_stream(context, "always") as stream:
        step = ours.add_step(stream, ROWS)
        step()
        return rate(step, context.seconds)


def add_until(stream: diskstream.Stream, deadline: float) -> int:
    """Adds entries one a call until the monotonic clock shows `deadline`; returns how many."""
    done = 0
    while time.monotonic() < deadline:
        stream.add(ROWS[done % len(ROWS)])
        done += 1
    return done


def _threads(context: Context) -> float:
    with ours.fresh_stream(context, "always") as stream:
        ours.add_step(stream, ROWS)()
        counts: list[int] = []
        begin = time.monotonic()
        deadline = begin + context.seconds
        threads = [threading.Thread(target=lambda: counts.append(add_until(stream, deadline))) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.monotonic() - begin
        if len(counts) != THREADS:
            raise RuntimeError(f"{THREADS - len(counts)} of {THREADS} threads failed")
        ours.must_hold(stream, len(ROWS) + sum(counts))
        return sum(counts) / took


def _tasks(context: Context) -> float:
    async def add(stream: aio.Stream, deadline: float) -> int:
        done = 0
        while time.monotonic() < deadline:
            await stream.add(ROWS[done % len(ROWS)])
            done += 1
        return done

    async def whole(stream: aio.Stream) -> list[int]:
        deadline = time.monotonic() + context.seconds
        return await asyncio.gather(*(add(stream, deadline) for _ in range(THREADS)))

    with ours.fresh_stream(context, "always") as stream:
        ours.add_step(stream, ROWS)()
        begin = time.monotonic()
        counts = asyncio.run(whole(aio.Stream(stream)))
        took = time.monotonic() - begin
        ours.must_hold(stream, len(ROWS) + sum(counts))
        return sum(counts) / took


def _processes(context: Context) -> float:
    with context.fresh("store") as path, ExitStack() as stack:
        with diskstream.open(path, fsync="always") as store:
            ours.add_step(store.stream(ours.NAME), ROWS)()
        started = [stack.enter_context(child("append_always", str(path), context.seconds)) for _ in range(PROCESSES)]
        for each in started:
            each.wait_ready()
        begin = time.monotonic()
        for each in started:
            each.go()
        answers = [each.result() for each in started]
        with diskstream.open(path) as store:
            ours.must_hold(store.stream(ours.NAME), len(ROWS) + sum(answer["count"] for answer in answers))
        return float(sum(answer["count"] for answer in answers) / (max(answer["end"] for answer in answers) - begin))


def _redis(context: Context, server: redis_server.Server) -> float:
    step = redis_server.xadd_step(server.client(), ROWS)
    step()
    return rate(step, context.seconds)


def _sqlite(context: Context) -> float:
    with context.fresh("sqlite") as path, sqlite.database(path, "FULL") as connection:
        step = sqlite.row_step(connection, sqlite.values(ROWS))
        step()
        return rate(step, context.seconds)
