"""`diskstream compact`: merge small segments and drop what is deleted."""

from __future__ import annotations

from pathlib import Path

import click
from rich.table import Table

from diskstream.cli.options import directory_option, existing_store, existing_stream, json_option, stream_argument
from diskstream.cli.output import console, plain, text, write_json


@click.command("compact")
@stream_argument(required=False)
@directory_option
@json_option
def command(stream: bytes | None, directory: Path, as_json: bool) -> None:
    """Merge small segments of STREAM, or of all streams, drop deleted entries for good, and print what was done."""
    with existing_store(directory) as store:
        if stream is None:
            reports = store.compact()
        else:
            report = existing_stream(store, stream).compact()
            reports = [] if report is None else [report]
    if as_json:
        for each in reports:
            write_json(each)
        return
    if not reports:
        click.echo("nothing to compact")
        return
    rows = [plain(each) for each in reports]
    table = Table(*(str(name).replace("_", " ") for name in rows[0]), box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(f"{value:,}" if isinstance(value, int) else text(str(value)) for value in row.values()))
    console().print(table)
