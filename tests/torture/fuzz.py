"""Made-up bytes: every parser of the native core under libFuzzer with the address sanitizer, and every Python edge."""

import os
import random
import tempfile
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.fuzz import libfuzzer
from tests.fuzz.all_edges import EDGES
from tests.fuzz.edges import Edge, tried
from tests.fuzz.mutations import mutated
from tests.torture.model import Budget, Report

__all__ = ["run"]

_AT_ONCE = 20  # inputs of an edge, before the next one has its turn
_LEAST_S = 3.0
_PLANTED_S = 4.0


def _edges(report: Report, budget: Budget, until_left_s: float, edges: Sequence[Edge] = EDGES) -> None:
    """Gives changed bytes to one edge after another, until so much of the time is left."""
    chance = random.Random(budget.seed)
    with tempfile.TemporaryDirectory(prefix="diskstream-fuzz-") as place, warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of `re`, about patterns that it reads otherwise one day
        folder = Path(place)
        seeds = {edge.name: edge.seeds(folder) for edge in edges}
        made = 0
        while budget.left_s() > until_left_s or made == 0:
            for edge in edges:
                for _ in range(_AT_ONCE if budget.at_most is None else 1):
                    made += 1
                    try:
                        report.outcomes[tried(edge, mutated(seeds[edge.name], chance), folder)] += 1
                    except AssertionError as error:
                        report.violations.append(str(error))
                        return
            budget.say(f"{made:,} inputs of Python edges")
            if budget.at_most is not None and made >= budget.at_most:
                break
    report.tried["inputs of Python edges"] += made
    report.tried["Python edges"] += len(edges)


def _planted(report: Report, program: Path, seed: int) -> None:
    """What the program must see, or its silence says nothing."""
    for name in libfuzzer.PLANTED:
        if libfuzzer.fuzz(program, name, _PLANTED_S, seed).fault:
            report.outcomes["a planted mistake, seen"] += 1
        else:
            report.violations.append(f"{name}: the fuzzer did not see it")


def _targets(report: Report, budget: Budget, program: Path) -> None:
    names = libfuzzer.targets()
    workers = os.cpu_count() or 1
    each = max(_LEAST_S, 0.9 * budget.left_s() * workers / len(names))  # starting it takes time, too
    report.tried["targets of the core"] = len(names)

    def one(number_and_name: tuple[int, str]) -> libfuzzer.Outcome | None:
        number, name = number_and_name
        # A target that has its whole time, or none: the rest is said to be left out.
        if budget.left_s() <= 0:
            return None
        return libfuzzer.fuzz(program, name, min(each, max(_LEAST_S, budget.left_s())), budget.seed + number)

    with ThreadPoolExecutor(workers) as pool:
        for name, outcome in zip(names, pool.map(one, enumerate(names)), strict=True):
            if outcome is None:
                report.skipped.append(f"{name}: there was no time left")
                continue
            report.tried[f"inputs of {name}"] = outcome.executed
            report.tried["inputs of the core"] += outcome.executed
            budget.say(f"{report.tried['inputs of the core']:,} inputs of the core")
            if outcome.fault:
                report.violations.append(outcome.fault)


def run(budget: Budget) -> Report:
    """A fifth of the time is for Python's edges, the rest for the core's targets. The short form has the edges only."""
    report = Report("fuzz", budget.seed)
    if budget.at_most is not None:
        report.skipped.append("the targets of the core: cargo test runs their corpus, and the long form fuzzes them")
        _edges(report, budget, 0.0)
        return budget.finished(report)
    try:
        program = libfuzzer.build()
    except libfuzzer.NotBuiltError as error:
        report.skipped.append(f"the targets of the core: {error}")
        _edges(report, budget, 0.0)
        return budget.finished(report)
    budget = Budget(budget.seed, budget.seconds, say=budget.say)  # what was built once is not the fuzzer's time
    _edges(report, budget, budget.seconds * 4 / 5)
    _planted(report, program, budget.seed)
    _targets(report, budget, program)
    return budget.finished(report)
