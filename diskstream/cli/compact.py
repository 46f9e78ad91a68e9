"""`diskstream compact`: merge small segments and drop what is deleted."""

from __future__ import annotations

from pathlib import Path

import click
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from diskstream.cli.each_stream import EachStream
from diskstream.cli.options import directory_option, existing_store, json_option, stream_argument
from diskstream.cli.output import attributes, print_table, text, write_json
from diskstream.cli.progress import entries_progress


@click.command("compact")
@stream_argument(required=False)
@directory_option
@json_option
@click.pass_context
def command(ctx: click.Context, *, stream: bytes | None, directory: Path, as_json: bool) -> None:
    """Merge small segments of STREAM, or of all streams, drop deleted entries for good, and print what was done.

    With --json a stream that could not be done has an object with `stream`, `error` and `hint`.
    """
    table = Table("stream", box=None, pad_edge=False)
    for heading in ("segments", "bytes", "entries dropped"):
        table.add_column(heading, justify="right")
    with existing_store(directory) as store:
        each = EachStream(store, stream, on_failed=write_json if as_json else None)
        try:
            for found in each.streams:
                name, reports = found.name, []
                with each.doing(found), entries_progress(store, each.doing_what("compacting", found), name) as progress:
                    reports = store.compact(name, progress=progress)
                for report in reports:
                    if as_json:
                        write_json({"stream": name, **attributes(report)})
                    table.add_row(
                        Text(text(name)),
                        f"{report.segments_before:,} to {report.segments_after:,}",
                        f"{decimal(report.bytes_before)} to {decimal(report.bytes_after)}",
                        f"{report.entries_dropped:,}",
                    )
        finally:  # also where the disk is full
            if not as_json and table.row_count:
                print_table(table)
    ctx.exit(1 if each.failed else 0)
