"""`diskstream spark rollup`: streams into windows of time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table
from rich.text import Text

from diskstream.cli.options import as_bytes, directory_option, json_option
from diskstream.cli.output import console, print_table, text, write_json
from diskstream.cli.spark.options import jobs_or_failure, session_options, started
from diskstream.cli.spark.times import milliseconds, time_ms
from diskstream.plurals import number_of, rate_of

if TYPE_CHECKING:
    import pyarrow as pa

    from diskstream.spark.jobs.rollup import Settings, Summary

_PREVIEW = 10
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("rollup")
@click.argument("streams", metavar="[STREAM]...", type=as_bytes, nargs=-1)
@directory_option
@click.option("--pattern", default="", metavar="GLOB", help="Streams whose names match, with * ? and [].")
@click.option("--window", default="1m", show_default=True, metavar="LENGTH", help="As 500ms, 10s, 15m, 2h, 1d.")
@click.option("-f", "--field", "fields", multiple=True, required=True, metavar="NAME", help="A field with numbers.")
@click.option("--by", multiple=True, metavar="NAME", help="A field to group by.")
@click.option("--time-field", default="", metavar="NAME", help="A field with the time.  [default: the time of the ID]")
@click.option("-q", "--quantile", "quantiles", multiple=True, type=click.FloatRange(0, 1), metavar="Q",
              help="As 0.99.  [default: 0.5, 0.95, 0.99]")  # fmt: skip
@click.option("--no-quantiles", is_flag=True, help="Only count, min, max, sum and mean: the fastest way.")
@click.option("--since", metavar="TIME", help="From entries of this time on, in ISO 8601 or ms since 1970.")
@click.option("--until", metavar="TIME", help="Up to entries before this time.")
@click.option("--lateness", metavar="LENGTH", help="How long to wait for late entries, with --time-field or given IDs.")
@click.option("-o", "--output", type=_FILE, metavar="FILE", help="Write a Parquet file.")
@click.option("--to-stream", type=as_bytes, metavar="STREAM", help="Add windows that are complete to this stream.")
@click.option("--chart", type=_FILE, metavar="FILE", help="Draw a picture (PNG).")
@click.option("--dry-run", is_flag=True, help="Say what would be read, and do nothing.")
@session_options
@json_option
def command(
    *, directory: Path, window: str, as_json: bool, master: str | None, confs: tuple[str, ...], **options: Any
) -> None:
    """Aggregate numeric fields of STREAMs, or of all streams, in windows of time.

    Count, min, max, sum, mean and quantiles of each field, for each window, stream and group. Quantiles are exact while
    a window has up to 256 different values, and right within 1 % beyond.

    With --to-stream, each row becomes an entry whose ID is the start of its window; windows that are there already are
    skipped, so that it can run as often as you like.
    """
    jobs_or_failure()
    from diskstream.spark.jobs.rollup import QUANTILES, Settings, roll_up

    quantiles = () if options.pop("no_quantiles") else options.pop("quantiles") or QUANTILES
    options.pop("quantiles", None)
    since, until = time_ms(options.pop("since"), "--since"), time_ms(options.pop("until"), "--until")
    lateness = milliseconds(options.pop("lateness"), "--lateness") or 0
    settings = Settings(
        path=str(directory), window_ms=milliseconds(window, "--window") or 0, quantiles=tuple(quantiles),
        since_ms=since, until_ms=until, lateness_ms=lateness, quiet=as_json, **options,
    ).check()  # fmt: skip
    found, summary = roll_up(None if settings.dry_run else started("rollup", master, confs), settings)
    if as_json:
        write_json(summary.facts())
        return
    console().print(_facts(summary, settings))
    if found is not None and not (settings.output or settings.to_stream or settings.chart):
        _preview(found)


def _facts(summary: Summary, settings: Settings) -> Table:
    """What was done, a line each."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column()
    verb = "would read" if summary.dry_run else "read"
    table.add_row(
        verb,
        f"{number_of(summary.entries, 'entry')} of {number_of(summary.streams, 'stream')} in "
        f"{number_of(summary.tasks, 'task')}",
    )
    if summary.dry_run:
        return table
    table.add_row("windows", f"{summary.windows:,} of {settings.window_ms:,} ms, {number_of(summary.rows, 'row')}")
    for name, tally in summary.fields.items():
        line = f"{number_of(tally.values, 'value')}, {tally.missing:,} missing, {tally.unparseable:,} not numbers"
        table.add_row(Text(text(name)), line)
    if summary.untimed:
        table.add_row("no time", f"{number_of(summary.untimed, 'entry')}, left out")
    if summary.too_large:
        table.add_row(
            "too large", f"{number_of(summary.too_large, 'sum')} past what a double holds, left out with their means"
        )
    if summary.to_stream is not None:
        line = f"{summary.added:,} added, {summary.skipped:,} there already or too late, {summary.held_back:,} to come"
        line += f", {summary.cut:,} of a window that --since or a trim cuts" if summary.cut else ""
        table.add_row("stream", Text(f"{text(summary.to_stream)}: {line}"))
    for what, path in (("Parquet", summary.output), ("chart", summary.chart)):
        if path is not None:
            table.add_row(what, Text(path))
    table.add_row("took", f"{summary.seconds:,.1f} s, {rate_of(summary.entries, max(summary.seconds, 0.001), 'entry')}")
    return table


def _preview(found: pa.Table) -> None:
    """The first rows, where they go nowhere else."""
    table = Table(box=None, pad_edge=False)
    for name in found.schema.names:
        table.add_column(Text(text(name)), justify="left" if name == "stream" else "right")
    first = found.slice(0, _PREVIEW)
    for at in range(first.num_rows):
        table.add_row(*(Text(_cell(_of_python(column[at]))) for column in first.columns))
    print_table(table)
    if found.num_rows > _PREVIEW:
        click.echo(f"and {number_of(found.num_rows - _PREVIEW, 'row')} more: --output keeps them")


def _of_python(value: Any) -> Any:
    """A value of Arrow's; a time past the year 9999, which Python has none for, as the ms of an ID."""
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        return f"{value.value // 1000} ms"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return text(value)
    return f"{value:,.6g}" if isinstance(value, float) else str(value).replace("+00:00", "Z")
