"""`diskstream restore`: make a store, or streams of one, out of a backup."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import click
from rich.filesize import decimal

import diskstream
from diskstream.backups import Restored, Wanted, find_backup, restore
from diskstream.cli.failure import Failure
from diskstream.cli.moments import END
from diskstream.cli.options import as_bytes, json_option
from diskstream.cli.output import write_json
from diskstream.cli.progress import bytes_progress
from diskstream.redis_link import shown


@click.command("restore")
@click.argument("backup", metavar="BACKUP", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--to", "target", required=True, metavar="DIR", help="A directory that is empty or missing; or a store.")
@click.option(
    "-s", "--stream", "streams", multiple=True, type=as_bytes, metavar="NAME", help="Only this; may come again."
)
@click.option("--as", "name", type=as_bytes, metavar="NAME", help="Another name for the stream.")
@click.option("--until", type=END, metavar="ID|TIME", help="Leave out what was added later.")
@click.option("--damaged", is_flag=True, help="Take also what was damaged when the backup was made.")
@json_option
def command(
    *,
    backup: Path,
    target: str,
    streams: tuple[bytes, ...],
    name: bytes | None,
    until: diskstream.EntryID | None,
    damaged: bool,
    as_json: bool,
) -> None:
    """Make a store out of BACKUP: the directory of one, or of several, of which the newest is taken.

    Nothing is at DIR before everything is there and was read back. Where DIR is a store, it gets the streams named by
    --stream, if their names are free.
    """
    if "://" in target:
        raise Failure(f"{shown(target)} is not a directory", hint="--to takes a directory")
    if name is not None and len(streams) != 1:
        raise click.UsageError("--as goes with one --stream")
    with bytes_progress("restoring") as (on_total, on_bytes):
        wanted = Wanted(streams, name, until, damaged=damaged, on_total=on_total, on_bytes=on_bytes)
        found = find_backup(backup)
        restored = restore(found, Path(target).absolute(), wanted)
    if as_json:
        write_json(_facts(found.name, restored))
    else:
        ways = Counter(how.way for how in restored.streams.values())
        listed = ", ".join(f"{count:,} {way}" for way, count in ways.items())
        click.echo(
            f"{restored.path}: {len(restored.streams):,} streams ({listed or 'none'}), {restored.entries:,} entries, "
            f"{decimal(restored.size_bytes)} of files, from {found.name}"
        )


def _facts(backup: str, restored: Restored) -> dict[str, object]:
    ways = {os.fsencode(place): how.way for place, how in restored.streams.items()}
    return {
        "backup": backup,
        "path": restored.path,
        "streams": ways,
        "entries": restored.entries,
        "files": restored.files,
        "size_bytes": restored.size_bytes,
    }
