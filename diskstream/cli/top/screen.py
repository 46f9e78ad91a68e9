"""What `diskstream top` shows on a terminal."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.console import Group as Together
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

# Columns of streams, in the order in which they go where a terminal is too narrow for all of them.
_GO_FIRST: Final = ("segs", "groups", "unflushed", "frames", "bytes/s", "out/s")
_LEAST_NAME: Final = 12
_APART: Final = 2

_STYLES: Final = {"damaged": "bold red", "poisoned": "bold red", "unreadable": "bold red"}


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


def _streams(pulse: Pulse, sort: str, rows: int) -> _Fitted:
    order = ORDERS[sort]
    shown = sorted(pulse.streams, key=lambda one: (one.state == "ok", *order(one), one.stream))[:rows]
    columns = {
        "in/s": [_rate(each.entries_per_s) for each in shown],
        "bytes/s": ["" if each.bytes_per_s is None else decimal(round(each.bytes_per_s)) for each in shown],
        "out/s": [_rate(each.delivered_per_s) for each in shown],
        "entries": [f"{each.length:,}" for each in shown],
        "frames": [decimal(each.size_bytes) for each in shown],
        "segs": [f"{each.segments:,}" for each in shown],
        "groups": [f"{each.groups:,}" for each in shown],
        "lag": [_lag(each) for each in shown],
        "pending": [f"{each.pending:,}" for each in shown],
        "unflushed": ["?" if each.unflushed_bytes is None else decimal(each.unflushed_bytes) for each in shown],
        "state": [each.state for each in shown],
    }
    return _Fitted("stream", [text(each.stream) for each in shown], columns)


def _groups(pulse: Pulse, rows: int) -> _Fitted:
    shown = sorted(pulse.groups, key=lambda one: (-(one.lag or 0), -one.pending, one.stream, one.group))[:rows]
    columns = {
        "out/s": [_rate(each.delivered_per_s) for each in shown],
        "lag": [_lag(each) for each in shown],
        "pending": [f"{each.pending:,}" for each in shown],
        "consumers": [f"{each.consumers:,}" for each in shown],
    }
    return _Fitted("group", [f"{text(each.stream)} {text(each.group)}" for each in shown], columns)


def _consumers(pulse: Pulse, rows: int) -> _Fitted:
    shown = pulse.consumers[:rows]
    columns = {
        "pending": [f"{each.pending:,}" for each in shown],
        "idle": [duration(each.idle_ms) for each in shown],
        "given nothing for": ["" if each.inactive_ms is None else duration(each.inactive_ms) for each in shown],
    }
    names = [f"{text(each.stream)} {text(each.group)} {text(each.consumer)}" for each in shown]
    return _Fitted("slowest consumers", names, columns)


class _Fitted:
    """A table in which no number is cut: where there is little room names are, and columns that matter least go."""

    def __init__(self, heading: str, names: list[str], columns: dict[str, list[str]]) -> None:
        self._heading = heading
        self._names = names
        self._columns = columns

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        columns = dict(self._columns)
        for heading in _GO_FIRST:
            if options.max_width - _taken(columns) >= _LEAST_NAME:
                break
            columns.pop(heading, None)
        names = max(map(cell_len, (self._heading, *self._names)))
        room = max(_LEAST_NAME, min(names, options.max_width - _taken(columns)))
        table = Table(box=None, pad_edge=False, header_style="dim")
        table.add_column(self._heading, no_wrap=True, overflow="ellipsis", width=room)
        for heading in columns:
            table.add_column(heading, justify="left" if heading == "state" else "right", no_wrap=True)
        for name, *cells in zip(self._names, *columns.values(), strict=True):
            table.add_row(Text(name), *(Text(cell, style=_STYLES.get(cell, "")) for cell in cells))
        yield table


def _taken(columns: dict[str, list[str]]) -> int:
    """The width of columns, with what keeps each apart from the one before it."""
    return sum(_APART + max(map(cell_len, (heading, *cells))) for heading, cells in columns.items())


def _rate(per_s: float | None) -> str:
    return "" if per_s is None else f"{per_s:,.0f}"


def _lag(each: StreamPulse | GroupPulse) -> str:
    has_groups = not isinstance(each, StreamPulse) or each.groups
    return f"{each.lag:,}" if each.lag is not None else "?" if has_groups else ""
