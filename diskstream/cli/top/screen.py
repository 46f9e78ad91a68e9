"""What `diskstream top` shows on a terminal."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from rich.console import Group as Together
from rich.console import RenderableType
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from diskstream.cli.duration import duration
from diskstream.cli.output import text
from diskstream.cli.top.pulse import GroupPulse, Pulse, StreamPulse
from diskstream.plurals import number_of

ORDERS: Final[dict[str, Callable[[StreamPulse], tuple[float, ...]]]] = {
    "in": lambda each: (-(each.entries_per_s or 0), -each.length),
    "out": lambda each: (-(each.delivered_per_s or 0), -each.length),
    "size": lambda each: (-each.size_bytes,),
    "length": lambda each: (-each.length,),
    "lag": lambda each: (-(each.lag or 0), -each.pending),
    "pending": lambda each: (-each.pending,),
    "name": lambda _: (),
}


def screen(pulse: Pulse, *, sort: str, rows: int) -> RenderableType:
    """The tables of one moment; streams that are amiss come first, whatever the order."""
    shown: list[RenderableType] = [_head(pulse), _streams(pulse, sort, rows)]
    if pulse.groups:
        shown += [Text(), _groups(pulse, rows)]
    if pulse.consumers:
        shown += [Text(), _consumers(pulse, rows)]
    faults = [each for each in pulse.streams if each.fault]
    shown += [Text(f"{text(each.stream)}: {each.fault}", style="red") for each in faults[:rows]]
    return Together(*shown)


def _head(pulse: Pulse) -> Text:
    added = sum(each.entries_per_s or 0 for each in pulse.streams)
    size = sum(each.bytes_per_s or 0 for each in pulse.streams)
    out = sum(each.delivered_per_s or 0 for each in pulse.streams)
    moment = datetime.fromtimestamp(pulse.time_ms / 1000, UTC).strftime("%H:%M:%S")
    total = sum(each.size_bytes for each in pulse.streams)
    return Text(
        f"{pulse.store}  {moment} UTC  {number_of(len(pulse.streams), 'stream')}, {decimal(total)} of frames  "
        f"in {added:,.0f}/s, {decimal(round(size))}/s  out {out:,.0f}/s",
        style="bold",
        no_wrap=True,
    )


def _streams(pulse: Pulse, sort: str, rows: int) -> Table:
    table = _table("stream", "in/s", "bytes/s", "out/s", "entries", "frames", "segs", "groups", "lag", "pending")
    table.add_column("unflushed", justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True)
    order = ORDERS[sort]
    for each in sorted(pulse.streams, key=lambda one: (one.state == "ok", *order(one), one.stream))[:rows]:
        table.add_row(
            Text(text(each.stream)),
            _rate(each.entries_per_s),
            "" if each.bytes_per_s is None else decimal(round(each.bytes_per_s)),
            _rate(each.delivered_per_s),
            f"{each.length:,}",
            decimal(each.size_bytes),
            f"{each.segments:,}",
            f"{each.groups:,}",
            _lag(each),
            f"{each.pending:,}",
            "?" if each.unflushed_bytes is None else decimal(each.unflushed_bytes),
            Text(each.state, style="" if each.state == "ok" else "bold red"),
        )
    return table


def _groups(pulse: Pulse, rows: int) -> Table:
    table = _table("stream", "out/s", "lag", "pending", "consumers")
    table.columns[0].header = "group"
    for each in sorted(pulse.groups, key=lambda one: (-(one.lag or 0), -one.pending, one.stream, one.group))[:rows]:
        table.add_row(
            Text(f"{text(each.stream)} {text(each.group)}"),
            _rate(each.delivered_per_s),
            _lag(each),
            f"{each.pending:,}",
            f"{each.consumers:,}",
        )
    return table


def _consumers(pulse: Pulse, rows: int) -> Table:
    table = _table("slowest consumers", "pending", "idle", "given nothing for")
    for each in pulse.consumers[:rows]:
        table.add_row(
            Text(f"{text(each.stream)} {text(each.group)} {text(each.consumer)}"),
            f"{each.pending:,}",
            duration(each.idle_ms),
            "" if each.inactive_ms is None else duration(each.inactive_ms),
        )
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column(first, no_wrap=True, overflow="ellipsis", min_width=12)
    for heading in others:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _rate(per_s: float | None) -> str:
    return "" if per_s is None else f"{per_s:,.0f}"


def _lag(each: StreamPulse | GroupPulse) -> str:
    has_groups = not isinstance(each, StreamPulse) or each.groups
    return f"{each.lag:,}" if each.lag is not None else "?" if has_groups else ""
