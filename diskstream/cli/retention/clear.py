"""`diskstream retention clear`: keep everything again."""

from __future__ import annotations

from pathlib import Path

import click

import diskstream
from diskstream.cli.options import directory_option, existing_stream, json_option, stream_argument
from diskstream.cli.output import text, write_json


@click.command("clear")
@stream_argument()
@directory_option
@json_option
def command(*, stream: bytes, directory: Path, as_json: bool) -> None:
    """Take the rule of STREAM away: nothing more is removed, by any process, once this has returned."""
    # No background of its own: nothing goes by the rule before it is cleared.
    with diskstream.open(directory, create=False, retention_interval_ms=0) as store:
        cleared = existing_stream(store, stream).clear_retention()
    if as_json:
        write_json({"stream": stream, "cleared": cleared})
    else:
        click.echo(f"{text(stream)}: everything is kept" + ("" if cleared else ", as before"))
