"""`diskstream info`: everything that is known of a stream."""

from __future__ import annotations

from pathlib import Path

import click
from rich.table import Table

from diskstream.cli.options import directory_option, existing_store, existing_stream, json_option, stream_argument
from diskstream.cli.output import console, plain, write_json


@click.command("info")
@stream_argument()
@directory_option
@json_option
def command(stream: bytes, directory: Path, as_json: bool) -> None:
    """Show the length of a stream, its IDs, counters and files."""
    with existing_store(directory, read_only=True) as store:
        info = existing_stream(store, stream).info()
    facts = {"stream": stream, **plain(info)}
    if as_json:
        write_json(facts)
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in facts.items():
        table.add_row(name.replace("_", " "), _shown(value))
    console().print(table, markup=False)


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
