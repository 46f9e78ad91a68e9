"""`diskstream del`: delete entries."""

from __future__ import annotations

from pathlib import Path

import click

from diskstream.cli.consent import ask, consent_options
from diskstream.cli.options import directory_option, existing_store, existing_stream, json_option, stream_argument
from diskstream.cli.output import text, write_json
from diskstream.ids import parse_id


@click.command("del")
@stream_argument()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@consent_options
@directory_option
@json_option
def command(stream: bytes, ids: tuple[str, ...], *, dry_run: bool, force: bool, directory: Path, as_json: bool) -> None:
    """Delete the entries with these IDs and print how many there were."""
    with existing_store(directory, read_only=dry_run) as store:
        found = existing_stream(store, stream)
        wanted = dict.fromkeys(parse_id(given) for given in ids)
        deleted = sum(found.get(each) is not None for each in wanted)
        if not dry_run and deleted:
            ask(f"Delete {deleted:,} {_noun(deleted)} of stream {text(stream)}?", force=force)
            deleted = found.delete(*wanted)
            store.sync()
    if as_json:
        write_json({"stream": stream, "deleted": deleted, "dry_run": dry_run})
    else:
        click.echo(f"would delete {deleted:,} {_noun(deleted)}" if dry_run else str(deleted))


def _noun(count: int) -> str:
    return "entry" if count == 1 else "entries"
