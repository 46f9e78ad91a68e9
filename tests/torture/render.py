"""Writes docs/reliability.md from reports: ``python -m tests.torture.render FILE...``.

Where two files have a part, the later one counts; with ``--add`` their figures are added up, also to those on the page:
a long run may be done in several pieces, from seeds that are far apart. What was found and mended stands in
`remarks/PART.md` and is put below the part's figures; everything else comes from the files and from `promises`. What
was read is kept, merged, in docs/reliability.json, so that a single part can be run again later.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.torture.model import FORMAT, Report
from tests.torture.parts import PARTS, summary_of
from tests.torture.promises import PROMISES

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE, KEPT = ROOT / "docs" / "reliability.md", ROOT / "docs" / "reliability.json"
# Figures of which the greatest counts where others are added up.
_GREATEST = "the longest"
REMARKS = Path(__file__).parent / "remarks"
HEAD = """# Reliability

<!-- Written by `python -m tests.torture.render` from reports: change tests/torture/, not this page. -->

What diskstream promises, which test could show that it does not hold, how often that was tried, and what it found. The
programs are part of the repository:

```
make torture TORTURE_ARGS="--seed 7 --for 1h"              # all parts, the time shared out
python -m tests.torture power rot --for 10m --json run.json
python -m tests.torture.render run.json                    # writes this page anew
```

They end with 1 where a promise is broken, and say how to see it again. Short forms of all of them run with the tests.
"""


def load(path: Path) -> dict[str, Any]:
    """One run's JSON, checked for its form."""
    run: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if run.get("format") != FORMAT:
        raise SystemExit(f"torture.render: {path} is of format {run.get('format')!r}, and this reads {FORMAT}")
    return run


def merged(runs: Sequence[dict[str, Any]], *, add: bool = False) -> dict[str, Any]:
    """One run of several: for each part its last report, or all together, with the machine of the last one.

    Raises:
        SystemExit: two that are to be added up are from the same seed, and so tried the same.
    """
    last: dict[str, dict[str, Any]] = {}
    for run in runs:
        for report in run["reports"]:
            values = {"seeds": [report["seed"]], "pieces": [_piece(report, run["machine"])], **report}
            values["machine"] = run["machine"]
            before = last.get(report["part"])
            last[report["part"]] = values if before is None or not add else _sum(before, values)
    return {"format": FORMAT, "reports": [last[name] for name in PARTS if name in last], "machine": {}}


def _piece(report: dict[str, Any], machine: dict[str, str]) -> dict[str, Any]:
    """One run of a part: what a sum of several is made of, each by the code of its day."""
    return {
        "seed": report["seed"],
        "seconds": report["seconds"],
        "date": machine["date"],
        "diskstream": machine["diskstream"],
    }


def _sum(before: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    if set(before["seeds"]) & set(values["seeds"]):
        raise SystemExit(f"torture.render: two runs of {values['part']} are from seed {values['seed']}: give another")
    sums = {
        kind: {
            what: max(pair) if what.startswith(_GREATEST) else sum(pair)
            for what in {**before[kind], **values[kind]}
            for pair in [(before[kind].get(what, 0), values[kind].get(what, 0))]
        }
        for kind in ("tried", "outcomes")
    }
    return {
        **values,
        **sums,
        "seeds": before["seeds"] + values["seeds"],
        "pieces": before["pieces"] + values["pieces"],
        "seconds": before["seconds"] + values["seconds"],
        "violations": before["violations"] + values["violations"],
        "skipped": values["skipped"],
    }


def render(run: dict[str, Any]) -> str:
    """The page, of a merged run."""
    lines = [HEAD, "## The promises\n"]
    for number, promise in enumerate(PROMISES, 1):
        lines.append(f"{number}. {promise.text}")
        lines.append("   Tests: " + ", ".join(f"`{test}`" for test in promise.tests) + ".")
        if promise.parts:
            lines.append("   Torture: " + ", ".join(f"[{part}](#{part})" for part in promise.parts) + ".")
        lines.append("")
    for values in run["reports"]:
        lines += _part(
            Report.from_json({key: values[key] for key in values.keys() - {"machine", "seeds", "pieces"}}), values
        )
    return "\n".join(lines)


def _part(report: Report, values: dict[str, Any]) -> list[str]:
    machine = values["machine"]
    lines = [f"## {report.part}\n", f"{summary_of(report.part)}\n", "| | |", "| --- | ---: |"]
    lines += [f"| {what} | {number:,} |" for what, number in report.tried.items()]
    lines += [f"| of these: {what} | {number:,} |" for what, number in report.outcomes.items()]
    lines.append(f"| **promises broken** | **{len(report.violations)}** |\n")
    lines += [f"Not tried: {reason}.\n" for reason in report.skipped]
    last = ", the last run on" if len(values["pieces"]) > 1 else ":"  # they need not have had the same machine
    on = f"{machine['processor']}, {machine['kernel']}"
    lines.append(f"In {report.seconds:,.0f} s{last} {on}. {_runs(values['pieces'])}\n")
    remark = REMARKS / f"{report.part}.md"
    if remark.exists():
        lines.append(remark.read_text(encoding="utf-8"))
    return lines


def _runs(pieces: list[dict[str, Any]]) -> str:
    """Each run, with the code that it tried."""
    told = [f"seed {each['seed']}, {each['seconds']:,.0f} s, {each['date']}, {each['diskstream']}" for each in pieces]
    return f"Runs: {'; '.join(told)}."


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the page and what it was written from."""
    parser = argparse.ArgumentParser(prog="torture.render", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="what torture --json wrote")
    parser.add_argument("--add", action="store_true", help="add to the figures of the same part, and replace none")
    given = parser.parse_args(arguments)
    kept = [
        {"format": FORMAT, "machine": report["machine"], "reports": [report]}
        for report in (load(KEPT)["reports"] if KEPT.exists() else [])
    ]
    run = merged([*kept, *(load(path) for path in given.files)], add=given.add)
    KEPT.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(render(run), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {len(run['reports'])} parts")
    return 0


if __name__ == "__main__":
    sys.exit(main())
