"""`diskstream trim`: drop the oldest entries."""

from __future__ import annotations

from pathlib import Path

import click

from diskstream.cli.options import directory_option, existing_store, existing_stream, json_option, stream_argument
from diskstream.cli.output import write_json


@click.command("trim")
@stream_argument()
@click.option("--maxlen", type=click.IntRange(min=0), metavar="N", help="Keep the newest N.")
@click.option("--minid", metavar="ID", help="Drop what is older than this ID.")
@click.option("--approximate", is_flag=True, help="Only what can be dropped cheaply; never more than was asked.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="With --approximate: look at no more than N.")
@directory_option
@json_option
def command(
    *,
    stream: bytes,
    maxlen: int | None,
    minid: str | None,
    approximate: bool,
    limit: int | None,
    directory: Path,
    as_json: bool,
) -> None:
    """Drop the oldest entries and print how many were dropped."""
    if (maxlen is None) == (minid is None):
        raise click.UsageError("give one of --maxlen and --minid")
    with existing_store(directory) as store:
        found = existing_stream(store, stream)
        dropped = found.trim(maxlen=maxlen, minid=minid, approximate=approximate, limit=limit)
        store.sync()
    if as_json:
        write_json({"stream": stream, "trimmed": dropped})
    else:
        click.echo(str(dropped))
