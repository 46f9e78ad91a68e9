"""Rot: bits, blocks and whole files of every kind are damaged; whatever reads them may say so, but not lie or die."""

import json
import os
import signal
import subprocess
import sys
from itertools import cycle
from pathlib import Path

from tests.rot.subjects import SUBJECTS
from tests.torture.model import Budget, Report

__all__ = ["run"]

_ROOT = Path(__file__).resolve().parent.parent.parent
# Each process makes its small store anew, which takes a second; it then tries some ten damages a second.
_BATCH_S = 60.0
_SAID = 1500
_MOST = 20  # violations that are kept


class _Running:
    """A process that tries damages."""

    def __init__(self, seed: int, subject: int, start: int, seconds: float) -> None:
        self.seed, self.subject, self.start = seed, subject, start
        self._step = SUBJECTS.count(SUBJECTS[subject])
        words = [str(seed), str(subject), str(start), str(self._step), f"{seconds:.1f}"]
        program = [sys.executable, "-X", "faulthandler", "-m", "tests.rot.batch"]
        self._process = subprocess.Popen(
            [*program, *words], cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def finish(self, report: Report) -> int:
        """Waits for its end and notes what it said. Returns the number that comes next."""
        said, errors = self._process.communicate()
        name = SUBJECTS[self.subject].name
        under_way, place = "made ready", ""
        following, is_done = self.start, False
        for line in map(json.loads, filter(_is_whole, said.splitlines())):
            if line[0] == "in":
                place = line[1]
            elif line[0] == "next":
                _, number, kind, under_way = line
                following = number + self._step
                report.tried[kind] += 1
                report.tried[f"damages to: {name}"] += 1
            elif line[0] == "came":
                report.outcomes[line[2]] += 1
                report.violations += [f"{under_way}: {offence} (kept in {line[4]})" for offence in line[3]]
            is_done = line[0] == "done"
        if not is_done:
            code = self._process.returncode
            how = signal.Signals(-code).name if code < 0 else f"code {code}"
            report.violations.append(f"{under_way}: the process ended with {how} ({place} is left): {_ends(errors)}")
        del report.violations[_MOST:]
        return following


def _ends(text: str) -> str:
    """The beginning and the end of what a process said when it died: what it died of, and where."""
    return text if len(text) <= 2 * _SAID else f"{text[:_SAID]} ... {text[-_SAID:]}"


def _is_whole(line: str) -> bool:
    return line.startswith("[") and line.endswith("]")  # the last one may have been cut off by a death


def run(budget: Budget) -> Report:
    """Damages every kind of file until the time is up: of small stores byte by byte, of a larger one at random."""
    report = Report("rot", budget.seed)
    width = min(os.cpu_count() or 1, 4)
    # Of each turn, the number of the next damage; one that stands twice in the list shares them out.
    reached = {turn: SUBJECTS[:turn].count(kind) for turn, kind in enumerate(SUBJECTS)}
    turns = cycle(range(len(SUBJECTS)))
    while budget.goes_on(sum(report.outcomes.values())) and not report.violations:
        seconds = min(_BATCH_S, budget.left_s() * width / len(SUBJECTS))
        running = []
        for _ in range(width):
            subject = next(turns)
            running.append(_Running(budget.seed, subject, reached[subject], seconds))
        for each in running:
            reached[each.subject] = each.finish(report)
        budget.say(f"{sum(report.outcomes.values()):,} damages")
    return budget.finished(report)
