"""Power cuts: a recorded workload is cut at many moments, and each state that a disk may be left in is opened."""

import os
from concurrent.futures import ProcessPoolExecutor
from itertools import count
from multiprocessing import get_context

from tests.crash.run import Job
from tests.crash.run import run as run_job
from tests.torture.model import Budget, Report

__all__ = ["POLICIES", "run"]

POLICIES = ("always", "everysec", "interval=200", "os")
_CUTS, _FEW_CUTS = 100, 20  # of each trace; making one costs as much as some twenty cuts


def run(budget: Budget) -> Report:
    """Makes and cuts traces until the time is up; counts states."""
    report = Report("power", budget.seed)
    seeds = count(budget.seed)
    cuts = _CUTS if budget.seconds >= 120 else _FEW_CUTS
    with ProcessPoolExecutor(max_workers=os.cpu_count(), mp_context=get_context("spawn")) as workers:
        while budget.goes_on(report.tried["states"]) and not report.violations:
            jobs = [Job(policy, seed, cuts) for seed in (next(seeds), next(seeds)) for policy in POLICIES]
            for outcome in workers.map(run_job, jobs):
                report.tried["states"] += outcome.states
                report.tried["states of a recovery that was cut itself"] += outcome.nested
                report.tried["traces"] += 1
                report.tried += outcome.counts
                report.violations += outcome.violations
            budget.say(f"{report.tried['states']:,} states")
    return budget.finished(report)
