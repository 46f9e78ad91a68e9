"""From adding to receipt: ten consumer processes in one group, 10,000 entries a second.

The test of Redis's introduction to streams, with processes. A producer process adds an entry every 100 µs, each with
CLOCK_MONOTONIC in it; ten processes, consumers of one group, each block in `Consumer.read(count=1, block=...)`, take
the clock when the call has returned, and acknowledge the entry. All have opened the store, and read once, before the
producer begins, and none collects garbage; fsync is everysec. Once nothing is pending in the group, once very much is,
of another consumer. A figure is a percentile over all entries of a turn. The same with redis-py, by Unix socket, with
nothing pending. A producer that comes late makes up for it without a pause: how many entries a second were added and
consumed stands below. That is twelve processes with the bench itself, on as many cores as the machine has.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bench.context import Context
from bench.model import Figure, Result, Row, Series, Target, percentile
from bench.peers import redis_server
from bench.procs import ask, child
from bench.rounds import Contender, take_turns
from bench.subjects.pending_store import IN_FRAMES

NAME = "group_latency"
CONSUMERS = 10
PER_SECOND = 10_000
REDIS = "redis-py xreadgroup block"

# What is shown of the delays, and within how many µs it is to lie.
SHARES: dict[str, tuple[float, float | None]] = {
    "50 %": (0.5, None),
    "90 %": (0.9, None),
    "99 %": (0.99, 1000.0),
    "99.9 %": (0.999, 2000.0),
    "the longest": (1.0, None),
}


@dataclass
class Delays:
    """The delays of each turn in µs, and how fast entries were added."""

    turns: list[list[float]] = field(default_factory=list)
    seconds: float = 0.0

    def figure(self, share: float) -> Figure:
        return Figure("µs", tuple(percentile(turn, share) for turn in self.turns))

    def line(self, name: str) -> Series:
        """What is drawn: the median of the turns at each share, by how many entries one of that delay stands for."""
        shares = [share for share, _ in SHARES.values() if share < 1]
        points = tuple((round(1 / (1 - share), 3), self.figure(share).median) for share in shares)
        return Series("latency", name, "share of the entries", "µs", points)

    def note(self, name: str) -> str:
        every = sorted(delay for turn in self.turns for delay in turn)
        shown = ", ".join(f"{what} {percentile(every, share):,.0f} µs" for what, (share, _) in SHARES.items())
        within = ", ".join(
            f"{sum(delay <= limit for delay in every) / len(every):.2%} within {limit / 1000:g} ms"
            for limit in (1000, 2000)
        )
        return f"{name}, all {len(every):,} delays: {shown}; {within}. {len(every) / self.seconds:,.0f} a second added."


def run(context: Context, result: Result) -> None:
    """Measures, and puts the rows into `result`."""
    found: dict[str, Delays] = {}
    pending = f"{context.scale.pending:,} pending"
    with ExitStack() as stack:
        contenders = []
        for name, size in (("nothing pending", 0), (pending, context.scale.pending)):
            context.say(f"building a store with {size:,} pending")
            path = stack.enter_context(context.fresh("store"))
            ask("pending_build", str(path), size, size, IN_FRAMES)
            found[name] = Delays()
            contenders.append(Contender(name, _ours(context, path, found[name])))
        without = redis_server.missing()
        if without:
            result.skipped.append(without)
        else:
            server = stack.enter_context(redis_server.server(context, "everysec"))
            found[REDIS] = Delays()
            contenders.append(Contender(REDIS, _redis(context, server, found[REDIS])))
        take_turns(context, contenders)
    for name in ("nothing pending", pending):
        for what, (share, limit) in SHARES.items():
            target = None if limit is None else Target("figure", at_most=limit)
            result.rows.append(Row(f"{what}, {name}", found[name].figure(share), target=target))
    if REDIS in found:
        for what, (share, _) in SHARES.items():
            mine, theirs = (found[name].figure(share) for name in ("nothing pending", REDIS))
            result.rows.append(Row(f"{what}, nothing pending", mine, REDIS, theirs))
    result.notes += [delays.note(name[0].upper() + name[1:]) for name, delays in found.items()]
    result.series += [delays.line(name) for name, delays in found.items()]


def _measure(context: Context, delays: Delays, consumer: str, producer: str, path: Path) -> float:
    """One turn: the 99th percentile of its delays."""
    with ExitStack() as stack:
        started = [stack.enter_context(child(consumer, str(path), f"consumer-{n}")) for n in range(CONSUMERS)]
        feeding = stack.enter_context(child(producer, str(path), PER_SECOND, context.seconds, CONSUMERS))
        for each in (*started, feeding):
            each.wait_ready()
        for each in started:
            each.go()
        time.sleep(0.1)  # until all of them are blocked
        feeding.go()
        fed = feeding.result()
        turn = [float(delay) for each in started for delay in each.result()]
    if len(turn) != fed["added"]:
        raise RuntimeError(f"{fed['added']} entries were added and {len(turn)} received")
    delays.turns.append(turn)
    delays.seconds += fed["seconds"]
    return percentile(turn, 0.99)


def _ours(context: Context, path: Path, delays: Delays) -> Callable[[], float]:
    return lambda: _measure(context, delays, "group_consumer", "group_producer", path)


def _redis(context: Context, server: redis_server.Server, delays: Delays) -> Callable[[], float]:
    def turn() -> float:
        client = redis_server.group_client(server)
        found = _measure(context, delays, "group_consumer_redis", "group_producer_redis", server.socket_path)
        client.delete(redis_server.KEY)
        client.close()
        return found

    return turn
