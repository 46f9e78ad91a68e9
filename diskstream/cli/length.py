"""`diskstream len`: how many entries a stream has."""

from __future__ import annotations

from pathlib import Path

import click

from diskstream.cli.options import (
    directory_option,
    existing_store,
    existing_stream,
    json_option,
    stream_argument,
    whole,
)
from diskstream.cli.output import write_json


@click.command("len")
@stream_argument()
@directory_option
@json_option
def command(stream: bytes, directory: Path, as_json: bool) -> None:
    """Print the number of entries."""
    with existing_store(directory, read_only=True) as store:
        length = len(whole(existing_stream(store, stream)))
    if as_json:
        write_json({"stream": stream, "length": length})
    else:
        click.echo(str(length))
