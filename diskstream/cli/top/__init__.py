"""`diskstream top`: what a store is doing, live."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
from rich.live import Live

import diskstream
from diskstream.cli.amounts import SPAN
from diskstream.cli.completing import complete_streams
from diskstream.cli.options import as_bytes, directory_option, json_option
from diskstream.cli.output import console, write_json
from diskstream.cli.stopping import check_reader, stopping
from diskstream.cli.top.pulse import Pulse, beats
from diskstream.cli.top.screen import ORDERS, screen
from diskstream.options import streams_within_descriptors

_LEAST_MS, _MOST_MS = 50, 86_400_000
_ROWS = 15


@click.command("top")
@click.argument("pattern", type=as_bytes, required=False, shell_complete=complete_streams)
@click.option("-i", "--interval", type=SPAN, default="1s", show_default=True, metavar="SPAN", help="Between two looks.")
@click.option("-n", "--count", type=click.IntRange(min=1), metavar="N", help="End after so many looks.")
@click.option("--once", is_flag=True, help="One look, over one interval.")
@click.option("--sort", type=click.Choice(list(ORDERS)), default="in", show_default=True, help="What comes first.")
@click.option("--rows", type=click.IntRange(1, 1000), default=_ROWS, show_default=True, help="Of each table, at most.")
@directory_option
@json_option
def command(
    *,
    pattern: bytes | None,
    interval: int,
    count: int | None,
    once: bool,
    sort: str,
    rows: int,
    directory: Path,
    as_json: bool,
) -> None:
    """Show rates, sizes, groups and slow consumers of all streams, or of those that match PATTERN, until SIGINT.

    The store is only looked at: nothing in it changes, and nobody waits. What counts as unflushed is what is not known
    to be on disk yet. Sizes are those of frames as they were written, also where they are packed or in object storage
    by now: `ls` has the bytes that a stream takes on this disk. JSON is one object a look.
    """
    if not _LEAST_MS <= interval <= _MOST_MS:
        raise click.BadParameter(f"an interval has at least {_LEAST_MS} ms, and a day at most", param_hint="--interval")
    if once and count is not None:
        raise click.UsageError("give one of --count and --once")
    looks = 1 if once else count
    most = streams_within_descriptors()
    with stopping(), diskstream.open(directory, read_only=True, create=False, max_open_streams=most) as store:
        pulses = beats(store, pattern, interval / 1000, looks)
        if as_json:
            for pulse in pulses:
                write_json(pulse.facts())
        elif console().is_interactive and not once:
            _live(pulses, sort, rows)
        else:
            for pulse in pulses:
                console().print(screen(pulse, sort=sort, rows=rows))
                check_reader()


def _live(pulses: Iterator[Pulse], sort: str, rows: int) -> None:
    with Live(console=console(), auto_refresh=False, transient=False) as live:
        for pulse in pulses:
            live.update(screen(pulse, sort=sort, rows=rows), refresh=True)
