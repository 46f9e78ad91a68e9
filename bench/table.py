"""How figures are written: in a terminal and in Markdown, from the same cells."""

from __future__ import annotations

from bench.model import Figure, Result, Row, Target

HEADINGS = ("case", "diskstream", "beside", "peer", "ratio", "target", "")
UNITS = {"entries/s": "/s", "bytes": "B"}


def number(value: float) -> str:
    """Three digits that count, with a prefix for the large ones."""
    for limit, suffix in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if abs(value) >= limit:
            value /= 1e3 if suffix == " k" else limit
            break
    else:
        suffix = ""
    return (f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:.3g}") + suffix


def with_unit(value: float, unit: str) -> str:
    """A number and its unit: 1.5 M/s, 20 MB, 120 µs."""
    text = number(value)
    return text + ("" if text[-1].isalpha() or unit == "entries/s" else " ") + UNITS.get(unit, unit)


def figure(value: Figure | None) -> str:
    """The median with its unit, and the spread in brackets where there is one."""
    if value is None:
        return ""
    spread = f" ({number(value.low)} to {number(value.high)})" if len(value.samples) > 1 else ""
    return with_unit(value.median, value.unit) + spread


def ratio(value: Figure | None) -> str:
    """The median of the rounds' ratios, and their spread."""
    if value is None:
        return ""
    spread = f" ({number(value.low)} to {number(value.high)})" if len(value.samples) > 1 else ""
    return number(value.median) + spread


def target(value: Target | None, unit: str) -> str:
    """The bound, and what it binds."""
    if value is None:
        return "informational"
    sign, bound = ("≥", value.at_least) if value.at_least is not None else ("≤", value.at_most)
    assert bound is not None
    what = f"ratio {sign} {bound:g}" if value.of == "ratio" else f"{sign} {with_unit(bound, unit)}"
    return what + (", worst" if value.worst else "")


def cells(row: Row) -> tuple[str, ...]:
    """One row's cells, under HEADINGS."""
    return (
        row.case,
        figure(row.ours),
        row.peer_name or "",
        figure(row.peer),
        ratio(row.ratio),
        target(row.target, row.ours.unit),
        row.verdict,
    )


def terminal(result: Result) -> str:
    """A subject's table for a terminal, with what was left out."""
    lines = [cells(row) for row in result.rows]
    widths = [max(len(line[column]) for line in [HEADINGS, *lines]) for column in range(len(HEADINGS))]
    text = [f"\n{result.name}: {result.title}"]
    if lines:
        text += [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in [HEADINGS, *lines]
        ]
    text += [f"skipped: {reason}" for reason in result.skipped]
    text += result.notes
    return "\n".join(text)


def markdown(result: Result) -> str:
    """A subject's table in Markdown."""
    lines = [
        HEADINGS,
        ("---",) * len(HEADINGS),
        *(tuple(cell.replace("|", "\\|") for cell in cells(row)) for row in result.rows),
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
