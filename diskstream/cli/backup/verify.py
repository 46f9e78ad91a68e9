"""`diskstream backup verify`: read backups and say what is damaged."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
from rich.filesize import decimal

import diskstream
from diskstream.backups import Backup, BackupRemovedError, Finding, Repository, Seen, check_backup, find_backup
from diskstream.cli.advice import for_command, for_command_each
from diskstream.cli.options import json_option, place
from diskstream.cli.output import write_json
from diskstream.cli.progress import bytes_progress
from diskstream.plurals import number_of
from diskstream.verifying import bytes_to_verify


@click.command("verify")
@click.argument("target", metavar="DEST[/NAME]", type=place())
@click.option("--cold", is_flag=True, help="Fetch and read what is in object storage too.")
@json_option
@click.pass_context
def command(ctx: click.Context, *, target: Path, cold: bool, as_json: bool) -> None:
    """Read every byte of a backup, or of all in DEST, against what was written.

    A file that several backups share is read once. Of the newest, or of the one that is named, all entries are read as
    well, as `diskstream verify` does; with --cold also of segments that it only refers to. Exit status 1 where
    something is damaged.
    """
    target = target.absolute()
    backups = _backups(target)
    seen, found, read = Seen(), list[Finding](), 0
    with bytes_progress("verifying") as (on_total, on_bytes):
        on_total(_to_read(backups[-1:], cold=cold))
        for backup in backups:
            try:
                found += check_backup(backup, seen, deep=backup is backups[-1], cold=cold, on_bytes=on_bytes)
                read += 1
            except BackupRemovedError:  # by a prune: it is none of those that there are
                if backup.path == target:
                    raise
    facts = {"size_bytes": seen.size_bytes, "cold_segments": seen.cold_segments, "cold_bytes": seen.cold_bytes}
    if as_json:
        for finding in found:
            write_json(for_command_each(finding))
        write_json({"ok": not found, "backups": read, **facts, "findings": len(found)})
    else:
        for line in _findings(found):
            click.echo(line)
        click.echo(f"{number_of(read, 'backup')}, {decimal(seen.size_bytes)} read: {number_of(len(found), 'fault')}")
        if seen.cold_segments and not cold:
            size = decimal(seen.cold_bytes)
            click.echo(
                f"not read: {number_of(seen.cold_segments, 'segment')} ({size}) in object storage; --cold reads them"
            )
    ctx.exit(1 if found else 0)


def _findings(found: list[Finding]) -> Iterator[str]:
    """A line each, and all that is the matter of one place told once, with the first of it."""
    of_places = Counter(finding.place for finding in found if finding.place)
    told: set[str] = set()
    for finding in found:
        if finding.place in told:
            continue
        more = of_places[finding.place] - 1
        told |= {finding.place} - {""}
        known = " (so it was when the backup was made)" if finding.known else ""
        same = f" (and {more:,} more that cannot be read from {finding.place}: --json lists them)" if more > 0 else ""
        yield f"{finding.backup}/{finding.path}: {for_command(finding.what)}{known}{same}"


def _to_read(backups: list[Backup], *, cold: bool) -> int:
    """About how many bytes: each file against the manifest, and then as what it is."""
    sizes = 0
    for backup in backups:
        if backup.header is not None:
            sizes += backup.header.size_bytes
            with contextlib.suppress(diskstream.DiskstreamError, FileNotFoundError):  # or it was removed since
                sizes += bytes_to_verify(backup.path, cold=cold)
    return sizes


def _backups(target: Path) -> list[Backup]:
    if (target / "backups.json").exists():
        found = Repository.open(target).backups()
        if found:
            # The newest that can be read is the last.
            return sorted(found, key=lambda backup: backup.header is not None)
    return [find_backup(target)]  # which says so where there is none: nothing is no sound backup
