"""Every byte of every file of a small store: one bit of each is flipped, by and by; nothing may be made up or lost."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from tests.torture.model import Budget, Report

__all__ = ["run"]

_ROOT = Path(__file__).resolve().parent.parent.parent
_MOST = 20  # violations that are kept
_ALL, _TRIED = "bytes that there are, but for long fillings", "bytes of which a bit was flipped"


def run(budget: Budget) -> Report:
    """Goes through the bytes until each had its turn, or the time is up."""
    report = Report("bytes", budget.seed)
    report.tried[_TRIED] = report.tried[_ALL] = 0
    places = os.cpu_count() or 1
    mutex = threading.Lock()

    def follow(place: int) -> None:
        words = [str(budget.seed), str(place), str(places), f"{budget.left_s():.1f}"]
        program = [sys.executable, "-X", "faulthandler", "-m", "tests.rot.in_turn", *words]
        under_way, where, is_done = "made ready", "", False
        with subprocess.Popen(program, cwd=_ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in map(json.loads, process.stdout):
                with mutex:
                    if line[0] == "in":
                        where = line[1]
                    elif line[0] == "all":
                        report.tried[_ALL] += line[1]
                    elif line[0] == "next":
                        under_way = line[1]
                    elif line[0] == "came":
                        report.tried[_TRIED] += 1
                        report.outcomes[line[1]] += 1
                        report.violations += [f"{under_way}: {offence} (kept in {line[3]})" for offence in line[2]]
                        del report.violations[_MOST:]
                        budget.say(f"{report.tried[_TRIED]:,} of {report.tried[_ALL]:,} bytes")
                is_done = line[0] == "done"
        if not is_done:
            code = process.returncode
            how = signal.Signals(-code).name if code < 0 else f"code {code}"
            with mutex:
                report.violations.append(f"{under_way}: the process ended with {how} ({where} is left)")

    followers = [threading.Thread(target=follow, args=(place,)) for place in range(places)]
    for each in followers:
        each.start()
    for each in followers:
        each.join()
    return budget.finished(report)
