"""Many processes on one store, killed, stopped and interrupted at random: what each saw and what is left is checked."""

import shutil
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import count
from multiprocessing import get_context
from pathlib import Path

from tests.crowd.checker import Verdict, check
from tests.crowd.journal import read_journals
from tests.crowd.part import JOURNALS, SOCKETS
from tests.crowd.play import played
from tests.crowd.scene import POLICIES, Scene, draw
from tests.torture.model import Budget, Report

__all__ = ["LARGE_S", "run"]

_WAIT = "the longest wait for an entry that was there, in ms"
# Sixteen of each take seconds to start: with less time than this a few do, one policy after the other.
LARGE_S = 240.0
_SMALL_ROUND_S = 3.0
_LONGEST_ROUND_S = 3600.0
# The rest of a round is for the survey and the check.
_PART_PLAYED = 0.75


def run(budget: Budget) -> Report:
    """Plays rounds, each with a store of its own; a long run plays all policies side by side, each on one store."""
    report = Report("crowd", budget.seed)
    small = budget.at_most is not None or budget.seconds < LARGE_S
    (_one_by_one if small else _side_by_side)(budget, report)
    report.tried = Counter(dict(sorted(report.tried.items(), key=_place)))
    return budget.finished(report)


def _one_by_one(budget: Budget, report: Report) -> None:
    turn = 0
    while turn == 0 or (not report.violations and budget.goes_on(turn) and budget.left_s() > _SMALL_ROUND_S):
        policy = POLICIES[(budget.seed + turn) % len(POLICIES)]
        _say(budget, report)
        _add(report, _round(draw(budget.seed + turn // len(POLICIES), policy, _SMALL_ROUND_S, small=True)))
        turn += 1


def _side_by_side(budget: Budget, report: Report) -> None:
    longest = min(_LONGEST_ROUND_S, _PART_PLAYED * budget.seconds)
    with ProcessPoolExecutor(len(POLICIES), get_context("spawn")) as workers:
        for seed in count(budget.seed):
            seconds = min(longest, _PART_PLAYED * budget.left_s())
            is_first = seed == budget.seed  # it is played in any case: a run that tried nothing would prove nothing
            if report.violations or (not is_first and seconds < _PART_PLAYED * LARGE_S):
                return
            scenes = [draw(seed, policy, seconds, small=False, beside=len(POLICIES)) for policy in POLICIES]
            for done in as_completed([workers.submit(_round, scene) for scene in scenes]):
                _add(report, done.result())
                _say(budget, report)


def _say(budget: Budget, report: Report) -> None:
    tried = report.tried
    took = time.monotonic() - budget.began
    budget.say(f"{tried['entries']:,} entries, {tried['deliveries']:,} deliveries in what is checked; {took:.0f} s")


def _place(row: tuple[str, int]) -> tuple[bool, int, str]:
    """The most first, and whom which signal struck behind all else."""
    what, number = row
    return what.startswith("SIG"), -number, what


def _round(scene: Scene) -> tuple[Scene, Verdict]:
    """A round and its judgement; where something is found, the store and all that was noted are kept."""
    with played(scene) as root:
        verdict = check(read_journals(root / JOURNALS), beside=scene.beside)
        if verdict.faults:
            # Who is killed at which moment is by chance even with the same seed: what was noted tells what happened.
            kept = Path(tempfile.mkdtemp(prefix="diskstream-crowd-"))
            shutil.copytree(root, kept, ignore=shutil.ignore_patterns(SOCKETS), dirs_exist_ok=True)
            verdict.faults = [f"{fault}\n    in {kept}, of {scene.told()}" for fault in verdict.faults]
    return scene, verdict


def _add(report: Report, judged: tuple[Scene, Verdict]) -> None:
    scene, verdict = judged
    report.tried += verdict.tried
    report.tried["rounds, a store each"] += 1
    report.tried[f"seconds under {_named(scene.policy)}"] += round(scene.seconds)
    report.tried[_WAIT] = max(report.tried[_WAIT], verdict.longest_ms)
    report.outcomes += verdict.outcomes
    report.violations += verdict.faults


def _named(policy: str) -> str:
    return "a policy for each process" if policy == "mixed" else f"fsync={policy}"
