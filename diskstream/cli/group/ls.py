"""`diskstream group ls`: the groups of a stream, or of all."""

from __future__ import annotations

from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

import diskstream
from diskstream.cli.each_stream import EachStream
from diskstream.cli.options import (
    directory_option,
    existing_store,
    json_option,
    stream_argument,
    whole,
)
from diskstream.cli.output import attributes, print_table, text, write_json


@click.command("ls")
@stream_argument(required=False)
@directory_option
@json_option
@click.pass_context
def command(ctx: click.Context, *, stream: bytes | None, directory: Path, as_json: bool) -> None:
    """List the groups of STREAM, or of all streams.

    `lag` is what is still to be delivered, `refused` what consumers gave back; where a number cannot be known there is
    none.
    """
    table = Table("stream", "group", box=None, pad_edge=False)
    for heading in ("consumers", "pending", "refused", "last delivered ID", "read", "lag"):
        table.add_column(heading, justify="right")
    with existing_store(directory, read_only=True) as store:
        each = EachStream(store, stream, on_failed=write_json if as_json else None)
        for found in each.streams:
            groups: list[diskstream.GroupInfo] = []
            with each.doing(found):
                groups = whole(found).groups()
            for info in groups:
                if as_json:
                    write_json({"stream": found.name, **attributes(info, name="group")})
                else:
                    table.add_row(Text(text(found.name)), *_row(info))
    if not as_json and table.row_count:
        print_table(table)
    ctx.exit(1 if each.failed else 0)


def _row(info: diskstream.GroupInfo) -> list[Text | str]:
    read, lag = ("" if known is None else f"{known:,}" for known in (info.entries_read, info.lag))
    counts = (f"{info.consumers:,}", f"{info.pending:,}", f"{info.refused:,}")
    return [Text(text(info.name)), *counts, str(info.last_delivered_id), read, lag]
