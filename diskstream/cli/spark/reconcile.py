"""`diskstream spark reconcile`: an archive against its store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table
from rich.text import Text

from diskstream.cli.moments import check_order
from diskstream.cli.options import directory_option, json_option
from diskstream.cli.output import attributes, print_table, text, write_json
from diskstream.cli.spark.options import (
    archive_option,
    end_option,
    jobs_or_failure,
    pattern_option,
    session_options,
    start_option,
    started,
    streams_option,
)
from diskstream.plurals import number_of

if TYPE_CHECKING:
    from diskstream.spark.jobs.reconcile import ReconcileSummary


@click.command("reconcile")
@archive_option
@streams_option
@pattern_option
@start_option
@end_option
@click.option("--other-store", is_flag=True, help="Though the archive is of another store: one replayed from it, say.")
@click.option("--dry-run", is_flag=True, help="Say what would be compared, and do nothing.")
@session_options
@directory_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    *,
    archive: Path,
    streams: tuple[bytes, ...],
    pattern: str,
    start: str,
    end: str,
    other_store: bool,
    dry_run: bool,
    master: str | None,
    confs: tuple[str, ...],
    directory: Path,
    as_json: bool,
) -> None:
    """Compare the archive with the store: each entry of the range that both have, and each file with its digest.

    What the store has trimmed since it was archived is no difference. Exit status 1 where something differs: then it is
    named with its day, segment and IDs.
    """
    check_order(start, end)
    jobs_or_failure()
    from diskstream.spark.jobs.reconcile import ReconcileSettings, run

    settings = ReconcileSettings(
        str(directory.absolute()),
        str(archive.absolute()),
        streams,
        pattern,
        start,
        end,
        other_store=other_store,
        dry_run=dry_run,
        quiet=as_json,
    )
    summary = run(None if dry_run else started("reconcile", master, confs), settings)
    if as_json:
        write_json({"ok": None if dry_run else summary.ok, **attributes(summary)})
    else:
        _show(summary)
    ctx.exit(0 if summary.ok else 1)


def _show(summary: ReconcileSummary) -> None:
    table = Table("stream", "would be compared" if summary.dry_run else "compared", box=None, pad_edge=False)
    for heading in ("in the store", "in the archive", "trimmed since"):
        table.add_column(heading, justify="right")
    for each in summary.streams:
        span = Text(each.note) if each.first is None else Text(f"{each.first} to {each.last}")
        numbers = (f"{number:,}" for number in (each.stored, each.archived, each.archive_only))
        table.add_row(Text(text(each.stream)), span, *numbers)
    print_table(table)
    if summary.dry_run:
        return
    for found in summary.findings:
        place = f", {found.date}" if found.date else ""
        segment = "" if found.segment is None else f", segment {found.segment:,}"
        note = f": {found.note}" if found.note else ""
        click.echo(
            f"{text(found.stream)}{place}{segment}: {found.entries:,} {found.kind}, IDs {found.first} to "
            f"{found.last}{note}"
        )
    click.echo(f"{number_of(len(summary.findings), 'finding')} in version {summary.version:,}, {summary.seconds:.1f} s")
