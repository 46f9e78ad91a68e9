"""`diskstream count`: how many entries a range has."""

from __future__ import annotations

from pathlib import Path

import click

from diskstream.cli.moments import check_order, end_bound, start_bound
from diskstream.cli.options import directory_option, existing_store, existing_stream, json_option, stream_argument
from diskstream.cli.output import write_json


@click.command("count")
@stream_argument()
@click.argument("start", default="-", type=start_bound)
@click.argument("end", default="+", type=end_bound)
@directory_option
@json_option
def command(*, stream: bytes, start: str, end: str, directory: Path, as_json: bool) -> None:
    """Print how many entries there are from START to END.

    Each is an ID, `-`, `+`, an ID after `(`, which leaves it out, or a time such as 2026-01-31T12:00Z. The entries are
    not read: it takes as long for a hundred million as for a hundred.
    """
    check_order(start, end)
    with existing_store(directory, read_only=True) as store:
        found = existing_stream(store, stream).count(start, end)
    if as_json:
        write_json({"stream": stream, "start": start, "end": end, "count": found})
    else:
        click.echo(str(found))
