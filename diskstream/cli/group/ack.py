"""`diskstream group ack`: acknowledge pending entries."""

from __future__ import annotations

from pathlib import Path

import click

from diskstream.cli.consent import ask, consent_options
from diskstream.cli.moments import known_id
from diskstream.cli.options import (
    directory_option,
    existing_group,
    existing_store,
    group_argument,
    json_option,
    stream_argument,
)
from diskstream.cli.output import text, write_json
from diskstream.ids import parse_id
from diskstream.plurals import number_of


@click.command("ack")
@stream_argument()
@group_argument
@click.argument("ids", metavar="ID...", type=known_id, nargs=-1, required=True)
@consent_options
@directory_option
@json_option
def command(
    *, stream: bytes, group: bytes, ids: tuple[str, ...], dry_run: bool, force: bool, directory: Path, as_json: bool
) -> None:
    """Acknowledge pending entries. Print how many there were.

    They are done with then, whoever has them: the group gives them to nobody again. The entries themselves stay in the
    stream. What somebody is still to do goes to another consumer: `diskstream group claim`.
    """
    with existing_store(directory, read_only=dry_run) as store:
        found = existing_group(store, stream, group)
        wanted = list(dict.fromkeys(parse_id(given) for given in ids))
        pending = sum(len(found.pending_range(each, each, 1)) for each in wanted)
        if not dry_run and pending:
            what = f"{number_of(pending, 'pending entry')} of group {text(group)} of stream {text(stream)}"
            ask(f"Acknowledge {what}?", force=force)
            pending = found.ack(*wanted)
            store.sync()
    if as_json:
        write_json({"stream": stream, "group": group, "acknowledged": pending, "dry_run": dry_run})
    else:
        click.echo(f"would acknowledge {number_of(pending, 'pending entry')}" if dry_run else str(pending))
