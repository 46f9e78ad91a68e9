"""`diskstream backup prune`: remove backups."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from rich.filesize import decimal

from diskstream.backups import Backup, BackupError, Repository, check_clock, has_its_files, prune, superfluous
from diskstream.cli.amounts import SPAN
from diskstream.cli.consent import ask, consent_options
from diskstream.cli.options import json_option, place
from diskstream.cli.output import write_json
from diskstream.plurals import number_of


@click.command("prune")
@click.argument("target", metavar="DEST", type=place())
@click.option("--keep", type=click.IntRange(min=1), metavar="N", help="Keep the newest N.")
@click.option("--older-than", type=SPAN, metavar="SPAN", help="Remove only what is older than this: 30d.")
@consent_options
@json_option
def command(
    *, target: Path, keep: int | None, older_than: int | None, dry_run: bool, force: bool, as_json: bool
) -> None:
    """Remove backups from DEST: all but the newest N, those older than SPAN; with both, those that are both.

    Damaged ones do not count among those kept, nor those that lack a file or part of one; the newest other one always
    stays. Where the newest one is of the future, or is older than SPAN and than ten times what mostly lies between one
    and the next, the clock may be wrong: SPAN removes nothing then, and with --force says so and goes on. Whether bytes
    have rotted only `backup verify` tells. What a removed backup shares with others stays with these. Those of a store
    and of a copy that was restored elsewhere are counted by themselves.
    """

    def say(backup: Backup) -> None:
        if as_json:
            write_json({"name": backup.name, "removed": not dry_run})
        else:
            click.echo(f"{'would remove' if dry_run else 'removed'} {backup.name}")

    if keep is None and older_than is None:
        raise click.UsageError("give --keep, --older-than, or both")
    repository = Repository.open(target.absolute())
    backups = repository.backups(whole=True)
    gone = superfluous(backups, keep=keep, older_than_ms=older_than, is_whole=has_its_files)
    if gone and older_than is not None:
        _look_at_clock(backups, older_than, keep=keep, force=force)
    if gone and not dry_run:
        size = decimal(sum(backup.header.new_bytes for backup in gone if backup.header))
        ask(f"Remove {number_of(len(gone), 'backup')} of {target} (up to {size} of their own)?", force=force)
        prune(repository, gone, on_removed=say)
    for backup in gone if dry_run else []:
        say(backup)
    if not gone and not as_json:
        click.echo("nothing to remove")


def _look_at_clock(backups: Sequence[Backup], older_than_ms: int, *, keep: int | None, force: bool) -> None:
    try:
        check_clock(backups, older_than_ms, keep=keep)
    except BackupError as error:
        if not force:
            raise
        click.echo(f"warning: {error}; --force goes on all the same", err=True)
