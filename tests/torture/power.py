"""Power cuts: a recorded workload is cut at many moments, and each state that a disk may be left in is opened."""

import os
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import count
from multiprocessing import get_context

from tests.crash.run import Job, Outcome
from tests.crash.run import run as run_job
from tests.torture.model import Budget, Report

__all__ = ["POLICIES", "run"]

POLICIES = ("always", "everysec", "interval=200", "os")
_CUTS, _FEW_CUTS = 100, 20  # of each trace; making one costs as much as some twenty cuts
_LONG_S = 120.0


def _jobs(budget: Budget) -> Iterator[Job]:
    cuts = _CUTS if budget.seconds >= _LONG_S else _FEW_CUTS
    for seed in count(budget.seed):
        for policy in POLICIES:
            yield Job(policy, seed, cuts)


def run(budget: Budget) -> Report:
    """Makes and cuts traces until the time is up; counts states."""
    report = Report("power", budget.seed)
    jobs, cores = _jobs(budget), os.cpu_count() or 1
    with ProcessPoolExecutor(max_workers=cores, mp_context=get_context("spawn")) as workers:
        under_way: set[Future[Outcome]] = set()
        while True:
            # As many wait as there are cores: a long one keeps no core from the next.
            while len(under_way) < 2 * cores and budget.goes_on(report.tried["states"]) and not report.violations:
                under_way.add(workers.submit(run_job, next(jobs)))
            if not under_way:
                return budget.finished(report)
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            for each in done:
                _add(report, each.result())
            budget.say(f"{report.tried['states']:,} states")


def _add(report: Report, outcome: Outcome) -> None:
    report.tried["states"] += outcome.states
    report.tried["states of a recovery that was cut itself"] += outcome.nested
    report.tried["traces"] += 1
    report.tried += outcome.counts
    report.violations += outcome.violations
