"""Throughput by the number of entries a call, at each fsync policy.

`Stream.add_many` of 1, 10, 100 and 1000 entries a call, to an empty stream, one thread, for a share of a turn each, in
turn. At `always` each call returns when its entries are on the disk.
"""

from __future__ import annotations

from collections.abc import Callable

from bench import ours
from bench.context import Context
from bench.entries import batches, sensor_entries
from bench.model import Figure, Result, Row, Series
from bench.rounds import Contender, rate, take_turns

NAME = "batches"
RATE = "entries/s"
CHART = "throughput"
POLICIES = ("os", "everysec", "interval=100", "always")
BATCHES = (1, 10, 100, 1000)
ROWS = sensor_entries(10 * BATCHES[-1])
# Of the length of a turn: there are many of them.
SHARE = 0.2


def run(context: Context, result: Result) -> None:
    """Measures, and puts the rows into `result`."""
    cases = [(policy, size) for policy in POLICIES for size in BATCHES]
    contenders = [Contender(_name(policy, size), _turn(context, policy, size)) for policy, size in cases]
    found = {name: Figure(RATE, samples) for name, samples in take_turns(context, contenders).items()}
    result.rows += [Row(name, figure) for name, figure in found.items()]
    for policy in POLICIES:
        points = tuple((float(size), found[_name(policy, size)].median) for size in BATCHES)
        result.series.append(Series(CHART, f"fsync {policy}", "entries a call", RATE, points))


def _name(policy: str, size: int) -> str:
    return f"add_many by {size:,}, {policy}"


def _turn(context: Context, policy: str, size: int) -> Callable[[], float]:
    def turn() -> float:
        with ours.fresh_stream(context, policy) as stream:
            step = ours.add_many_step(stream, batches(ROWS, size))
            step()
            return rate(step, context.seconds * SHARE)

    return turn
