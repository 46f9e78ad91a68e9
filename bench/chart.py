"""One picture of all targets: how many times over each is met, or how far it is missed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas

from bench import table
from bench.model import Result, Row

MET, MISSED = "#2f7d5b", "#b5482f"


def share(row: Row) -> float:
    """What was measured over what is aimed at, turned so that 1 and above is met."""
    assert row.target is not None
    measured = row.ratio if row.target.of == "ratio" else row.ours
    assert measured is not None
    if row.target.at_least is not None:
        return (measured.low if row.target.worst else measured.median) / row.target.at_least
    assert row.target.at_most is not None
    return row.target.at_most / (measured.high if row.target.worst else measured.median)


def draw(results: Sequence[Result], path: Path) -> None:
    """Draws a bar for every target, on a logarithmic scale, and writes it as SVG."""
    rows = [(result.name, row) for result in results for row in result.rows if row.verdict][::-1]
    if not rows:
        return
    shares = [share(row) for _, row in rows]
    canvas = Canvas(figsize=(10, 0.8 + 0.32 * len(rows)), layout="constrained")
    axes = canvas.add_subplot()
    axes.set_xscale("log")
    low, high = min(*shares, 0.5), max(*shares, 2.0)
    axes.set_xlim(low / 1.3, high * 1.6)
    # A bar begins at the target, so that its length is the distance from it.
    axes.barh(
        range(len(rows)), [value - 1 for value in shares], left=1, color=[MET if v >= 1 else MISSED for v in shares]
    )
    for place, value in enumerate(shares):
        axes.text(max(value, 1) * 1.04, place, f"{value:.2g}×", va="center", fontsize=8)
    labels = [
        f"{row.case}\n{row.peer_name or ''}  {table.target(row.target, row.ours.unit)}".strip() for _, row in rows
    ]
    axes.set_yticks(range(len(rows)), labels, fontsize=6)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel("measured as a share of the target (right of the line: met)")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    with mpl.rc_context({"svg.hashsalt": "diskstream"}):
        canvas.savefig(path, format="svg", metadata={"Date": None})
