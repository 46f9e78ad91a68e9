"""Adding one entry a call, fsync everysec.

Each contender adds the same seeded entries one call after the other for the same time, in turn, to an empty stream:
`Stream.add`, and redis-py's `xadd` with hiredis against a Redis server with `appendonly yes` and `appendfsync
everysec`, by its Unix socket (the gate) and by TCP on the loopback interface. SQLite is in WAL mode with
`synchronous=NORMAL`, one transaction a row. Start, stop, and what a background thread does after the last call are
left out.
"""

from __future__ import annotations

from contextlib import ExitStack

from bench import ours
from bench.context import Context
from bench.entries import sensor_entries
from bench.model import Figure, Result, Row, Target
from bench.peers import redis_server, sqlite
from bench.rounds import Contender, rate, take_turns

NAME = "add"
RATE = "entries/s"
ROWS = sensor_entries(200)

OURS = "Stream.add"
BY_SOCKET = "redis-py xadd, Unix socket"
BY_TCP = "redis-py xadd, TCP"
SQLITE = "SQLite WAL, a transaction a row"


def run(context: Context, result: Result) -> None:
    """Measures, and puts the rows into `result`."""
    with ExitStack() as stack:
        contenders = [Contender(OURS, lambda: _ours(context))]
        without = redis_server.missing()
        if without:
            result.skipped.append(without)
        else:
            server = stack.enter_context(redis_server.server(context, "everysec"))
            contenders.append(Contender(BY_SOCKET, lambda: _redis(context, server, tcp=False)))
            contenders.append(Contender(BY_TCP, lambda: _redis(context, server, tcp=True)))
        contenders.append(Contender(SQLITE, lambda: _sqlite(context)))
        figures = take_turns(context, contenders)
    found = Figure(RATE, figures[OURS])
    for peer, target in ((BY_SOCKET, Target("ratio", at_least=20)), (BY_TCP, None), (SQLITE, None)):
        if peer in figures:
            result.rows.append(Row(OURS, found, peer, Figure(RATE, figures[peer]), target))


def _ours(context: Context) -> float:
    with ours.fresh_stream(context, "everysec") as stream:
        step = ours.add_step(stream, ROWS)
        warm = step()
        added = 0

        def counted() -> int:
            nonlocal added
            added += step()
            return len(ROWS)

        found = rate(counted, context.seconds)
        ours.must_hold(stream, warm + added)
        return found


def _redis(context: Context, server: redis_server.Server, *, tcp: bool) -> float:
    client = server.client(tcp=tcp)
    step = redis_server.xadd_step(client, ROWS)
    step()
    found = rate(step, context.seconds)
    client.delete(redis_server.KEY)
    client.close()
    return found


def _sqlite(context: Context) -> float:
    with context.fresh("sqlite") as path, sqlite.database(path, "NORMAL") as connection:
        step = sqlite.row_step(connection, sqlite.values(ROWS))
        step()
        return rate(step, context.seconds)
