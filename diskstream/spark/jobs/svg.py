"""Small charts as SVG to stand in a page: shapes only, which stretch; their words are the page's."""

from collections.abc import Sequence

__all__ = ["area", "bars"]

_HEIGHT = 100.0


def _svg(width: int, label: str, body: str, kind: str) -> str:
    return (
        f'<svg class="{kind}" viewBox="0 0 {width} {_HEIGHT:g}" preserveAspectRatio="none" role="img" '
        f'aria-label="{label}">{body}</svg>'
    )


def bars(values: Sequence[float], label: str, *, kind: str = "bars", titles: Sequence[str] = ()) -> str:
    """Bars side by side from 0 up, each 10 wide.

    Args:
        values: from 0 on.
        label: what the chart shows, escaped, for those who do not see it.
        kind: a class for the page's style.
        titles: what to say of each bar under the pointer, escaped.
    """
    most = max(values, default=0) or 1
    body = []
    gap = 1.5 if len(values) <= 120 else 0.0  # noqa: PLR2004 more columns than pixels to keep apart
    for at, value in enumerate(values):
        if not value:
            continue
        height = max(_HEIGHT * value / most, 1.5)
        title = f"<title>{titles[at]}</title>" if titles else ""
        place = f'x="{at * 10 + gap / 2:g}" y="{_HEIGHT - height:.1f}" width="{10 - gap:g}" height="{height:.1f}"'
        body.append(f"<rect {place}>{title}</rect>")
    return _svg(max(len(values), 1) * 10, label, "".join(body), kind)


def area(values: Sequence[float | None], label: str) -> str:
    """A line over a filled area; it is broken where there are no values.

    Args:
        values: of any size; the chart spans from the least to the greatest.
        label: as for `bars`.
    """
    there = [value for value in values if value is not None]
    low, high = min(there, default=0.0), max(there, default=1.0)
    # Halves, since the difference of two doubles may be none.
    span = (high / 2 - low / 2) or 1.0
    flat = high == low

    def point(at: int, value: float) -> str:
        share = 0.5 if flat else (value / 2 - low / 2) / span
        return f"{at * 10 + 5},{_HEIGHT - 6 - share * (_HEIGHT - 12):.1f}"

    body, run = [], list[str]()
    for at, value in enumerate([*values, None]):
        if value is not None:
            run.append(point(at, value))
            if at + 1 < len(values) and values[at + 1] is not None:
                continue
        if not run:
            continue
        first, last = run[0].split(",")[0], run[-1].split(",")[0]
        if len(run) == 1:
            run = [f"{float(first) - 4:g},{run[0].split(',')[1]}", f"{float(first) + 4:g},{run[0].split(',')[1]}"]
        else:
            edge = f"{first},{_HEIGHT:g} {' '.join(run)} {last},{_HEIGHT:g}"
            body.append(f'<polygon points="{edge}"/>')
        body.append(f'<polyline points="{" ".join(run)}"/>')
        run = []
    return _svg(max(len(values), 1) * 10, label, "".join(body), "line")
