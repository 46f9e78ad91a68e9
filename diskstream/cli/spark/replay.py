"""`diskstream spark replay`: a store or an archive into streams, each entry once."""

from __future__ import annotations

from pathlib import Path

import click

from diskstream.cli.moments import check_order
from diskstream.cli.options import directory_option, json_option
from diskstream.cli.output import write_json
from diskstream.cli.spark.options import (
    end_option,
    jobs_or_failure,
    pattern_option,
    session_options,
    start_option,
    started,
    streams_option,
)
from diskstream.plurals import number_of


@click.command("replay")
@click.option(
    "--from",
    "source",
    required=True,
    type=click.Path(exists=True, file_okay=False, readable=False, path_type=Path),
    help="The directory of a store or of an archive.",
)
@streams_option
@pattern_option
@start_option
@end_option
@click.option(
    "--ids",
    type=click.Choice(["original", "new"]),
    default="original",
    show_default=True,
    help="Original IDs must be above the last ones of their target streams.",
)
@click.option("--to", default="", metavar="NAME", help="The target stream; with several, what comes before each name.")
@click.option("--name", default="", help="Tells this replay from others into the same store: it is done once.")
@click.option("--dry-run", is_flag=True, help="Only say what would be replayed.")
@session_options
@directory_option
@json_option
def command(
    *,
    source: Path,
    streams: tuple[bytes, ...],
    pattern: str,
    start: str,
    end: str,
    ids: str,
    to: str,
    name: str,
    dry_run: bool,
    master: str | None,
    confs: tuple[str, ...],
    directory: Path,
    as_json: bool,
) -> None:
    """Replay entries of a store, or of an archive, into the streams of the store in --dir.

    Killed and started again with the same words, it goes on where it stopped; once complete it does nothing any more,
    unless it is given another --name.
    """
    check_order(start, end)
    jobs_or_failure()
    from diskstream.spark.jobs.replay import ReplaySettings, run

    settings = ReplaySettings(
        str(source.absolute()),
        str(directory.absolute()),
        streams,
        pattern,
        start,
        end,
        ids,
        to,
        name,
        dry_run,
        quiet=as_json,
    )
    summary = run(None if dry_run else started("replay", master, confs), settings)
    if as_json:
        write_json(summary.as_json())
    elif summary.complete_before:
        click.echo("this replay was complete before: nothing " + ("would be done" if dry_run else "was done"))
    elif dry_run:
        click.echo(
            f"up to {number_of(summary.entries, 'entry')} of {number_of(summary.streams, 'stream')} in "
            f"{number_of(summary.rounds, 'round')}"
        )
    elif not summary.rounds:
        click.echo("nothing to replay: the streams have no entries in the range")
    else:
        before = f", {summary.rounds_before:,} of them before" if summary.rounds_before else ""
        click.echo(
            f"{number_of(summary.entries, 'entry')} of {number_of(summary.streams, 'stream')} in "
            f"{number_of(summary.rounds, 'round')}{before}, "
            f"{summary.seconds:.1f} s"
        )
