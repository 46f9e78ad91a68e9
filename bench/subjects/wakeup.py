"""Waking a blocked reader in another process.

A reader process blocks in `Stream.read(block=5.0)`; the producer, in this process, sleeps some 3 ms, so that the
reader is asleep, puts CLOCK_MONOTONIC into an entry and adds it; the reader takes the clock again when the call has
returned and it has the field in hand. A figure is the median over the entries of a turn. The same with redis-py:
`xread` with `block` and `xadd` against a Redis server, by Unix socket; the turns alternate.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack

import diskstream
from bench import ours
from bench.context import Context
from bench.model import Figure, Result, Row, Target, percentile
from bench.peers import redis_server
from bench.procs import child
from bench.rounds import Contender, take_turns

NAME = "wakeup"
PAUSE = 0.003
LIMIT_US = 150.0

OURS = "Stream.read(block=...), other process"
REDIS = "redis-py xread block, other process"


def run(context: Context, result: Result) -> None:
    """Measures, and puts the rows into `result`."""
    all_ours: list[float] = []
    with ExitStack() as stack:
        contenders = [Contender(OURS, lambda: _ours(context, all_ours))]
        without = redis_server.missing()
        if without:
            result.skipped.append(without)
        else:
            server = stack.enter_context(redis_server.server(context, "everysec"))
            contenders.append(Contender(REDIS, lambda: _redis(context, server)))
        figures = {name: Figure("µs", found) for name, found in take_turns(context, contenders).items()}
    result.rows.append(Row(OURS, figures[OURS], target=Target("figure", at_most=LIMIT_US)))
    if REDIS in figures:
        result.rows.append(Row(OURS, figures[OURS], REDIS, figures[REDIS]))
    shares = ", ".join(f"{share:.0%} within {percentile(all_ours, share):.0f} µs" for share in (0.1, 0.5, 0.9, 0.99))
    result.notes.append(f"Of all {len(all_ours):,} waits: {shares}.")


def _produce(add: Callable[[dict[str, str]], object], wakes: int) -> None:
    for _ in range(wakes):
        time.sleep(PAUSE)
        add({"t": str(time.monotonic_ns())})


def _ours(context: Context, waits: list[float]) -> float:
    wakes = context.scale.wakes
    with context.fresh("store") as path, diskstream.open(path, fsync="everysec") as store:
        stream = store.stream(ours.NAME)
        first = stream.add({"t": "0"})
        with child("wake_reader", str(path), str(first), wakes) as reader:
            reader.wait_ready()
            reader.go()
            time.sleep(0.05)
            _produce(stream.add, wakes)
            found = [float(wait) for wait in reader.result()]
    waits.extend(found)
    return statistics.median(found)


def _redis(context: Context, server: redis_server.Server) -> float:
    wakes = context.scale.wakes
    client = server.client()
    first = client.xadd(redis_server.KEY, {"t": "0"})
    with child("wake_reader_redis", str(server.socket_path), first.decode(), wakes) as reader:
        reader.wait_ready()
        reader.go()
        time.sleep(0.05)
        _produce(lambda fields: client.xadd(redis_server.KEY, fields), wakes)
        found = [float(wait) for wait in reader.result()]
    client.delete(redis_server.KEY)
    return statistics.median(found)
