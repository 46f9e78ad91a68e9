"""`diskstream del`: delete entries."""

from __future__ import annotations

from pathlib import Path

import click

from diskstream.cli.options import directory_option, existing_store, existing_stream, json_option, stream_argument
from diskstream.cli.output import write_json


@click.command("del")
@stream_argument()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@directory_option
@json_option
def command(stream: bytes, ids: tuple[str, ...], directory: Path, as_json: bool) -> None:
    """Delete the entries with these IDs and print how many there were."""
    with existing_store(directory) as store:
        deleted = existing_stream(store, stream).delete(*ids)
        store.sync()
    if as_json:
        write_json({"stream": stream, "deleted": deleted})
    else:
        click.echo(str(deleted))
