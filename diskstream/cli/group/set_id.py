"""`diskstream group set-id`: move a group."""

from __future__ import annotations

from pathlib import Path

import click

from diskstream.cli.group.placed import entries_read_option, write_place
from diskstream.cli.moments import place_of_group
from diskstream.cli.options import (
    directory_option,
    existing_group,
    existing_store,
    group_argument,
    json_option,
    stream_argument,
)


@click.command("set-id")
@stream_argument()
@group_argument
@click.argument("last_id", metavar="ID|TIME", type=place_of_group)
@entries_read_option
@directory_option
@json_option
def command(
    *, stream: bytes, group: bytes, last_id: str, entries_read: int | None, directory: Path, as_json: bool
) -> None:
    """Move a group: what is after ID is new to it. Print that ID.

    With a TIME, what is from then on is new.
    ID may be `-` (everything is new), `$` (nothing that is there now) or `+` (nothing ever). What is pending stays so.
    """
    with existing_store(directory) as store:
        found = existing_group(store, stream, group)
        found.set_id(last_id, entries_read=entries_read)
        store.sync()
        write_place(found, as_json=as_json)
