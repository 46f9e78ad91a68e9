"""`diskstream cold fetch`: cold segments back for good."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

import diskstream
from diskstream.cli.cold.amounts import dry_run_option, rate_option
from diskstream.cli.cold.report import write_moved
from diskstream.cli.each_stream import EachStream
from diskstream.cli.moments import END, single_id
from diskstream.cli.options import directory_option, existing_store, json_option, stream_argument
from diskstream.cli.output import text, write_json
from diskstream.cli.progress import bytes_progress
from diskstream.cold import bring_back


@click.command("fetch")
@stream_argument(required=False)
@click.option(
    "--from", "start", type=single_id, metavar="ID|TIME", help="Only segments that hold this ID, or newer ones."
)
@click.option("--until", "end", type=END, metavar="ID|TIME", help="Only segments that hold this ID, or older ones.")
@rate_option
@dry_run_option
@directory_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    *,
    stream: bytes | None,
    start: str | None,
    end: diskstream.EntryID | None,
    bytes_per_s: int | None,
    dry_run: bool,
    directory: Path,
    as_json: bool,
) -> None:
    """Bring cold segments of STREAM, or of all streams, back to this disk.

    Reads need no such thing. What is at the place stays there, until `diskstream cold sweep` removes it. A segment
    whose object is gone or damaged is told of, and the others come; the exit status is 1 then.
    """
    with existing_store(directory, read_only=dry_run, retention_interval_ms=0) as store:
        each = EachStream(store, stream, on_failed=write_json if as_json else None)
        for found in each.streams:
            with each.doing(found):
                report = bring_back(found, start=start, end=end, dry_run=True)
                if not dry_run:
                    with bytes_progress(each.doing_what("fetching", found)) as (on_total, progress):
                        on_total(report.size_bytes)
                        report = bring_back(
                            found,
                            start=start,
                            end=end,
                            progress=progress,
                            bytes_per_s=bytes_per_s,
                            on_lost=partial(each.tell, found),
                        )
                write_moved(report, "would come back" if dry_run else "came back", as_json=as_json)
                rule = found.retention
                if rule is not None and rule.to is not None and report.segments:
                    click.echo(
                        f"{text(found.name)} has a rule of retention that moves ({rule}): what is beyond it goes "
                        f"again, unless `diskstream retention clear {text(found.name)}` takes it away first",
                        err=True,
                    )
    ctx.exit(1 if each.failed else 0)
