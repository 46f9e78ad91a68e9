"""Killed processes: a store at work is killed at system calls, and told at others that the disk is full or fails."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import count
from multiprocessing import get_context

from tests.kills.archives import program
from tests.kills.run import KINDS, Job, find_tour
from tests.kills.run import run as run_job
from tests.kills.strace import why_not
from tests.kills.workload import Script
from tests.torture.model import Budget, Report

__all__ = ["POLICIES", "run"]

POLICIES = ("always", "everysec", "interval=200", "os")
# A workload has some 300 to 3,000 calls, and a kill takes some 50 ms. A long run takes each call of a tour of all
# operations under each policy, then each of every eighth workload, and some in all others, so that it sees many too.
_SOME, _LONG_S, _WHOLE = 12, 120.0, 8
_DONE = ("kills at a system call", "errors of a system call", "kills of an archiver at a system call")


def _jobs(budget: Budget) -> Iterator[Job]:
    until = budget.began + budget.seconds
    kinds = [kind for kind in KINDS if kind != "archive" or program()]
    numbers = count()
    if budget.seconds >= _LONG_S:
        for kind in kinds:
            if kind != "error":
                yield from (Job(kind, find_tour(policy, budget.seed), None, until) for policy in POLICIES)
    for seed in count(budget.seed):
        for policy in POLICIES:
            for kind in kinds:
                whole = budget.seconds >= _LONG_S and next(numbers) % _WHOLE == 0
                some = _SOME if budget.at_most is None else 3
                yield Job(kind, Script(policy, seed), None if whole else some, until)


def run(budget: Budget) -> Report:
    """Kills and fails workloads until the time is up; counts kills and errors."""
    report = Report("kills", budget.seed)
    if why := why_not():
        report.skipped.append(f"kills at system calls: {why}")
        return budget.finished(report)
    if not program():
        report.skipped.append("kills of an archiver: needs the program redis-server, which is not installed")
    jobs, cores = _jobs(budget), os.cpu_count() or 1
    with ProcessPoolExecutor(max_workers=cores, mp_context=get_context("spawn")) as workers:
        done = 0
        while budget.goes_on(done) and not report.violations:
            for outcome in workers.map(run_job, [next(jobs) for _ in range(4 * cores)]):
                report.tried += outcome.tried
                report.outcomes += outcome.outcomes
                report.violations += outcome.violations
            done = sum(report.tried[what] for what in _DONE)
            budget.say(f"{done:,} kills and errors, {time.monotonic() - budget.began:.0f} s")
    return budget.finished(report)
