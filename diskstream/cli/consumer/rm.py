"""`diskstream consumer rm`: remove a consumer."""

from __future__ import annotations

from pathlib import Path

import click

from diskstream.cli.completing import complete_consumers
from diskstream.cli.consent import ask, consent_options
from diskstream.cli.failure import Failure
from diskstream.cli.options import (
    as_bytes,
    directory_option,
    existing_group,
    existing_store,
    group_argument,
    json_option,
    stream_argument,
)
from diskstream.cli.output import text, write_json
from diskstream.plurals import number_of


@click.command("rm")
@stream_argument()
@group_argument
@click.argument("consumer", type=as_bytes, shell_complete=complete_consumers)
@consent_options
@directory_option
@json_option
def command(
    *, stream: bytes, group: bytes, consumer: bytes, dry_run: bool, force: bool, directory: Path, as_json: bool
) -> None:
    """Remove a consumer from its group.

    What it has not acknowledged is lost to the group: nobody can claim it then. To keep it, give it to another first:
    `diskstream group claim`.
    """
    what = f"consumer {text(consumer)} of group {text(group)} of stream {text(stream)}"
    with existing_store(directory, read_only=dry_run) as store:
        found = existing_group(store, stream, group)
        pending = next((info.pending for info in found.consumers() if info.name == consumer), None)
        if pending is None:
            raise Failure(
                f"there is no {what} in {store.path}",
                hint=f"diskstream consumer ls {text(stream)} {text(group)} lists the consumers",
            )
        if not dry_run:
            ask(f"Remove {what} ({number_of(pending, 'pending entry')})?", force=force)
            pending = found.delete_consumer(consumer)
            store.sync()
    if as_json:
        write_json({"stream": stream, "group": group, "consumer": consumer, "pending": pending, "removed": not dry_run})
    else:
        click.echo(f"{'would remove' if dry_run else 'removed'} {what}: {number_of(pending, 'pending entry')}")
