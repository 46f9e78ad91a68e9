"""`diskstream consumer ls`: the consumers of a group."""

from __future__ import annotations

from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from diskstream.cli.duration import duration
from diskstream.cli.options import (
    directory_option,
    existing_group,
    existing_store,
    group_argument,
    json_option,
    stream_argument,
)
from diskstream.cli.output import attributes, print_table, text, write_json


@click.command("ls")
@stream_argument()
@group_argument
@directory_option
@json_option
def command(*, stream: bytes, group: bytes, directory: Path, as_json: bool) -> None:
    """List the consumers of a group.

    `pending` is what each was given and has not acknowledged, `idle` since when it last asked for entries, `inactive`
    since when it last was given one.
    """
    table = Table("consumer", box=None, pad_edge=False)
    for heading in ("pending", "idle", "inactive"):
        table.add_column(heading, justify="right")
    with existing_store(directory, read_only=True) as store:
        consumers = existing_group(store, stream, group).consumers()
    for info in consumers:
        if as_json:
            write_json({"stream": stream, "group": group, **attributes(info, name="consumer")})
        else:
            inactive = "never active" if info.inactive_ms is None else duration(info.inactive_ms)
            table.add_row(Text(text(info.name)), f"{info.pending:,}", duration(info.idle_ms), inactive)
    if not as_json and table.row_count:
        print_table(table)
