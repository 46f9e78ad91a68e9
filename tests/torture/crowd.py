"""Many processes on one store, killed, stopped and interrupted at random: what each saw and what is left is checked."""

import shutil
import tempfile
from collections import Counter
from pathlib import Path

from tests.crowd.checker import Verdict, check
from tests.crowd.journal import read_journals
from tests.crowd.part import JOURNALS
from tests.crowd.play import played
from tests.crowd.scene import POLICIES, Scene, draw
from tests.torture.model import Budget, Report

__all__ = ["run"]

_WAIT = "the longest wait for an entry that was there, in ms"
# Sixteen of each take seconds to start: with less time than this a few do.
_LARGE_S = 240.0
_SMALL_ROUND_S = 3.0
# Beyond it the check of all that was noted takes more memory than machines for tests have.
_LONGEST_ROUND_S = 900.0
# The rest of a round is for the survey and the check.
_PART_PLAYED = 0.75


def run(budget: Budget) -> Report:
    """Plays rounds, each with a store of its own, under one policy after the other."""
    report = Report("crowd", budget.seed)
    small = budget.at_most is not None or budget.seconds < _LARGE_S
    seconds = _SMALL_ROUND_S if small else min(_LONGEST_ROUND_S, _PART_PLAYED * budget.seconds / len(POLICIES))
    turn = 0
    while turn == 0 or (not report.violations and budget.goes_on(turn) and budget.left_s() > seconds / _PART_PLAYED):
        policy = POLICIES[(budget.seed + turn) % len(POLICIES)]
        scene = draw(budget.seed + turn // len(POLICIES), policy, seconds, small=small)
        budget.say(f"{report.tried['entries']:,} entries, {report.tried['deliveries']:,} deliveries; fsync={policy}")
        with played(scene) as root:
            _add(report, check(read_journals(root / JOURNALS)), scene, root)
        turn += 1
    report.tried = Counter(dict(sorted(report.tried.items(), key=_place)))
    return budget.finished(report)


def _place(row: tuple[str, int]) -> tuple[bool, int, str]:
    """The most first, and whom which signal struck behind all else."""
    what, number = row
    return what.startswith("SIG"), -number, what


def _add(report: Report, verdict: Verdict, scene: Scene, root: Path) -> None:
    report.tried += verdict.tried
    report.tried["rounds, a store each"] += 1
    report.tried[_WAIT] = max(report.tried[_WAIT], verdict.longest_ms)
    report.outcomes += verdict.outcomes
    if verdict.faults:
        # Who is killed at which moment is by chance even with the same seed: what was noted tells what happened.
        kept = Path(tempfile.mkdtemp(prefix="diskstream-crowd-"))
        shutil.copytree(root, kept, dirs_exist_ok=True)
        report.violations += [f"{fault}\n    in {kept}, of {scene.told()}" for fault in verdict.faults]
