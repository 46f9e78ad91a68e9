"""`diskstream spark archive`: streams to Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from diskstream.cli.moments import check_order
from diskstream.cli.options import directory_option, json_option
from diskstream.cli.output import attributes, print_table, text, write_json
from diskstream.cli.spark.garbage import tell_garbage
from diskstream.cli.spark.options import (
    archive_option,
    end_option,
    jobs_or_failure,
    pattern_option,
    seconds,
    session_options,
    start_option,
    started,
    streams_option,
)
from diskstream.plurals import number_of

if TYPE_CHECKING:
    from diskstream.spark.jobs.archive import ArchiveSummary


@click.command("archive")
@archive_option
@streams_option
@pattern_option
@start_option
@end_option
@click.option("--layout", type=click.Choice(["fields", "typed"]), help="Of a new archive; else its own.  [fields]")
@click.option("-c", "--column", "columns", multiple=True, metavar="FIELD:TYPE", help="For --layout typed; repeatable.")
@click.option("--hourly", is_flag=True, default=None, help="Of a new archive: a folder for each hour, not each day.")
@click.option("--verify/--no-verify", default=True, help="Read each file back before it counts.  [verify]")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--grace", type=seconds, default="1h", help="How long garbage is left alone.  [1h]")
@session_options
@directory_option
@json_option
def command(
    *,
    archive: Path,
    streams: tuple[bytes, ...],
    pattern: str,
    start: str,
    end: str,
    layout: str | None,
    columns: tuple[str, ...],
    hourly: bool | None,
    verify: bool,
    dry_run: bool,
    grace: float,
    master: str | None,
    confs: tuple[str, ...],
    directory: Path,
    as_json: bool,
) -> None:
    """Archive entries to Parquet, each once: every run goes on where the last one ended.

    Nothing is trimmed: it says up to which ID each stream is in the archive, and how much before its first ID is not;
    the rest diskstream trim may take away.
    """
    check_order(start, end)
    jobs_or_failure()
    from diskstream.spark.jobs.archive import ArchiveSettings, run

    settings = ArchiveSettings(
        str(directory.absolute()),
        str(archive.absolute()),
        streams,
        pattern,
        start,
        end,
        layout,
        tuple(_column(each) for each in columns),
        hourly,
        verify=verify,
        dry_run=dry_run,
        grace_s=grace,
        quiet=as_json,
    )
    summary = run(None if dry_run else started("archive", master, confs), settings)
    if as_json:
        write_json(attributes(summary))
    else:
        _show(summary)


def _column(given: str) -> tuple[str, str]:
    name, _, kind = given.rpartition(":")
    if not name or not kind:
        raise click.BadParameter(f"{given!r} is no FIELD:TYPE, as speed:double", param_hint="--column")
    return name, kind


def _show(summary: ArchiveSummary) -> None:
    table = Table("stream", box=None, pad_edge=False)
    for heading in ("entries", "files", "bytes"):
        table.add_column(heading, justify="right")
    table.add_column("archived up to")
    table.add_column("")
    for each in summary.streams:
        table.add_row(
            Text(text(each.stream)),
            f"{each.entries:,}",
            f"{each.files:,}",
            decimal(each.size_bytes),
            "nothing" if each.archived_to is None else str(each.archived_to),
            Text(each.note),
        )
    print_table(table)
    verb = "would be archived" if summary.dry_run else "archived" + (", read back" if summary.verified else "")
    rate = f" in {summary.seconds:.1f} s" if not summary.dry_run else ""
    click.echo(
        f"{number_of(summary.entries, 'entry')} {verb}: {number_of(summary.files, 'file')}, "
        f"{decimal(summary.size_bytes)}{rate}; version {summary.version:,}"
    )
    tell_garbage(summary.garbage, dry_run=summary.dry_run)
