"""Resources: every operation in cycles, thousands of streams, full disks; and nothing that is held grows with them."""

import random
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tests.bounds.cycles import CYCLES
from tests.bounds.held import why_not
from tests.bounds.many import full_disks, many_streams
from tests.bounds.run import Job
from tests.bounds.run import run as run_job
from tests.torture.model import Budget, Report

__all__ = ["run"]

_LONG_S = 60.0  # from there on it is thousands of streams, and all cycles for as long as there is time
_MANY, _SOME = 4000, 200


def run(budget: Budget) -> Report:
    """Goes round in cycles, each kind in a process of its own, in an order by chance."""
    report = Report("resources", budget.seed)
    if why := why_not():
        report.skipped.append(f"cycles: {why}")
        return budget.finished(report)
    is_long = budget.seconds >= _LONG_S
    names = random.Random(budget.seed).sample(sorted(CYCLES), len(CYCLES))
    # Processes that are new each time: what one kind of cycle left behind must not be there in the next.
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn"), max_tasks_per_child=1) as workers:
        for turn, name in enumerate(names):
            if report.violations or not budget.goes_on(turn):
                break
            each_s = 0.7 * budget.left_s() / (len(names) - turn) if is_long else 0.0
            outcome = workers.submit(run_job, Job(name, time.monotonic() + each_s)).result()
            report.tried[f"operations of {name}"] += outcome.tried["operations"]
            report.tried["cycles"] += outcome.tried["cycles"]
            report.violations += outcome.violations
            budget.say(f"{name}, {turn + 1} of {len(names)}")
        tried, wrong = workers.submit(many_streams, _MANY if is_long else _SOME, budget.seed).result()
        report.tried += tried
        report.violations += wrong
        seed = budget.seed
        while True:
            tried, wrong, why = workers.submit(full_disks, seed).result()
            report.tried += tried
            report.violations += wrong
            if why:
                report.skipped.append(f"full disks: {why}")
            seed += 1
            if wrong or why or not is_long or budget.left_s() <= 0:
                break
    return budget.finished(report)
