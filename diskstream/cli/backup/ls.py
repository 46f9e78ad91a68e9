"""`diskstream backup ls`: the backups in a directory."""

from __future__ import annotations

from pathlib import Path

import click
from rich.filesize import decimal
from rich.table import Table

from diskstream.backups import Repository
from diskstream.cli.failure import Failure
from diskstream.cli.options import json_option, place
from diskstream.cli.output import attributes, print_table, text, write_json


@click.command("ls")
@click.argument("target", metavar="DEST", type=place())
@json_option
@click.pass_context
def command(ctx: click.Context, *, target: Path, as_json: bool) -> None:
    """List the backups in DEST, the oldest first: what each has, what was new in it, and which streams only.

    Where they are of a store and of copies of it that were restored elsewhere: also of which directory.
    """
    table = Table(box=None, pad_edge=False)
    table.add_column("backup", no_wrap=True)
    for heading in ("streams", "entries", "size", "new", "damaged"):
        table.add_column(heading, justify="right")
    table.add_column("only")
    repository = Repository.open(target.absolute())
    backups = repository.backups()
    # Where a store and a copy of it that was restored elsewhere are backed up to one place.
    several = len({each.header.place for each in backups if each.header} - {""}) > 1
    if several:
        table.add_column("of")
    unreadable = 0
    for backup in backups:
        if backup.header is None:
            unreadable += 1
            Failure(f"{backup.name}: {backup.fault}").show()
            continue
        header = backup.header
        if as_json:
            write_json({"name": backup.name, "path": backup.path, **attributes(header)})
            continue
        sizes = decimal(header.size_bytes), decimal(header.new_bytes)
        damaged = f"{header.damaged:,}" if header.damaged else ""
        only = ", ".join(map(text, header.patterns))
        of = [text(header.place)] if several else []
        table.add_row(backup.name, f"{header.streams:,}", f"{header.entries:,}", *sizes, damaged, only, *of)
    if not as_json and table.row_count:
        print_table(table)
    if left := len(repository.unfinished()):
        click.echo(f"{left:,} unfinished: the next backup takes over what it has copied", err=True)
    ctx.exit(1 if unreadable else 0)
