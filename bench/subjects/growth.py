"""How costs grow.

Each cost is taken at five sizes that span two decades, several rounds, and a power law is fitted to each round by least
squares on the logarithms. The figure is what the fit gives for ten times the size: 1 is a cost that does not grow, 10
one that grows in proportion. Gates are 10 to the power of 0.1 where the cost must not grow (a seek may grow by the
logarithm, which is less), and of 1.1 where it may grow in proportion. A cost is the processor time of the calling
thread (for trims of all threads, until the files are gone), without the wait for flushes, and the least of some
repetitions; memory is the high-water mark of a new process that reads 200 points and ranges over everything. Stores are
in the page cache. For recovery a process that wrote is killed and the next open is measured. Segments are of the usual
size but where they are counted.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.context import Context
from bench.model import Figure, Result, Row, Series, Target
from bench.subjects import growth_costs as costs
from bench.table import number

NAME = "growth"
SIZES = 5
DECADES = 2
MOST_ROUNDS = 3
CHART, MEMORY = "growth", "memory"
# What the pictures show along: only costs by this have one axis in common.
STORED = "entries in the store"
UNIT = "×"
FLAT, LINEAR = Target("figure", at_most=round(10**0.1, 2)), Target("figure", at_most=round(10**1.1, 1))
MOST_SEGMENTS = 200
MOST_LISTED = 600
MOST_TOUCHED = 1000
MOST_ACTIVE = 200_000

# Measures one cost at every size, once a round.
Measure = Callable[[costs.Stores, list[int]], list[float]]


@dataclass(frozen=True)
class Law:
    """One cost, what it depends on, and how it may grow."""

    case: str
    along: str
    largest: int
    measure: Measure
    target: Target
    unit: str = "µs"


def laws(context: Context) -> list[Law]:
    """All of them, at the scale of the run."""
    entries, pending = context.scale.entries, min(context.scale.pending, context.scale.entries)
    active, segments = min(MOST_ACTIVE, entries), min(MOST_SEGMENTS, entries // 10)
    listed = min(MOST_LISTED, entries // 10)
    return [
        Law("add", STORED, entries, costs.add, FLAT),
        Law("seek, node not decoded", STORED, entries, costs.seek, FLAT),
        Law("open", STORED, entries, costs.open_store, FLAT),
        Law("recovery, active segment of 2,000", STORED, entries, costs.recovery, FLAT),
        Law("recovery", "entries in the active segment", active, costs.recovery_of_active, LINEAR),
        Law("open", "segments in the stream", listed, costs.open_segments, LINEAR),
        Law("len and get, read-only", "segments in the stream", listed, costs.look_among_segments, FLAT),
        Law("trim of one segment", "entries in the segment", active, costs.trim_of_one, FLAT),
        Law("trim of all segments", "segments", segments, costs.trim_of_many, LINEAR),
        Law("read and ack", "entries touched", min(MOST_TOUCHED, entries), costs.touch, LINEAR),
        Law("read and ack of 10", "entries pending beside them", pending // 10, costs.touch_beside_pending, FLAT),
        Law("add, maxlen and ACKED", "entries pending beside it", pending // 2, costs.trim_beside_pending, FLAT),
        Law("read of the first entry", "entries deleted before it", active, costs.read_behind_deleted, FLAT),
        Law("memory after a whole range", STORED, entries, costs.memory, FLAT, "MiB"),
    ]


def run(context: Context, result: Result) -> None:
    """Measures, and puts the rows into `result`."""
    with costs.stores(context) as stores:
        for law in laws(context):
            sizes = five_sizes(law.largest)
            rounds = []
            for turn in range(min(context.rounds, MOST_ROUNDS)):
                context.say(f"round {turn + 1}: {law.case}, {law.along} to {law.largest:,}")
                rounds.append(law.measure(stores, sizes))
            _report(result, law, sizes, rounds)


def five_sizes(largest: int) -> list[int]:
    """Five sizes, evenly spread by their logarithms over two decades."""
    return [max(1, round(largest / 10 ** (DECADES * (1 - step / (SIZES - 1))))) for step in range(SIZES)]


def exponent(sizes: Sequence[float], found: Sequence[float]) -> float:
    """The power of the size by which a cost grows: the slope of a line through the logarithms of both."""
    return slope([math.log(size) for size in sizes], [math.log(cost) for cost in found])


def slope(across: Sequence[float], up: Sequence[float]) -> float:
    """Of the line with the least squares."""
    middle, height = statistics.fmean(across), statistics.fmean(up)
    over = sum((x - middle) ** 2 for x in across)
    return sum((x - middle) * (y - height) for x, y in zip(across, up, strict=True)) / over


def _report(result: Result, law: Law, sizes: list[int], rounds: list[list[float]]) -> None:
    powers = [exponent(sizes, found) for found in rounds]
    case = f"{law.case}: {sizes[0]:,} to {sizes[-1]:,} {law.along}"
    result.rows.append(Row(case, Figure(UNIT, tuple(10**power for power in powers)), target=law.target))
    medians = [statistics.median(found) for found in zip(*rounds, strict=True)]
    points = tuple(zip(map(float, sizes), medians, strict=True))
    if law.along == STORED:
        chart = CHART if law.unit == "µs" else MEMORY
        result.series.append(Series(chart, law.case, law.along, law.unit, points))
    at = ", ".join(f"{number(cost)} at {size:,}" for size, cost in zip(sizes, medians, strict=True))
    doubling = slope([math.log2(size) for size in sizes], medians)
    more = f"; {number(doubling)} {law.unit} a doubling" if law.target is FLAT else ""
    # Where a constant hides the growth at first, the last step shows it.
    last = exponent(sizes[-2:], medians[-2:])
    powers_found = f"Exponent {statistics.median(powers):.3f}, of the last step {last:.2f}{more}."
    result.notes.append(f"{law.case}, {law.unit}: {at}. {powers_found}")
