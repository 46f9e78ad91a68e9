"""A rollup as a picture: a panel for each field of each of the largest groups, with bands between quantiles."""

import importlib.util
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from diskstream.errors import MissingPackageError
from diskstream.plurals import number_of
from diskstream.spark.jobs.landing import landing
from diskstream.spark.jobs.rollup_settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["check_matplotlib", "draw"]

_PANELS = 6
_INK, _MUTED, _GRID = "#1d2733", "#5b6b7c", "#e3e8ee"
_BLUE, _ORANGE = "#1f6fb2", "#d9691e"
_DPI = 150
# Of matplotlib's dates, but for the last year: as floats they are rounded past its end.
_DATED = datetime(1, 1, 1), datetime(9999, 1, 1)  # noqa: DTZ001  # in UTC, as numpy's
# Beyond, a double cannot hold what matplotlib reckons with an axis's ends.
_GREATEST = 1e300
_BEFORE_LETTERS = 0x20


def check_matplotlib() -> None:
    """Raises now what drawing would raise after the work.

    Raises:
        MissingPackageError: matplotlib is not installed.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingPackageError("a chart", "matplotlib", "spark")


def draw(table: "pa.Table", settings: Settings, target: Path) -> None:
    """Draws a rollup as PNG. Windows without entries are gaps in its lines.

    What lies outside the years 1 to 9998 is left out, as matplotlib has no dates for it, and the picture says so. So
    are values past 1e300.

    Args:
        table: what `rollup_output.as_table` made.
        settings: those of the rollup.
        target: where to write.

    Raises:
        MissingPackageError: matplotlib is not installed.
        StorageError: the disk said no.
    """
    check_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    count = table.num_rows
    table = _dated(table)
    left_out = count - table.num_rows
    panels = list(_panels(table, settings))
    shown = panels[:_PANELS]
    height = 1.5 + 2.3 * max(1, len(shown))
    # Not through pyplot, which would take over the program's own figures.
    figure = Figure(figsize=(11, height), dpi=_DPI, facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.subplots(max(1, len(shown)), 1, sharex=True, squeeze=False)[:, 0]
    for axis, (title, column, rows) in zip(axes, shown, strict=False):
        _panel(axis, settings, title, column, rows)
    if not shown:
        what = "no windows in the years 1 to 9998" if left_out else "no entries"
        axes[0].text(0.5, 0.5, what, ha="center", va="center", color=_MUTED, transform=axes[0].transAxes)
        axes[0].set_axis_off()
    _captions(figure, axes, settings, (len(panels), count, left_out), height)
    with landing(target) as file:
        figure.savefig(file, format="png", bbox_inches="tight")


def _dated(table: "pa.Table") -> "pa.Table":
    import pyarrow as pa

    first, last = (np.datetime64(at, "us").astype(np.int64) for at in _DATED)
    starts, ends = (table.column(f"window_{edge}").cast(pa.int64()).to_numpy() for edge in ("start", "end"))
    return table.filter(pa.array((starts >= first) & (ends <= last)))


def _panels(table: "pa.Table", settings: Settings) -> "Iterator[tuple[str, str, pa.Table]]":
    """Title, field and rows, the group with most entries first."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names = ["stream", *settings.by]
    # By their places: a field may have the name of the sum.
    places = [str(at) for at in range(len(names))]
    counted = pa.table([table.column(name) for name in (*names, "entries")], names=[*places, "entries"])
    groups = counted.group_by(places).aggregate([("entries", "sum")]).sort_by([("entries_sum", "descending")])
    for group in groups.to_pylist()[:_PANELS]:
        key = {name: group[place] for name, place in zip(names, places, strict=True)}
        chosen = table
        for name in names:
            column = chosen.column(name)
            chosen = chosen.filter(pc.is_null(column) if key[name] is None else pc.equal(column, key[name]))
        labels = [key["stream"], *(f"{name} = {'none' if key[name] is None else key[name]}" for name in settings.by)]
        for column in settings.fields:
            yield "  ·  ".join(labels), column, chosen
    for _ in range((groups.num_rows - _PANELS) * len(settings.fields)):
        yield "", "", table.slice(0, 0)  # only to be counted


def _plain(text: str) -> str:
    """Names are others' input: no formulas, no control characters, not endless."""
    shown = "".join(char if ord(char) >= _BEFORE_LETTERS else " " for char in text)
    return (shown if len(shown) <= 100 else shown[:99] + "…").replace("$", r"\$")  # noqa: PLR2004 a title's width


def _panel(axis: Any, settings: Settings, title: str, column: str, rows: "pa.Table") -> None:
    starts = rows.column("window_start").to_numpy().astype("datetime64[us]")
    middle = starts + np.timedelta64(settings.window_ms * 500, "us")
    width = np.timedelta64(settings.window_ms * 1000, "us")
    # Where windows are missing the line is broken: nothing was measured there.
    breaks = np.flatnonzero(np.diff(starts) > width) + 1
    at = np.insert(middle, breaks, middle[breaks - 1] + width) if len(breaks) else middle

    def values(name: str) -> Any:
        found = rows.column(f"{column}_{name}").to_numpy().astype(float)
        found = np.where(np.abs(found) <= _GREATEST, found, np.nan)
        return np.insert(found, breaks, np.nan)

    few = {"marker": "o", "markersize": 3} if len(starts) < 60 else {}  # noqa: PLR2004 dots of their own
    axis.fill_between(at, values("min"), values("max"), color=_BLUE, alpha=0.13, lw=0, label="min to max")
    quantiles = sorted(zip(settings.quantiles, settings.quantile_names, strict=True))
    upper = [name for each, name in quantiles if each > 0.5]  # noqa: PLR2004 above the median
    median = next((name for each, name in quantiles if each == 0.5), None)  # noqa: PLR2004  # the median
    base = median or "mean"
    lower = values(base)
    for name, alpha in zip(upper, np.linspace(0.42, 0.22, len(upper)), strict=True):
        axis.fill_between(at, lower, values(name), color=_BLUE, alpha=alpha, lw=0, label=f"{base} to {name}")
        base, lower = name, values(name)
    if median is not None:
        axis.plot(at, values(median), color=_BLUE, lw=1.4, label=f"{median} (median)", **few)
    axis.plot(at, values("mean"), color=_ORANGE, lw=1.1, ls="--" if median else "-", label="mean", **few)
    axis.set_title(_plain(title), loc="left", fontsize=10, color=_INK, fontweight="bold")
    axis.set_ylabel(_plain(column), color=_INK, fontsize=9)
    axis.yaxis.set_major_formatter("{x:,.10g}")
    axis.grid(color=_GRID, lw=0.7)
    axis.set_axisbelow(True)
    axis.margins(x=0.01)
    axis.tick_params(colors=_MUTED, labelsize=8, length=3)
    for side, spine in axis.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(_GRID)


def _captions(figure: Any, axes: Any, settings: Settings, counts: tuple[int, int, int], height: float) -> None:
    import matplotlib.dates as md

    panels, rows, left_out = counts
    what = f"{', '.join(settings.fields)} in windows of {_length(settings.window_ms)}"
    figure.text(0.07, 1 - 0.32 / height, _plain(what), fontsize=14, fontweight="bold", color=_INK, va="center")
    more = f"; the {_PANELS} largest of {panels:,} panels" if panels > _PANELS else ""
    if left_out:
        outside = "outside the years 1 to 9998"
        more += f"; {number_of(left_out, f'row {outside} is', f'rows {outside} are')} left out"
    figure.text(0.07, 1 - 0.58 / height, f"{number_of(rows, 'row')}{more}", fontsize=9, color=_MUTED, va="center")
    locator = md.AutoDateLocator(tz="UTC")  # type: ignore[no-untyped-call]  # matplotlib types these in part
    axes[-1].xaxis.set_major_locator(locator)
    formatter = md.ConciseDateFormatter(locator, tz="UTC")  # type: ignore[no-untyped-call]  # matplotlib types these in part
    axes[-1].xaxis.set_major_formatter(formatter)
    low, high = axes[-1].get_xlim()  # with margins, which must not pass the calendar's ends either
    first, last = (float(md.date2num(at)) for at in _DATED)  # type: ignore[no-untyped-call]  # matplotlib types these in part
    axes[-1].set_xlim(max(low, first), min(high, last))
    axes[-1].set_xlabel("time (UTC)", color=_INK, fontsize=9)
    handles, labels = axes[0].get_legend_handles_labels()
    if handles:
        place = (0.985, 1 - 0.45 / height)
        figure.legend(handles, labels, loc="center right", bbox_to_anchor=place, ncols=3, frameon=False, fontsize=8)
    figure.subplots_adjust(left=0.07, right=0.985, top=1 - 1.05 / height, bottom=0.55 / height, hspace=0.3)


def _length(ms: int) -> str:
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if ms % size == 0:
            return f"{ms // size} {unit}"
    return f"{ms} ms"
