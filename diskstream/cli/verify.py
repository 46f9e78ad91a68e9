"""`diskstream verify`: read everything and say what is damaged."""

from __future__ import annotations

from pathlib import Path

import click

from diskstream.cli.options import directory_option, existing_store, json_option
from diskstream.cli.output import write_json


@click.command("verify")
@directory_option
@json_option
@click.pass_context
def command(ctx: click.Context, directory: Path, as_json: bool) -> None:
    """Read every byte of the store against its checksums. Exit status 1 where something is damaged."""
    with existing_store(directory, read_only=True) as store:
        report = store.verify()
    if as_json:
        write_json(report)
    ctx.exit(0 if report.ok else 1)
