"""From XADD to receipt over loopback: ten redis-py consumers in one group, `diskstream serve` beside redis-server.

The test of Redis's introduction to streams, against both servers as a client sees them. A producer process adds entries
by XADD at a steady rate (--per-second), each with CLOCK_MONOTONIC in it; ten processes, consumers of one group, each
block in XREADGROUP COUNT 1, take the clock when the reply is there, and acknowledge the entry by XACK. All speak TCP on
the loopback interface through redis-py with hiredis, have asked once before the producer begins, and collect no
garbage.
Both servers run at once with fsync everysec on the same file system (Redis with its append-only file, not rewritten
meanwhile), and take turns. A figure is a percentile over all entries of a turn. A producer that comes late makes up for
it without a pause. That is thirteen processes with a server and the bench itself, on as many cores as the machine has.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from bench.context import Context
from bench.model import Result, Row, Target, percentile
from bench.peers import redis_server
from bench.procs import child
from bench.rounds import Contender, take_turns
from bench.subjects.group_latency import CONSUMERS, SHARES, Delays
from bench.subjects.server import our_server

NAME = "server_latency"
OURS = "diskstream"
LIMITS_US = (1000.0, 2000.0)
# The aim for a client over loopback: this share within so many µs.
AIMED, AIM_US = "99.9 %", 2000.0


def run(context: Context, result: Result) -> None:
    """Starts both servers, takes turns, and puts the rows into `result`."""
    without = redis_server.missing()
    if without is not None:
        result.skipped.append(without)
        return
    found = {name: Delays() for name in (OURS, "Redis")}
    with ExitStack() as stack:
        ports = {
            OURS: stack.enter_context(our_server(context)),
            "Redis": stack.enter_context(redis_server.server(context, "everysec")).port,
        }
        take_turns(context, [Contender(name, _turn(context, ports[name], delays)) for name, delays in found.items()])
    for what, (share, _) in SHARES.items():
        mine, theirs = (found[name].figure(share) for name in (OURS, "Redis"))
        target = Target("figure", at_most=AIM_US) if what == AIMED else None
        result.rows.append(Row(what, mine, "Redis", theirs, target))
    result.notes += [_within(name, delays) for name, delays in found.items()]
    result.notes += [delays.note(name) for name, delays in found.items()]
    result.series += [delays.line(f"{name} over loopback") for name, delays in found.items()]


def _within(name: str, delays: Delays) -> str:
    """The share of entries that came in time: the median of all turns, and the worst of them."""
    parts = []
    for limit in LIMITS_US:
        shares = [sum(delay <= limit for delay in turn) / len(turn) for turn in delays.turns]
        parts.append(f"{statistics.median(shares):.2%} (at worst {min(shares):.2%}) within {limit / 1000:g} ms")
    return f"{name}, the median of {len(delays.turns)} turns: {', '.join(parts)}."


def _turn(context: Context, port: int, delays: Delays) -> Callable[[], float]:
    def turn() -> float:
        client = _client(port)
        client.delete(redis_server.KEY)
        client.xgroup_create(redis_server.KEY, redis_server.GROUP, id="$", mkstream=True)
        with ExitStack() as stack:
            consumers = [stack.enter_context(child("group_consumer_tcp", port, f"c-{n}")) for n in range(CONSUMERS)]
            wanted = (port, context.scale.per_second, context.seconds, CONSUMERS)
            producer = stack.enter_context(child("group_producer_tcp", *wanted))
            for each in (*consumers, producer):
                each.wait_ready()
            for each in consumers:
                each.go()
            time.sleep(0.1)  # until all of them are blocked
            producer.go()
            fed = producer.result()
            taken = [float(delay) for each in consumers for delay in each.result()]
        client.close()
        if len(taken) != fed["added"]:
            raise RuntimeError(f"{fed['added']} entries were added and {len(taken)} received")
        delays.turns.append(taken)
        delays.seconds += fed["seconds"]
        return percentile(taken, 0.999)

    return turn


def _client(port: int) -> Any:
    import redis

    return redis.Redis(host="127.0.0.1", port=port, protocol=2)
