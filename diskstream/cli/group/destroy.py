"""`diskstream group destroy`: remove a group."""

from __future__ import annotations

from pathlib import Path

import click

from diskstream.cli.consent import ask, consent_options
from diskstream.cli.options import (
    directory_option,
    existing_group,
    existing_store,
    group_argument,
    json_option,
    stream_argument,
)
from diskstream.cli.output import text, write_json
from diskstream.plurals import number_of


@click.command("destroy")
@stream_argument()
@group_argument
@consent_options
@directory_option
@json_option
def command(*, stream: bytes, group: bytes, dry_run: bool, force: bool, directory: Path, as_json: bool) -> None:
    """Remove a group.

    Its consumers go too, and the record of what they have not acknowledged. The entries themselves stay.
    """
    with existing_store(directory, read_only=dry_run) as store:
        found = existing_group(store, stream, group)
        info = found.info()
        what = f"group {text(group)} of stream {text(stream)}"
        extent = f"{number_of(info.consumers, 'consumer')}, {number_of(info.pending, 'pending entry')}"
        if not dry_run:
            ask(f"Destroy {what} ({extent})?", force=force)
            found.destroy()
            store.sync()
    if as_json:
        facts = {"stream": stream, "group": group, "consumers": info.consumers, "pending": info.pending}
        write_json({**facts, "destroyed": not dry_run})
    else:
        click.echo(f"{'would destroy' if dry_run else 'destroyed'} {what}: {extent}")
