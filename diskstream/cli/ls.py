"""`diskstream ls`: the streams of a store."""

from __future__ import annotations

from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

import diskstream
from diskstream.cli.completing import complete_streams
from diskstream.cli.each_stream import OF_ONE, tell_failed
from diskstream.cli.options import as_bytes, directory_option, existing_store, json_option
from diskstream.cli.output import print_table, text, write_json


@click.command("ls")
@click.argument("pattern", type=as_bytes, required=False, shell_complete=complete_streams)
@directory_option
@json_option
@click.pass_context
def command(ctx: click.Context, *, pattern: bytes | None, directory: Path, as_json: bool) -> None:
    """List the streams, all or those whose names match PATTERN (with * ? and [])."""
    table = Table("stream", box=None, pad_edge=False)
    for heading in ("entries", "first ID", "last ID", "bytes"):
        table.add_column(heading, justify="right")
    damaged = 0
    with existing_store(directory, read_only=True) as store:
        for name in store.streams(pattern):
            try:
                info = store.stream(name).info()
            except diskstream.NoSuchStreamError:
                continue  # it was removed since the names were listed
            except OF_ONE as error:
                damaged += 1
                tell_failed(name, error, as_json=as_json)
                continue
            first = info.recorded_first_entry_id if info.length else None
            last = info.last_generated_id
            if as_json:
                facts = {"stream": name, "length": info.length, "first_id": first, "last_id": last}
                write_json(facts | {"size_bytes": info.size_bytes})
            else:
                table.add_row(Text(text(name)), f"{info.length:,}", str(first or ""), str(last), f"{info.size_bytes:,}")
    if not as_json and table.row_count:
        print_table(table)
    ctx.exit(1 if damaged else 0)
