"""``python -m bench.counts``: instructions an operation, beside the recorded baseline."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.context import scratch_directory
from bench.counts import baseline
from bench.counts.measuring import counts, missing
from bench.counts.workloads import WORKLOADS

RECORDED_RUNS = 3
# What a caller may tell from a count that is too high: nothing could be compared.
NOTHING_TO_COMPARE = 3


def table(changes: Sequence[baseline.Change]) -> str:
    """The counts, for a terminal."""
    lines = [("workload", "instructions", "in the core", "baseline", "change", "", "what is counted")]
    for each in changes:
        before = "" if each.before is None else f"{each.before:,.0f}"
        share = "" if each.share is None else f"{each.share:+.1%}"
        count = each.count
        what = WORKLOADS[each.name].what
        numbers = (f"{count.instructions:,.0f}", f"{count.native:,.0f}", before, share)
        lines.append((each.name, *numbers, each.verdict, what))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    right = range(1, 5)
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Counts, and compares or records.

    Returns:
        1 where a workload is dearer than its baseline allows, 3 where nothing was recorded in such an environment.
    """
    made = argparse.ArgumentParser(prog="python -m bench.counts", description=(__doc__ or "").partition(": ")[2])
    made.add_argument("--only", action="append", choices=list(WORKLOADS), help="this workload (several times for more)")
    made.add_argument("--record", action="store_true", help=f"write the baseline, the median of {RECORDED_RUNS} runs")
    made.add_argument("--baseline", type=Path, default=baseline.PATH, metavar="FILE", help="another baseline")
    made.add_argument("--dir", type=Path, metavar="DIR", help="where to put data (on a disk; default: inside bench/)")
    options = made.parse_args(arguments)
    without = missing()
    if without:
        made.error(without)
    if options.record and options.only:
        made.error("--record takes all workloads: what ran before a workload is part of its count")
    names = options.only or list(WORKLOADS)
    runs = []
    for _ in range(RECORDED_RUNS if options.record else 1):
        with scratch_directory(options.dir) as scratch:
            runs.append(counts(scratch, names))
    now = baseline.environment()
    if options.record:
        baseline.record(runs, now, options.baseline)
    recorded = baseline.load(options.baseline)
    before = baseline.here(recorded, now)
    changes = baseline.compare(runs[-1], before or {})
    print(table(changes))
    if before is None:
        print(f"\nnot compared, for no such environment was recorded: {baseline.differences(recorded, now)}")
        return NOTHING_TO_COMPARE
    return int(any(each.verdict == "dearer" for each in changes))


if __name__ == "__main__":
    sys.exit(main())
