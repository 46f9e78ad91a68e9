"""`diskstream backup create`: keep this moment of a store."""

from __future__ import annotations

from pathlib import Path

import click
from rich.filesize import decimal

import diskstream
from diskstream.backups import Made, Settings, make_backup
from diskstream.cli.advice import for_command, for_command_each
from diskstream.cli.amounts import SIZE
from diskstream.cli.failure import Failure
from diskstream.cli.options import as_bytes, directory_option, json_option, place
from diskstream.cli.output import attributes, text, write_json
from diskstream.cli.progress import bytes_progress
from diskstream.plurals import number_of


@click.command("create")
@click.argument("target", metavar="DEST", type=place())
@click.option(
    "-s", "--stream", "patterns", multiple=True, type=as_bytes, metavar="PATTERN", help="Only these; may come again."
)
@click.option(
    "--link", is_flag=True, help="Sealed files as second names of the store's own, where DEST is on its disk."
)
@click.option("--full", is_flag=True, help="Share nothing with the backups before.")
@click.option("--rate", type=SIZE, metavar="SIZE", help="Copy no more a second than this: 50MB.")
@directory_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    *,
    target: Path,
    patterns: tuple[bytes, ...],
    link: bool,
    full: bool,
    rate: int | None,
    directory: Path,
    as_json: bool,
) -> None:
    """Make a backup of the store below DEST, while others go on writing.

    Each stream is kept as it is at one moment. What an earlier backup in DEST has already is shared with it, and not
    copied again; each such file is read once in thirty days. Killed and started again, it goes on. Exit status 1 where
    something in the store is damaged: then the backup has what there is, and says so; and where what was to be shared
    is not what it was: then the backup has it anew.
    """
    with bytes_progress("backing up") as (on_total, on_bytes):
        settings = Settings(
            patterns, link=link, full=full, bytes_per_s=rate, low_priority=True, on_bytes=on_bytes, on_total=on_total
        )
        made = make_backup(directory.absolute(), target.absolute(), settings, version=diskstream.__version__)
    if as_json:
        facts = {"rotted": made.rotted, "damaged_streams": for_command_each(made.damaged)}
        write_json({"path": made.path, **_facts(made), **facts})
    else:
        click.echo(_sentence(made))
    for stream in made.damaged:
        for fault in stream.faults:
            Failure(f"{text(stream.name)}: {fault}", hint=None if fault != stream.faults[-1] else _HINT).show()
    for problem in made.job_faults:
        Failure(f"{problem.path}: {for_command(problem.what)}", hint=for_command(problem.meaning)).show()
    for path in made.rotted:
        Failure(f"{path}: it is not what it was; the new backup has it anew from the store", hint=_ROTTED).show()
    ctx.exit(1 if made.damaged or made.job_faults or made.rotted else 0)


_ROTTED = "diskstream backup verify says what else has rotted there"
_HINT = "the backup has what is there; diskstream verify says more of the store"


def _facts(made: Made) -> dict[str, object]:
    shared = {"shared_bytes": made.shared_bytes, "linked_bytes": made.linked_bytes}
    shared |= {"cold_entries": made.cold_entries, "cold_bytes": made.cold_bytes, "job_faults": len(made.job_faults)}
    return {**attributes(made.header), **shared, "seconds": round(made.seconds, 6)}


def _sentence(made: Made) -> str:
    header = made.header
    cold = ""
    if made.cold_entries:
        cold = f"; not in it: {number_of(made.cold_entries, 'entry')} in object storage ({decimal(made.cold_bytes)})"
    linked = f", {decimal(made.linked_bytes)} of them linked" if made.linked_bytes else ""
    return (
        f"{made.path}: {number_of(header.streams, 'stream')}, {number_of(header.entries, 'entry')}, "
        f"{number_of(header.files, 'file')}, {decimal(header.size_bytes)}; {decimal(header.new_bytes)} new{linked}, "
        f"{decimal(made.shared_bytes)} shared, {made.seconds:.1f} s{cold}"
    )
