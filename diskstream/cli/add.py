"""`diskstream add`: append an entry."""

from __future__ import annotations

from pathlib import Path

import click

import diskstream
from diskstream import IDOrderError
from diskstream.cli.failure import Failure
from diskstream.cli.moments import new_id
from diskstream.cli.options import FSYNC, as_bytes, directory_option, json_option, stream_argument
from diskstream.cli.output import text, write_json


@click.command("add")
@stream_argument()
@click.argument("fields", metavar="NAME=VALUE...", type=as_bytes, nargs=-1, required=True)
@click.option(
    "--id", "entry_id", default="*", show_default=True, type=new_id, metavar="ID", help="Its ID: whole, ms-* or *."
)
@click.option("--fsync", type=FSYNC, default="always", show_default=True, help="When it has to be on disk.")
@directory_option
@json_option
def command(
    *, stream: bytes, fields: tuple[bytes, ...], entry_id: str, fsync: str, directory: Path, as_json: bool
) -> None:
    """Append an entry and print its ID. The store and the stream are made where they are not there."""
    pairs = []
    for field in fields:
        name, equals, value = field.partition(b"=")
        if not equals:
            raise click.UsageError(f"{text(field)} is not NAME=VALUE")
        pairs.append((name, value))
    with diskstream.open(directory, fsync=fsync) as store:
        found = store.stream(stream)
        try:
            added = found.add(pairs, id=entry_id)
        except IDOrderError:
            last = found.summary().last_generated_id
            problem = f"{entry_id} is not above {last}, the last ID of stream {text(stream)} in {directory}"
            raise Failure(problem, hint="IDs only rise: without --id the store chooses the next one") from None
    if as_json:
        write_json({"id": added})
    else:
        click.echo(str(added))
