"""`diskstream del`: delete entries."""

from __future__ import annotations

from pathlib import Path

import click

from diskstream.cli.consent import ask, consent_options
from diskstream.cli.moments import known_id
from diskstream.cli.options import (
    directory_option,
    existing_store,
    existing_stream,
    json_option,
    ref_option,
    stream_argument,
)
from diskstream.cli.output import text, write_json
from diskstream.ids import parse_id
from diskstream.plurals import number_of

_DELETED, _SPARED = 1, 2  # what `delete_entries` says of an ID


@click.command("del")
@stream_argument()
@click.argument("ids", metavar="ID...", type=known_id, nargs=-1, required=True)
@ref_option
@consent_options
@directory_option
@json_option
def command(
    stream: bytes, ids: tuple[str, ...], *, ref: str, dry_run: bool, force: bool, directory: Path, as_json: bool
) -> None:
    """Delete the entries with these IDs and print how many there were."""
    spared, most = 0, "at most " if ref == "ACKED" else ""
    with existing_store(directory, read_only=dry_run) as store:
        found = existing_stream(store, stream)
        wanted = dict.fromkeys(parse_id(given) for given in ids)
        deleted = sum(found.get(each) is not None for each in wanted)
        if not dry_run and deleted:
            ask(f"Delete {most}{number_of(deleted, 'entry')} of stream {text(stream)}?", force=force)
            done = found.delete_entries(*wanted, ref=ref)
            deleted, spared = done.count(_DELETED), done.count(_SPARED)
            store.sync()
    if as_json:
        write_json({"stream": stream, "deleted": deleted, "spared": spared, "dry_run": dry_run})
        return
    click.echo(f"would delete {most}{number_of(deleted, 'entry')}" if dry_run else str(deleted))
    if spared:
        click.echo(f"{number_of(spared, 'entry')} spared: not acknowledged yet by every group", err=True)
