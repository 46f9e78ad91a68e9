"""`diskstream ls`: the streams of a store."""

from __future__ import annotations

from pathlib import Path

import click
from rich.table import Table

from diskstream.cli.options import as_bytes, directory_option, existing_store, json_option
from diskstream.cli.output import console, text, write_json


@click.command("ls")
@click.argument("pattern", type=as_bytes, required=False)
@directory_option
@json_option
def command(pattern: bytes | None, directory: Path, as_json: bool) -> None:
    """List the streams, all or those whose names match PATTERN (with * ? and [])."""
    table = Table("stream", box=None, pad_edge=False)
    for heading in ("entries", "first ID", "last ID"):
        table.add_column(heading, justify="right")
    with existing_store(directory, read_only=True) as store:
        for name in store.streams(pattern):
            info = store.stream(name).info()
            first = info.first_entry.id if info.first_entry is not None else None
            if as_json:
                write_json(
                    {"stream": name, "length": info.length, "first_id": first, "last_id": info.last_generated_id}
                )
            else:
                table.add_row(text(name), f"{info.length:,}", str(first or ""), str(info.last_generated_id))
    if not as_json and table.row_count:
        console().print(table)
