"""A profile as a page: one file without scripts and without anything from elsewhere.

Names and values are others' input: all text goes through `_text`, and a policy in the page forbids whatever might get
through all the same.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any

from diskstream.plurals import number_of
from diskstream.spark.jobs.page_style import STYLE
from diskstream.spark.jobs.svg import area, bars

__all__ = ["page", "shown"]

_DETAILED = 40
_CARDS = 60
_CHIPS = 24
_LONGEST = 80
_LAST_YEAR_MS = 253_402_300_800_000
_UNITS = ((1000, "ms", 1), (60_000, "s", 1000), (3_600_000, "min", 60_000), (86_400_000, "h", 3_600_000))


def page(store: str, streams: Sequence[dict[str, Any]]) -> str:
    """HTML of the facts of streams: see `profile_facts.facts_of`.

    Args:
        store: the store's path.
        streams: in the order in which they are to be shown; the first 40 in detail.
    """
    entries = sum(each["entries"] for each in streams)
    size = sum(each["size_bytes"] for each in streams)
    overview = _overview(streams) if len(streams) != 1 else ""
    detailed = [_stream(each, f"s{at}") for at, each in enumerate(streams[:_DETAILED]) if each["entries"]]
    if len(streams) > _DETAILED:
        detailed.append(f"<p class=muted>The {_DETAILED} largest streams are shown; the JSON report has all.</p>")
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<title>Profile of {_text(store)}</title><style>{STYLE}</style></head><body>
<header><p class="eyebrow">Profile of a store</p><h1>{_text(store)}</h1>
<p class="lead"><b>{entries:,}</b> entries in <b>{len(streams):,}</b> {"stream" if len(streams) == 1 else "streams"},
<b>{_size(size)}</b> of names and values</p></header>
<main>{overview}{"".join(detailed)}</main>
<footer>Made by diskstream on {made}. Times are UTC. Distinct values marked ≈ are within about 3 %; medians and
percentiles of more than 256 different numbers within 1 %.</footer></body></html>
"""


def _text(value: str) -> str:
    text = shown(value)
    return escape(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…", quote=True)


def shown(value: str) -> str:
    """Text that can be looked at: what is no UTF-8, no letter, or turns the direction of text, is escaped."""
    return "".join(char if char.isprintable() else _escaped(char) for char in value)


def _escaped(char: str) -> str:
    if "\udc80" <= char <= "\udcff":
        return f"\\x{ord(char) - 0xDC00:02x}"
    return char.encode("unicode_escape").decode()


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:  # noqa: PLR2004 the next unit
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"


def _span(ms: float) -> str:
    for limit, unit, size in _UNITS:
        if ms < limit * (2 if size > 1 else 1):
            return f"{ms / size:,.3g} {unit}"
    return f"{ms / 86_400_000:,.1f} days"


def _time(ms: int, *, to_ms: int = 1000) -> str:
    """As exact as `to_ms` asks for."""
    if not 0 <= ms < _LAST_YEAR_MS:
        return f"{ms:,} ms"
    at = datetime.fromtimestamp(ms / 1000, UTC)
    if to_ms >= 86_400_000:  # noqa: PLR2004 a day
        return at.strftime("%Y-%m-%d")
    return at.strftime("%Y-%m-%d %H:%M") if to_ms >= 60_000 else at.strftime("%Y-%m-%d %H:%M:%S")  # noqa: PLR2004  # a minute


def _rate(per_s: float | None) -> str:
    if per_s is None:
        return "at one moment"
    for limit, times, unit in ((1.0, 1, "s"), (1 / 60, 60, "min"), (1 / 3600, 3600, "h")):
        if per_s >= limit:
            return f"{per_s * times:,.3g} / {unit}" if per_s * times < 1000 else f"{per_s * times:,.0f} / {unit}"  # noqa: PLR2004  # in full from there on
    return f"{per_s * 86400:,.3g} / day"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    if value == int(value) and abs(value) < 10**15:
        return f"{int(value):,}"
    return f"{value:,.5g}" if 0.001 <= abs(value) < 10**9 else f"{value:.4g}"  # noqa: PLR2004 zeros to count


def _percent(share: float) -> str:
    if share in (0, 1):
        return f"{share * 100:.0f} %"
    return "<0.1 %" if share < 0.001 else f"{min(share, 0.999) * 100:.3g} %"  # noqa: PLR2004  # what is not shown as none, or as all


def _meter(share: float, kind: str = "") -> str:
    return f'<span class="meter {kind}"><i style="width:{max(share * 100, 0.5):.2f}%"></i></span>'


def _overview(streams: Sequence[dict[str, Any]]) -> str:
    rows = []
    for at, each in enumerate(streams):
        name = _text(each["stream"])
        if not each["entries"]:
            rows.append(f'<tr><th>{name}</th><td class="spark muted">empty</td><td>0</td><td></td><td></td></tr>')
            continue
        linked = f'<a href="#s{at}">{name}</a>' if at < _DETAILED else name
        chart = bars(each["rates"]["entries"], f"entries of {name} over time", kind="mini")
        rows.append(
            f'<tr><th>{linked}</th><td class="spark">{chart}</td><td>{each["entries"]:,}</td>'
            f"<td>{_size(each['size_bytes'])}</td><td>{_span(each['last_ms'] - each['first_ms'])}</td></tr>"
        )
    head = "<tr><th>stream</th><th>entries over its time</th><th>entries</th><th>size</th><th>span</th></tr>"
    table = f'<table class="overview"><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table>'
    return f'<section class="panel">{table}</section>'


def _stream(of: dict[str, Any], anchor: str) -> str:
    first, last = of["first_ms"], of["last_ms"]
    facts = [
        ("entries", f"{of['entries']:,}"),
        ("rate", _rate(of["entries_per_s"])),
        ("span", _span(last - first)),
        ("size", _size(of["size_bytes"])),
        ("an entry", _size(of["size_bytes"] / of["entries"])),
        ("fields", f"{len(of['fields']):,}"),
    ]
    tiles = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts)
    cards = "".join(_card(each) for each in of["fields"][:_CARDS])
    more = len(of["fields"]) - _CARDS
    rest = f"<p class=muted>and {number_of(more, 'field')} more, in the JSON report</p>" if more > 0 else ""
    if of["other_fields_values"]:
        said = number_of(of["other_fields_values"], "value is", "values are")
        rest += f"<p class=muted>{said} of fields that came when there were too many, and counted nowhere above.</p>"
    return f"""<section id="{anchor}"><h2>{_text(of["stream"])}</h2><dl class="tiles">{tiles}</dl>{_rates(of)}
<div class="pair">{_gaps(of)}{_sizes(of)}</div>{_shapes(of)}
<h3>Fields</h3><div class="cards">{cards}</div>{rest}</section>"""


def _rates(of: dict[str, Any]) -> str:
    rates = of["rates"]
    length, counts = rates["bucket_ms"], rates["entries"]
    titles = [
        f"{_time(rates['start_ms'] + at * length)}: {number_of(count, 'entry')}" for at, count in enumerate(counts)
    ]
    chart = bars(counts, "entries over time", kind="big", titles=titles)
    first, last = of["first_ms"], of["last_ms"]
    steps = [first + (last - first) * part // 4 for part in range(5)] if last > first else [first]
    axis = "".join(f"<span>{_time(at, to_ms=max((last - first) // 20, 1))}</span>" for at in steps)
    legend = f"<small>each bar {_span(length)}, highest {max(counts):,}</small>"
    return f"""<div class="panel"><h3>Entries over time {legend}</h3>
{chart}<div class="axis">{axis}</div></div>"""


def _gaps(of: dict[str, Any]) -> str:
    gaps = of["gaps"][:6]
    if not gaps:
        return (
            '<div class="panel"><h3>Longest silences</h3><p class=muted>none: all entries are of one moment</p></div>'
        )
    typical = (of["last_ms"] - of["first_ms"]) / max(of["entries"] - 1, 1)
    if gaps[0]["ms"] <= 2 * typical:
        what = f"none: entries come steadily, {_span(gaps[0]['ms'])} apart at most"
        return f'<div class="panel"><h3>Longest silences</h3><p class=muted>{what}</p></div>'
    rows = "".join(
        f"<li><b>{_span(gap['ms'])}</b>{_meter(gap['ms'] / gaps[0]['ms'], 'warm')}<small>from {_time(gap['from_ms'])}"
        f"</small></li>"
        for gap in gaps
    )
    mean = f"<small>on average {_span(typical)} between entries</small>"
    return f'<div class="panel"><h3>Longest silences {mean}</h3><ul class="rows">{rows}</ul></div>'


def _sizes(of: dict[str, Any]) -> str:
    sizes = of["sizes"]
    most = max(each["entries"] for each in sizes)
    rows = "".join(
        f"<li><b>{_size(each['from'])}–{_size(each['below'])}</b>{_meter(each['entries'] / most)}"
        f"<small>{_percent(each['entries'] / of['entries'])}</small></li>"
        for each in sizes[-12:]
    )
    title = "Sizes of entries <small>names and values</small>"
    return f'<div class="panel"><h3>{title}</h3><ul class="rows">{rows}</ul></div>'


def _shapes(of: dict[str, Any]) -> str:
    rows = []
    for each in of["shapes"][:8]:
        chips = "".join(f"<code>{_text(name)}</code>" for name in each["fields"][:_CHIPS])
        more = f"<small>and {len(each['fields']) - _CHIPS} more</small>" if len(each["fields"]) > _CHIPS else ""
        share = each["entries"] / of["entries"]
        rows.append(f"<li><b>{_percent(share)}</b>{_meter(share)}<span class=chips>{chips}{more}</span></li>")
    others = of["entries"] - sum(each["entries"] for each in of["shapes"][:8])
    if others > 0:
        rows.append(
            f"<li><b>{_percent(others / of['entries'])}</b>{_meter(others / of['entries'])}<small>others</small></li>"
        )
    title = "Shapes <small>which fields come together</small>"
    return f'<div class="panel"><h3>{title}</h3><ul class="rows shapes">{"".join(rows)}</ul></div>'


def _card(of: dict[str, Any]) -> str:
    name = _text(of["name"])
    numbers = of.get("numbers", {})
    as_numbers = bool(numbers) and of["type"] in ("int", "float")
    if as_numbers:
        chart = area(numbers["mean_over_time"], f"mean of {name} over time")
        wanted = ("min", "p5", "median", "mean", "p95", "max")
        stats = "".join(f"<div><dt>{key}</dt><dd>{_number(numbers[key])}</dd></div>" for key in wanted)
        body = f"{chart}<dl class=stats>{stats}</dl>"
    else:
        body = bars(of["values_over_time"], f"values of {name} over time") + _top(of)
    distinct = f"{'' if of['distinct_is_exact'] else '≈ '}{of['distinct']:,} different"
    length = of["length"]
    same = length["min"] == length["max"]
    lengths = f"{length['min']:,} B" if same else f"{length['min']:,}–{length['max']:,} B, mean {length['mean']:,.3g}"
    mixed = [f"{_percent(count / of['values'])} {kind}" for kind, count in of["types"].items() if kind != of["type"]]
    other = (
        f"<p class=note>also {_text(', '.join(mixed))}</p>" if mixed and as_numbers | (of["type"] != "float") else ""
    )
    kind = f'<span class="type {of["type"]}">{of["type"]}</span>'
    return f"""<article class="card"><div class=top><h4>{name}</h4>{kind}</div>
<p class=meta>{_meter(of["presence"])} in {_percent(of["presence"])} of entries</p>{body}{other}
<p class=meta>{distinct} · {lengths}</p></article>"""


def _top(of: dict[str, Any]) -> str:
    if not of["top"]:
        what = "each value is there once" if of["distinct"] >= of["values"] * 0.97 else "no value stands out"
        return f"<p class=note>{what}</p>"
    rows = "".join(
        f"<li><span class=value>{_text(each['value']) or '<i>empty</i>'}</span>{_meter(each['count'] / of['values'])}"
        f"<small>{_percent(each['count'] / of['values'])}</small></li>"
        for each in of["top"][:5]
    )
    return f'<ul class="rows tops">{rows}</ul>'
