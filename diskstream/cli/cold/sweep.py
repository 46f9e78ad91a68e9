"""`diskstream cold sweep`: removing objects that no stream needs."""

from __future__ import annotations

from pathlib import Path

import click
from rich.filesize import decimal

from diskstream.cli.amounts import SPAN
from diskstream.cli.consent import ask, consent_options
from diskstream.cli.failure import Failure
from diskstream.cli.options import checked, directory_option, existing_store, json_option
from diskstream.cli.output import text, write_json
from diskstream.cli.progress import bytes_progress
from diskstream.cold import sweep
from diskstream.object_address import Address
from diskstream.plurals import number_of


@click.command("sweep")
@click.option("--at", "place", required=True, metavar="URL", callback=checked(Address.parse), help="Where.")
@click.option(
    "--older-than",
    "older_than_ms",
    type=SPAN,
    required=True,
    metavar="SPAN",
    help="Only what was seen so long ago to be needed by nobody: 30d; 0s is at once.",
)
@consent_options
@directory_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    *,
    place: str,
    older_than_ms: int,
    dry_run: bool,
    force: bool,
    directory: Path,
    as_json: bool,
) -> None:
    """Remove objects of this store that none of its streams and leases needs.

    What a sweep sees for the first time to be needed by nobody it only notes at the place; a later sweep removes it.
    Backups of the store are not looked at: choose a time that is longer than they are kept. A stream whose segments
    somebody else is moving is told of and left for the next sweep; the exit status is 1 then.
    """
    with existing_store(directory, read_only=dry_run) as store:
        report = sweep(store, place, older_than_ms=older_than_ms, dry_run=True)
        if not dry_run:
            if report.removed:
                size = decimal(report.size_bytes)
                ask(f"Remove {number_of(len(report.removed), 'object')} ({size}) at {report.place}?", force=force)
            with bytes_progress("removing") as (on_total, progress):
                on_total(report.size_bytes)
                report = sweep(store, place, older_than_ms=older_than_ms, progress=progress)
    for name in report.skipped:
        what = f"{text(name)}: its objects were left alone: somebody else is moving segments of this stream"
        Failure(what, hint="wait for that to end, and sweep again").show()
    if as_json:
        write_json(report)
    else:
        doing = "would be removed" if dry_run else "removed"
        click.echo(
            f"{number_of(len(report.removed), 'object')} ({decimal(report.size_bytes)}) {doing}, "
            f"{len(report.waiting):,} wait, {len(report.noted):,} seen for the first time, {report.needed:,} needed"
        )
    ctx.exit(1 if report.skipped else 0)
