"""`diskstream cold adopt`: stubs that were lost, made anew from a catalogue."""

from __future__ import annotations

from pathlib import Path

import click

from diskstream.cli.advice import for_command, for_command_each
from diskstream.cli.cold.amounts import dry_run_option
from diskstream.cli.each_stream import EachStream
from diskstream.cli.options import checked, directory_option, existing_store, json_option, stream_argument
from diskstream.cli.output import text, write_json
from diskstream.cli.progress import bytes_progress
from diskstream.cold import AdoptReport, adopt
from diskstream.object_address import Address
from diskstream.plurals import number_of


@click.command("adopt")
@stream_argument(required=False)
@click.option(
    "--from", "place", required=True, metavar="URL", callback=checked(Address.parse), help="Where the catalogue is."
)
@dry_run_option
@directory_option
@json_option
@click.pass_context
def command(
    ctx: click.Context, *, stream: bytes | None, place: str, dry_run: bool, directory: Path, as_json: bool
) -> None:
    """Give missing segments of STREAM, or of all streams, a stub again.

    For each segment that a stream lists and that has neither a file nor a stub, the catalogue is asked, and the object
    is read whole. Exit status 1 where segments are missing still.
    """
    missing = 0
    with existing_store(directory, read_only=dry_run, retention_interval_ms=0) as store:
        each = EachStream(store, stream, on_failed=write_json if as_json else None)
        for found in each.streams:
            with each.doing(found):
                with bytes_progress(each.doing_what("reading", found)) as (on_total, progress):
                    report = adopt(found, place, dry_run=dry_run, progress=progress, on_total=on_total)
                missing += len(report.missing)
                for refused in report.refused:
                    click.echo(f"{text(found.name)}: not taken: {for_command(refused)}", err=True)
                if report.missing:
                    click.echo(_still_missing(report), err=True)
                if as_json:
                    write_json(for_command_each(report))
                    continue
                words = ("segment would have", "segments would have") if dry_run else ("segment has", "segments have")
                stubs = f"{number_of(len(report.adopted), *words)} a stub{'' if dry_run else ' again'}"
                click.echo(f"{text(found.name)}: {stubs}, {len(report.missing):,} missing")
    ctx.exit(1 if missing or each.failed else 0)


def _still_missing(report: AdoptReport) -> str:
    """One line, however many they are: with another place than theirs it is all of them."""
    name, missing = text(report.stream), report.missing
    segments = number_of(len(missing), "segment is", "segments are")
    entries = number_of(sum(each.entries for each in missing), "entry")
    within = f"{missing[0].first} to {missing[-1].last}"
    return f"{name}: {segments} missing still, with {entries} of {within}: diskstream cold ls lists them"
