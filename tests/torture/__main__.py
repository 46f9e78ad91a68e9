"""The torture from the command line: ``python -m tests.torture [PART...] [--seed N] [--for 10m] [--json FILE]``.

The time is shared out evenly between the parts. Ends with 1 where a promise was broken, and says how to see it again.
"""

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.machine import facts
from tests.torture.model import FORMAT, Budget, Report
from tests.torture.parts import PARTS, run_of, summary_of

_UNITS = {"s": 1, "m": 60, "h": 3600}


def seconds(text: str) -> float:
    """The seconds of "90", "10m", "1h"."""
    match = re.fullmatch(r"([0-9.]+)([smh]?)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: write 90s, 10m or 1h")
    return float(match[1]) * _UNITS[match[2] or "s"]


def _table(reports: Sequence[Report]) -> str:
    lines = []
    for report in reports:
        verdict = f"{len(report.violations)} VIOLATIONS" if report.violations else "no violation"
        lines.append(f"{report.part:<12} {report.seconds:>8.0f} s   seed {report.seed}   {verdict}")
        lines += [f"{'':<12} {number:>12,} {what}" for what, number in (report.tried | report.outcomes).items()]
        lines += [f"{'':<12} skipped: {reason}" for reason in report.skipped]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what was asked for. Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="torture",
        description=(__doc__ or "").partition("\n")[0],
        epilog="\n".join(f"{name}: {summary_of(name)}" for name in PARTS),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}; all where none is named")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of everything random (the time)")
    parser.add_argument("--for", type=seconds, default=600.0, dest="time", metavar="TIME", help="in all (10m)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the reports there")
    given = parser.parse_args(arguments)
    unknown = sorted(set(given.parts) - set(PARTS))
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    names = given.parts or list(PARTS)
    reports: list[Report] = []
    for name in names:

        def say(line: str, name: str = name) -> None:
            if sys.stderr.isatty():
                print(f"\r\x1b[K{name}: {line}", end="", file=sys.stderr, flush=True)

        reports.append(run_of(name)(Budget(given.seed, given.time / len(names), say=say)))
        say("")
        print(_table(reports[-1:]), flush=True)
    for report in reports:
        for violation in report.violations:
            print(f"\n{report.part}: {violation}", file=sys.stderr)
    if given.json:
        machine = facts(Path(tempfile.gettempdir()))
        run = {"format": FORMAT, "machine": machine, "reports": [report.to_json() for report in reports]}
        given.json.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    return 1 if any(report.violations for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
