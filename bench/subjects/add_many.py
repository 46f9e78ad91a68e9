"""Adding 500 entries a call, fsync everysec.

Each contender adds the same seeded entries by 500 for the same time, in turn, to an empty stream: `Stream.add_many`;
redis-py's pipeline of 500 `xadd` without MULTI, by Unix socket, hiredis installed; `redis-benchmark -P 128` with its
50 connections and `XADD key * sensor-id 1234 temperature 19.8`; SQLite in WAL mode with `synchronous=NORMAL` and
`executemany`, one transaction a batch. Redis runs with `appendonly yes` and `appendfsync everysec`. The first row ends
with the last call; the row *sealed as well* counts the time until everything is in sealed segments too.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from itertools import cycle

from bench import ours
from bench.context import Context
from bench.entries import batches, sensor_entries
from bench.model import Figure, Result, Row, Target
from bench.peers import redis_server, sqlite
from bench.rounds import Contender, rate, take_turns

NAME = "add_many"
RATE = "entries/s"
SIZE = 500
ROWS = sensor_entries(40 * SIZE)

OURS = "Stream.add_many by 500"
SEALED = "Stream.add_many by 500, sealed as well"
PIPELINE = "redis-py pipeline of 500"
BENCHMARK = "redis-benchmark -P 128"
SQLITE = "SQLite WAL, a transaction for 500"


def run(context: Context, result: Result) -> None:
    """Measures, and puts the rows into `result`."""
    sealed: list[float] = []
    with ExitStack() as stack:
        contenders = [Contender(OURS, lambda: _ours(context, sealed))]
        without = redis_server.missing()
        if without:
            result.skipped.append(without)
        else:
            server = stack.enter_context(redis_server.server(context, "everysec"))
            contenders.append(Contender(PIPELINE, lambda: _pipeline(context, server)))
            contenders.append(Contender(BENCHMARK, lambda: _benchmark(context, server)))
        contenders.append(Contender(SQLITE, lambda: _sqlite(context)))
        figures = take_turns(context, contenders)
    found = Figure(RATE, figures[OURS])
    targets = {PIPELINE: Target("ratio", at_least=20), BENCHMARK: Target("ratio", at_least=3)}
    for peer in (PIPELINE, BENCHMARK, SQLITE):
        if peer in figures:
            result.rows.append(Row(OURS, found, peer, Figure(RATE, figures[peer]), targets.get(peer)))
    result.rows.append(Row(SEALED, Figure(RATE, tuple(sealed))))


def _ours(context: Context, sealed: list[float]) -> float:
    with ours.fresh_stream(context, "everysec") as stream:
        step = ours.add_many_step(stream, batches(ROWS, SIZE))
        added = step()

        def counted() -> int:
            nonlocal added
            added += step()
            return SIZE

        begin = time.perf_counter()
        found = rate(counted, context.seconds)
        stream.seal()
        sealed.append((added - SIZE) / (time.perf_counter() - begin))
        ours.must_hold(stream, added)
        return found


def _pipeline(context: Context, server: redis_server.Server) -> float:
    client = server.client()
    step = redis_server.pipeline_step(client, batches(ROWS, SIZE))
    step()
    found = rate(step, context.seconds)
    client.delete(redis_server.KEY)
    client.close()
    return found


def _benchmark(context: Context, server: redis_server.Server) -> float:
    found = redis_server.benchmark(server, context.seconds, "-P", "128")
    server.client().delete(redis_server.KEY)
    return found


def _sqlite(context: Context) -> float:
    with context.fresh("sqlite") as path, sqlite.database(path, "NORMAL") as connection:
        cut = batches(ROWS, SIZE)
        parameters = [sqlite.values(next(cut)) for _ in range(len(ROWS) // SIZE)]
        step = sqlite.batch_step(connection, cycle(parameters))
        step()
        return rate(step, context.seconds)
