"""`diskstream spark profile`: what streams hold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from diskstream.cli.duration import duration
from diskstream.cli.options import as_bytes, directory_option, json_option
from diskstream.cli.output import console, text, write_json
from diskstream.cli.spark.options import jobs_or_failure, session_options, started
from diskstream.cli.spark.times import time_ms
from diskstream.plurals import number_of

if TYPE_CHECKING:
    from diskstream.spark.jobs.profile import Summary

_FIELDS = 8
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("profile")
@click.argument("streams", metavar="[STREAM]...", type=as_bytes, nargs=-1)
@directory_option
@click.option("--pattern", default="", metavar="GLOB", help="Streams whose names match, with * ? and [].")
@click.option("--since", metavar="TIME", help="From entries of this time on, in ISO 8601 or ms since 1970.")
@click.option("--until", metavar="TIME", help="Up to entries before this time.")
@click.option("--html", type=_FILE, metavar="FILE", help="Write a page to look at: one file.")
@click.option("--report", "json", type=_FILE, metavar="FILE", help="Write all that was found as JSON.")
@click.option("--dry-run", is_flag=True, help="Say what would be read, and do nothing.")
@session_options
@json_option
def command(*, directory: Path, as_json: bool, master: str | None, confs: tuple[str, ...], **options: Any) -> None:
    """Tell what STREAMs, or all streams, hold.

    Rates over time, silences, sizes, which fields come together, and of each field its type, range, different and
    frequent values. All entries are read, once.
    """
    jobs_or_failure()
    from diskstream.spark.jobs.profile import Settings, run

    since, until = time_ms(options.pop("since"), "--since"), time_ms(options.pop("until"), "--until")
    settings = Settings(path=str(directory), since_ms=since, until_ms=until, quiet=as_json, **options).check()
    summary = run(None if settings.dry_run else started("profile", master, confs), settings)
    if as_json:
        write_json(summary.facts())
        return
    if summary.dry_run:
        entries, streams = number_of(summary.entries, "entry"), number_of(len(summary.streams), "stream")
        click.echo(f"would read {entries} of {streams} in {number_of(summary.tasks, 'task')}")
        return
    console().print(_table(summary))
    click.echo(f"{number_of(summary.entries, 'entry')} in {number_of(summary.tasks, 'task')}, {summary.seconds:,.1f} s")
    for path in filter(None, (summary.html, summary.json)):
        click.echo(f"written: {path}")


def _table(summary: Summary) -> Table:
    table = Table("stream", box=None, pad_edge=False)
    for heading in ("entries", "size", "span", "longest silence"):
        table.add_column(heading, justify="right")
    table.add_column("fields")
    for each in summary.streams:
        if not each["entries"]:
            table.add_row(Text(text(each["stream"])), "0", "", "", "", "")
            continue
        fields = ", ".join(f"{text(of['name'])} {of['type']}" for of in each["fields"][:_FIELDS])
        more = len(each["fields"]) - _FIELDS
        table.add_row(
            Text(text(each["stream"])),
            f"{each['entries']:,}",
            decimal(each["size_bytes"]),
            duration(each["last_ms"] - each["first_ms"]),
            duration(each["gaps"][0]["ms"]) if each["gaps"] else "",
            Text(f"{fields} and {more:,} more" if more > 0 else fields),
        )
    return table
