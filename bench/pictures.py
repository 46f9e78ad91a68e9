"""The lines and bars of a page of figures: one panel for each chart that the series of its results belong to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from bench.model import Result, Series

# The charts in their order: title, and whether both axes are logarithmic.
CHARTS = {
    "throughput": "Adding, by batch size and fsync policy",
    "processes": "Throughput, by the number of processes",
    "latency": "From adding to receipt, by percentile",
    "growth": "Cost, by the entries in the store",
    "memory": "Memory, by the entries in the store",
    "codecs": "Bytes for each entry, by codec",
}
COLUMNS = 2
# A percentile stands where one entry in so many takes longer.
PERCENTILES = {2.0: "50 %", 10.0: "90 %", 100.0: "99 %", 1000.0: "99.9 %", 10000.0: "99.99 %"}


def draw(results: Sequence[Result], path: Path) -> bool:
    """Draws the panels that there are series for, and writes them as one SVG. Returns whether there are any."""
    found = {name: [each for result in results for each in result.series if each.chart == name] for name in CHARTS}
    panels = [(name, series) for name, series in found.items() if series]
    if not panels:
        return False
    lines = math.ceil(len(panels) / COLUMNS)
    canvas = Canvas(figsize=(11, 3.6 * lines), layout="constrained")
    for place, (name, series) in enumerate(panels, start=1):
        axes = canvas.add_subplot(lines, COLUMNS, place)
        axes.set_title(CHARTS[name], fontsize=10)
        (_bars if name == "codecs" else _lines)(axes, series)
        if name == "latency":
            axes.set_xticks(list(PERCENTILES), list(PERCENTILES.values()))
            axes.minorticks_off()
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        axes.tick_params(labelsize=7)
    with mpl.rc_context({"svg.hashsalt": "diskstream"}):
        canvas.savefig(path, format="svg", metadata={"Date": None})
    return True


def _lines(axes: Axes, series: Sequence[Series]) -> None:
    axes.set_xscale("log", base=2 if series[0].along == "processes" else 10)
    axes.set_yscale("log")
    for each in series:
        axes.plot(*zip(*each.points, strict=True), marker="o", markersize=3, linewidth=1, label=each.name)
    if series[0].along == "processes":
        counts = sorted({x for each in series for x, _ in each.points})
        axes.set_xticks(counts, [f"{count:g}" for count in counts])
    axes.set_xlabel(series[0].along, fontsize=8)
    axes.set_ylabel(series[0].unit, fontsize=8)
    axes.grid(visible=True, linewidth=0.3)
    axes.legend(fontsize=6, frameon=False)


def _bars(axes: Axes, series: Sequence[Series]) -> None:
    ordered = sorted(series, key=lambda each: -each.points[0][1])
    values = [each.points[0][1] for each in ordered]
    axes.barh(range(len(ordered)), values)
    axes.set_yticks(range(len(ordered)), [each.name for each in ordered])
    for place, value in enumerate(values):
        axes.text(value, place, f" {value:.3g}", va="center", fontsize=7)
    axes.set_xlabel(series[0].unit, fontsize=8)
