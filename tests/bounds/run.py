"""Cycles until the time is up, in a process of their own: what is held after each is noted, and judged."""

import gc
import time
from array import array
from collections import Counter
from dataclasses import dataclass, field

from tests.bounds.cycles import CYCLES
from tests.bounds.held import BARS, Held, held
from tests.engine.sample import fast_directory

__all__ = ["Job", "Outcome", "Points", "run"]

# Caches, pools and free lists fill up in the first cycles; fewer than so many behind them show nothing.
WARM, LEAST = 12, 24


@dataclass(frozen=True)
class Job:
    """Some cycles.

    Attributes:
        name: which ones.
        until: when (of the monotonic clock) to end; the least number is always done.
        tries: how often it is looked at: a leak grows each time. On a busy machine something may settle in one or two
            of them, and a thread of the store's take what it keeps, once, in another.
    """

    name: str
    until: float
    tries: int = 4


@dataclass
class Outcome:
    """What came of a job."""

    name: str
    tried: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)


class Points:
    """What was held after each cycle, kept in numbers only: the points must be no leak themselves."""

    def __init__(self) -> None:
        self._numbers = array("q")

    def __len__(self) -> int:
        return len(self._numbers) // len(BARS)

    def add(self, point: Held) -> None:
        """Notes one."""
        self._numbers.extend(point[what] for what in BARS)

    def grown(self) -> list[str]:
        """What the second half has more of than the first one, for each cycle between them.

        The least of each half counts: what comes and goes within some cycles, as a file that is zero-filled ahead, is
        not a leak, and a leak is in the least too.
        """
        half = len(self) // 2
        found: list[str] = []
        for place, (what, bar) in enumerate(BARS.items()):
            each = self._numbers[place :: len(BARS)]
            first, second = min(each[:half]), min(each[half:])
            more = (second - first) / half
            if more > bar:
                found.append(f"{more:.1f} {what} a cycle (from {first:,} to {second:,}; the bar is {bar})")
        return found


def run(job: Job) -> Outcome:
    """Does a job. What is more is looked at again over more cycles: what had to settle has settled by then."""
    outcome = Outcome(job.name)
    with fast_directory() as path, CYCLES[job.name](path) as (cycle, store):
        for _ in range(WARM):
            cycle()
        held(path, store)
        gc.freeze()  # what is there now need not be gone through each time
        for number in range(job.tries):
            points = Points()
            while len(points) < LEAST << number or time.monotonic() < job.until:
                outcome.tried["operations"] += cycle()
                points.add(held(path, store))
            outcome.tried["cycles"] += len(points)
            found = points.grown()
            outcome.violations = [f"{job.name}: {each} in {len(points)} cycles" for each in found]
            if not found:
                break
    return outcome
