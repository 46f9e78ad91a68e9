"""Reading as a consumer of a group and acknowledging, one process.

Entries are added beforehand, 500 a call and some thousands at a time (not counted); then one consumer reads them,
`count` a call, touches the ID and one field of each, and acknowledges what it was given in one call, until all are
done, and so on for the time of a turn, each contender in turn, on a new stream: `Consumer.read(count=...)` and
`Group.ack`, and redis-py's `xreadgroup` and `xack` with hiredis against a Redis server by its Unix socket, at the
same fsync policy. Nothing is pending but what was just read. The gate is the rate of both calls together; the rates
of each alone come from the same turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from bench import ours
from bench.context import Context
from bench.entries import batches, sensor_entries
from bench.model import Figure, Result, Row, Target
from bench.peers import redis_server
from bench.rounds import Contender, take_turns

NAME = "groups"
RATE = "entries/s"
POLICIES = ("everysec", "always")
# How many are read a call, how many of them are added at a time, and how many times Redis is aimed at.
CASES = {100: (5000, 10.0), 1: (500, 5.0)}
BATCH = 500
ROWS = sensor_entries(5000)
REDIS = "redis-py xreadgroup and xack"

GROUP, CONSUMER, FIELD = "workers", "one", "temperature"
PARTS = ("read(count={}) and ack, {}", "read(count={}) alone, {}", "ack of {} alone, {}")


@dataclass
class Pair:
    """How a contender reads and acknowledges: `read` gives the IDs, `ack` says how many it acknowledged."""

    read: Callable[[], list[Any]]
    ack: Callable[[list[Any]], int]
    add: Callable[[], int]


@dataclass
class Rates:
    """What a contender found, one figure a round: for both calls, for reading, for acknowledging."""

    parts: tuple[list[float], ...] = field(default_factory=lambda: ([], [], []))

    def figures(self) -> list[Figure]:
        return [Figure(RATE, tuple(samples)) for samples in self.parts]


def run(context: Context, result: Result) -> None:
    """Measures, and puts the rows into `result`."""
    without = redis_server.missing()
    if without:
        result.skipped.append(without)
    found: dict[tuple[str, int, bool], Rates] = {}
    with ExitStack() as stack:
        contenders = []
        for policy in POLICIES:
            server = None if without else stack.enter_context(redis_server.server(context, policy))
            for count in CASES:
                mine = found[policy, count, True] = Rates()
                contenders.append(Contender(_name(policy, count), _ours(context, policy, count, mine)))
                if server is not None:
                    theirs = found[policy, count, False] = Rates()
                    name = f"{REDIS}, {count}, {policy}"
                    contenders.append(Contender(name, _redis(context, server, count, theirs)))
        take_turns(context, contenders)
    for policy in POLICIES:
        for count in CASES:
            _rows(result, policy, count, found)


def _name(policy: str, count: int) -> str:
    return PARTS[0].format(count, policy)


def _rows(result: Result, policy: str, count: int, found: dict[tuple[str, int, bool], Rates]) -> None:
    mine = found[policy, count, True].figures()
    theirs = found[policy, count, False].figures() if (policy, count, False) in found else None
    for part, figure in enumerate(mine):
        case = PARTS[part].format(count, policy)
        if theirs is None:
            result.rows.append(Row(case, figure))
            continue
        target = Target("ratio", at_least=CASES[count][1]) if part == 0 else None
        peer = (REDIS, "redis-py xreadgroup", "redis-py xack")[part]
        result.rows.append(Row(case, figure, peer, theirs[part], target))


def _turn(context: Context, count: int, pair: Pair, rates: Rates) -> float:
    """Reads and acknowledges for its share of a turn: the counts part it. What is added in between is not counted."""
    clock = time.perf_counter_ns
    reading = acknowledging = done = 0
    enough = context.seconds * 1e9 / len(CASES)
    while reading + acknowledging < enough:
        for _ in range(pair.add() // count):
            begin = clock()
            ids = pair.read()
            between = clock()
            acknowledged = pair.ack(ids)
            end = clock()
            reading += between - begin
            acknowledging += end - between
            if not len(ids) == acknowledged == count:
                raise RuntimeError(f"{len(ids)} were read and {acknowledged} acknowledged where {count} were asked for")
            done += count
            if reading + acknowledging >= enough:
                break
    for samples, took in zip(rates.parts, (reading + acknowledging, reading, acknowledging), strict=True):
        samples.append(done / took * 1e9)
    return rates.parts[0][-1]


def _ours(context: Context, policy: str, count: int, rates: Rates) -> Callable[[], float]:
    def turn() -> float:
        with ours.fresh_stream(context, policy) as stream:
            group = stream.group(GROUP)
            consumer = group.consumer(CONSUMER)

            def read() -> list[Any]:
                ids = []
                for entry in consumer.read(count=count):
                    _value = entry[FIELD]
                    ids.append(entry.id)
                return ids

            step = ours.add_many_step(stream, batches(ROWS, BATCH))
            pair = Pair(read, lambda ids: group.ack(*ids), _add(step, count))
            _warm(pair, count)
            found = _turn(context, count, pair, rates)
            left = group.pending().total
            if left:
                raise RuntimeError(f"{left} entries are pending and all were acknowledged")
            return found

    return turn


def _redis(context: Context, server: redis_server.Server, count: int, rates: Rates) -> Callable[[], float]:
    def turn() -> float:
        client = redis_server.group_client(server)
        new = {redis_server.KEY: ">"}
        name = FIELD.encode()

        def read() -> list[Any]:
            ids = []
            for entry_id, fields in client.xreadgroup(redis_server.GROUP, CONSUMER, new, count=count)[0][1]:
                _value = fields[name]
                ids.append(entry_id)
            return ids

        def ack(ids: list[Any]) -> int:
            return int(client.xack(redis_server.KEY, redis_server.GROUP, *ids))

        step = redis_server.pipeline_step(client, batches(ROWS, BATCH))
        pair = Pair(read, ack, _add(step, count))
        _warm(pair, count)
        found = _turn(context, count, pair, rates)
        client.delete(redis_server.KEY)
        client.close()
        return found

    return turn


def _add(step: Callable[[], int], count: int) -> Callable[[], int]:
    return lambda: sum(step() for _ in range(CASES[count][0] // BATCH))


def _warm(pair: Pair, count: int) -> None:
    for _ in range(min(pair.add() // count, 20)):
        pair.ack(pair.read())
