"""Writes docs/performance.md from the JSON of one or more runs: ``python -m bench.render FILE... [--out FILE]``.

Where two files have a subject, the later one counts. Remarks on a subject (why a target is missed, what the limit is)
stand in ``bench/remarks/NAME.md`` and are put below its table; everything else comes from the files.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import table
from bench.context import CHECKOUT
from bench.model import FORMAT, Result

REMARKS = Path(__file__).parent / "remarks"
HEAD = """# Performance

<!-- Written by `python -m bench.render` from the figures of runs: change bench/ or bench/remarks/, not this page. -->

diskstream beside what one would use instead, measured together: contenders take turns in one run, each for the same
time, several rounds, with what is unwritten flushed in between. A cell shows the median of the rounds and, in brackets,
the lowest and the highest. A ratio is diskstream's figure over the peer's, round by round, and then the median: more is
better for rates, less is better for times and sizes. A row with a target is a gate and is met or missed; the others
inform. To measure on another machine:

```
python -m bench --json run.json                        # --quick for a first look
python -m bench --large 100000000 --json large.json    # a store of that many entries
python -m bench --large-spark 100000000 --json spark-large.json
python -m bench.render run.json large.json spark-large.json
```
"""


def load(path: Path) -> dict[str, Any]:
    """One run's JSON, checked for its form."""
    run: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if run.get("format") != FORMAT:
        raise SystemExit(f"bench.render: {path} is of format {run.get('format')!r}, and this reads {FORMAT}")
    return run


def render(runs: Sequence[dict[str, Any]]) -> str:
    """The page."""
    found: dict[str, tuple[Result, int]] = {}
    for number, run in enumerate(runs):
        for subject in run["subjects"]:
            found[subject["name"]] = (Result.from_json(subject), number)
    used = sorted({number for _, number in found.values()})
    parts = [HEAD, _summary([result for result, _ in found.values()])]
    parts += [_subject(result) for result, _ in found.values()]
    parts.append("## What it was measured on\n")
    for number in used:
        names = ", ".join(name for name, (_, of) in found.items() if of == number)
        scale = ", ".join(f"{value:g} {name}" for name, value in runs[number]["scale"].items())
        facts = {"subjects": names, **runs[number]["machine"], "scale": scale}
        took = {name: result.seconds for name, (result, of) in found.items() if of == number and result.seconds}
        if took:
            each = ", ".join(f"{name} {seconds:.0f}" for name, seconds in took.items())
            facts["seconds"] = f"{sum(took.values()):.0f}: {each}"
        parts.append(
            "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in facts.items())]) + "\n"
        )
    return "\n".join(parts)


def _summary(results: Sequence[Result]) -> str:
    gates = [(result, row) for result in results for row in result.rows if row.target]
    missed = [(result, row) for result, row in gates if row.verdict == "missed"]
    text = f"Of {len(gates)} targets {len(gates) - len(missed)} are met."
    if missed:
        text += " Missed:\n\n" + "\n".join(
            f"- {result.name}: {row.case}" + (f", beside {row.peer_name}" if row.peer_name else "")
            for result, row in missed
        )
    return text + "\n"


def _subject(result: Result) -> str:
    parts = [f"## {result.title}", textwrap.fill(result.method, 120, break_on_hyphens=False, break_long_words=False)]
    if result.rows:
        parts.append(table.markdown(result))
    parts += [f"Left out: {reason}." for reason in result.skipped]
    parts += result.notes
    remarks = REMARKS / f"{result.name}.md"
    if remarks.exists():
        parts.append(remarks.read_text(encoding="utf-8").strip())
    return "\n\n".join(parts) + "\n"


def _illustrated(page: str, runs: Sequence[dict[str, Any]], out: Path) -> str:
    """The page with its pictures, which are drawn beside it."""
    from bench import chart, pictures

    latest = {subject["name"]: Result.from_json(subject) for run in runs for subject in run["subjects"]}
    results = list(latest.values())
    targets, lines = out.with_suffix(".svg"), out.with_name(f"{out.stem}-lines.svg")
    chart.draw(results, targets)
    shown = f"![Each figure as a share of its target]({targets.name})\n"
    if pictures.draw(results, lines):
        panels = "Throughput, latency, cost by size, bytes by codec, scaling with processes"
        shown += f"\n![{panels}]({lines.name})\n"
    return page.replace("\n## ", f"\n{shown}\n## ", 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Renders the page."""
    parser = argparse.ArgumentParser(prog="python -m bench.render", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("runs", nargs="+", type=Path, metavar="FILE", help="JSON written by python -m bench --json")
    parser.add_argument("--out", type=Path, default=CHECKOUT / "docs" / "performance.md", help="the page to write")
    parser.add_argument(
        "--chart", action="store_true", help="draw targets and lines beside it, as SVG (needs matplotlib)"
    )
    options = parser.parse_args(arguments)
    runs = [load(path) for path in options.runs]
    page = render(runs)
    if options.chart:
        page = _illustrated(page, runs, options.out)
    options.out.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
