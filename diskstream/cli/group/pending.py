"""`diskstream group pending`: what was delivered and is not acknowledged."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import click
from rich.table import Table
from rich.text import Text

import diskstream
from diskstream.cli.amounts import IDLE
from diskstream.cli.duration import duration
from diskstream.cli.moments import check_order, end_bound, start_bound
from diskstream.cli.options import (
    as_bytes,
    directory_option,
    existing_group,
    existing_store,
    group_argument,
    json_option,
    stream_argument,
)
from diskstream.cli.output import attributes, print_table, text, write_json

_AT_ONCE: Final = 1000


@click.command("pending")
@stream_argument()
@group_argument
@click.argument("start", type=start_bound, default="-")
@click.argument("end", type=end_bound, default="+")
@click.option("-c", "--consumer", type=as_bytes, metavar="NAME", help="Only what this consumer has.")
@click.option("--idle", type=IDLE, metavar="MS|SPAN", help="Only what was delivered so long ago: 60000, 90s, 1h.")
@click.option("-n", "--count", type=click.IntRange(0, sys.maxsize), help="At most so many.")
@click.option("--summary", is_flag=True, help="How many there are, and who has them.")
@directory_option
@json_option
def command(
    *,
    stream: bytes,
    group: bytes,
    start: str,
    end: str,
    consumer: bytes | None,
    idle: int | None,
    count: int | None,
    summary: bool,
    directory: Path,
    as_json: bool,
) -> None:
    """List what was delivered and is not acknowledged, and who has it.

    START and END are as for `diskstream range`. An entry that was given back has no consumer.
    """
    if summary and ((start, end) != ("-", "+") or any(given is not None for given in (consumer, idle, count))):
        raise click.UsageError("--summary is of all that is pending: give no range and no other option with it")
    check_order(start, end)
    with existing_store(directory, read_only=True) as store:
        found = existing_group(store, stream, group)
        if summary:
            _write_summary(found.pending(), as_json=as_json)
            return
        entries = islice(_pages(found, start, end, consumer, idle), count)
        if as_json:
            for entry in entries:
                write_json(entry)
        else:
            _write_tables(entries)


def _pages(
    group: diskstream.Group, start: str, end: str, consumer: bytes | None, idle: int | None
) -> Iterator[diskstream.PendingEntry]:
    """Page by page: the list may be larger than memory, and the log is not held up for long."""
    while page := group.pending_range(start, end, _AT_ONCE, consumer=consumer, idle_ms=idle):
        yield from page
        if len(page) < _AT_ONCE:
            return
        start = f"({page[-1].id}"


def _write_tables(entries: Iterator[diskstream.PendingEntry]) -> None:
    """Rows in columns that IDs and most names fit; a page has wider ones where it must. A table of rich's would do the
    same, but takes a fifth of a millisecond for each row, and there may be millions."""
    heads = ("ID", "consumer", "idle", "deliveries")
    least = (20, 16, 9, 10)
    rows = [heads]
    while page := list(islice(entries, _AT_ONCE)):
        for entry in page:
            is_held = entry.idle_ms >= 0
            name, idle = (text(entry.consumer), duration(entry.idle_ms)) if is_held else ("", "")
            rows.append((str(entry.id), name, idle, f"{entry.deliveries:,}"))
        widths = [max(low, *map(len, column)) for low, column in zip(least, zip(*rows, strict=True), strict=True)]
        lines = (
            f"{row[0]:{widths[0]}}  {row[1]:{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]:>{widths[3]}}" for row in rows
        )
        click.echo("\n".join(lines))
        rows = []


def _write_summary(pending: diskstream.PendingSummary, *, as_json: bool) -> None:
    if as_json:
        holders = [{"consumer": name, "pending": held} for name, held in pending.consumers.items()]
        write_json({**attributes(pending), "consumers": holders})
        return
    click.echo(f"{pending.total:,} pending" + (f", from {pending.first} to {pending.last}" if pending.total else ""))
    table = Table("consumer", box=None, pad_edge=False)
    table.add_column("pending", justify="right")
    for name, held in pending.consumers.items():
        table.add_row(Text(text(name)), f"{held:,}")
    if table.row_count:
        print_table(table)
