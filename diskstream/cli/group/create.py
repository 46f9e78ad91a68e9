"""`diskstream group create`: make a group."""

from __future__ import annotations

from pathlib import Path

import click

import diskstream
from diskstream.cli.failure import Failure
from diskstream.cli.group.placed import entries_read_option, write_place
from diskstream.cli.moments import start_of_group
from diskstream.cli.options import directory_option, existing_store, group_argument, json_option, stream_argument
from diskstream.cli.output import text


@click.command("create")
@stream_argument()
@group_argument
@click.option(
    "--start",
    default="$",
    show_default=True,
    type=start_of_group,
    metavar="ID|TIME",
    help="What is after this ID, or from this time on, is new; 0 for all.",
)
@click.option("--mkstream", is_flag=True, help="Make the stream where it is not there.")
@entries_read_option
@directory_option
@json_option
def command(
    *,
    stream: bytes,
    group: bytes,
    start: str,
    mkstream: bool,
    entries_read: int | None,
    directory: Path,
    as_json: bool,
) -> None:
    """Make a consumer group and print the ID behind which it begins."""
    with existing_store(directory) as store:
        try:
            made = store.stream(stream).create_group(group, start, mkstream=mkstream, entries_read=entries_read)
        except diskstream.NoSuchStreamError as error:
            raise Failure(f"there is no stream {text(stream)} in {store.path}", hint="--mkstream makes it") from error
        except diskstream.GroupExistsError as error:
            raise Failure(
                f"stream {text(stream)} has a group {text(group)} already",
                hint="diskstream group set-id moves it, diskstream group destroy removes it",
            ) from error
        store.sync()
        write_place(made, as_json=as_json)
