"""`diskstream rename`: give a stream another name."""

from __future__ import annotations

from pathlib import Path

import click

import diskstream
from diskstream.cli.consent import ask, consent_options
from diskstream.cli.failure import Failure
from diskstream.cli.options import (
    as_bytes,
    checked,
    directory_option,
    existing_store,
    existing_stream,
    json_option,
    not_empty,
    stream_argument,
)
from diskstream.cli.output import text, write_json
from diskstream.plurals import number_of


@click.command("rename")
@stream_argument()
@click.argument("new", metavar="NEW", type=as_bytes, callback=checked(not_empty))
@click.option("--replace", is_flag=True, help="Let a stream that has the new name go, with all its entries. Asks.")
@consent_options
@directory_option
@json_option
def command(
    *, stream: bytes, new: bytes, replace: bool, dry_run: bool, force: bool, directory: Path, as_json: bool
) -> None:
    """Give STREAM the name NEW, with its entries and groups. Other processes that have it open follow the name."""
    with existing_store(directory, read_only=dry_run) as store:
        existing_stream(store, stream)
        target = store.stream(new)  # a name that cannot be one is found here
        gone = len(target) if target.exists() and new != stream else None
        if gone is not None and not replace:
            raise Failure(
                f"there is a stream {text(new)} in {store.path} already", hint="--replace lets it go, with its entries"
            )
        if not dry_run:
            if gone is not None:
                ask(f"Replace stream {text(new)}, which has {number_of(gone, 'entry')}?", force=force)
            try:
                store.rename(stream, new, replace=gone is not None)  # nothing goes that was not asked about
            except diskstream.StreamExistsError:  # made since we looked
                raise Failure(f"there is a stream {text(new)} in {store.path} now", hint="run it again") from None
    if as_json:
        write_json({"stream": stream, "name": new, "replaced_entries": gone, "renamed": not dry_run})
    else:
        replaced = "" if gone is None else f", in place of one with {number_of(gone, 'entry')}"
        click.echo(f"{'would rename' if dry_run else 'renamed'} {text(stream)} to {text(new)}{replaced}")
