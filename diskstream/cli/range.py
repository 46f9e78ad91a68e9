"""`diskstream range`: entries of a stream."""

from __future__ import annotations

from pathlib import Path

import click

from diskstream.cli.moments import check_order, end_bound, start_bound
from diskstream.cli.options import directory_option, existing_store, existing_stream, json_option, stream_argument
from diskstream.cli.output import write_entries


@click.command("range")
@stream_argument()
@click.argument("start", default="-", type=start_bound)
@click.argument("end", default="+", type=end_bound)
@click.option("-n", "--count", type=click.IntRange(0, 2**63 - 1), help="At most so many.")
@click.option("-r", "--reverse", is_flag=True, help="The newest first; START is still the lower bound.")
@directory_option
@json_option
def command(
    *, stream: bytes, start: str, end: str, count: int | None, reverse: bool, directory: Path, as_json: bool
) -> None:
    """Print the entries from START to END.

    Each is an ID, `-`, `+`, an ID after `(`, which leaves it out, or a time such as 2026-01-31T12:00Z.
    """
    check_order(start, end)
    with existing_store(directory, read_only=True) as store:
        found = existing_stream(store, stream)
        entries = found.revrange(end, start, count) if reverse else found.range(start, end, count)
        write_entries(entries, as_json=as_json)
