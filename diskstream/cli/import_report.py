"""What `diskstream import` shows: a progress bar on a terminal, and what became of the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict

import click
from rich.filesize import decimal
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from diskstream.cli.output import error_console, printable, text, write_json
from diskstream.ingest import LoadReport, Source
from diskstream.plurals import number_of, rate_of

Count = Callable[[int], None]


@contextmanager
def import_progress(name: bytes, sources: list[Source]) -> Iterator[tuple[Count | None, Count | None]]:
    """A bar on standard error; yields what to call with bytes read and with rows written. In a pipe it is silent."""
    console = error_console()
    if not console.is_interactive:
        yield None, None
        return
    sizes = [source.size() for source in sources]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[rows]:,} rows written"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(text(name), total=total, rows=0)
        rows = 0

        def on_written(count: int) -> None:
            nonlocal rows
            rows += count
            progress.update(task, rows=rows)

        yield lambda size: progress.advance(task, size), on_written


def write_report(report: LoadReport, seconds: float, *, disorder: str, as_json: bool) -> None:
    """What was imported on standard output, what was skipped on standard error."""
    if as_json:
        facts = {**asdict(report), "disorder": disorder, "seconds": round(seconds, 6)}
        write_json(facts | {"first_id": report.first_id, "last_id": report.last_id})
    else:
        click.echo(f"{text(report.stream)}: {', '.join(_sentence(report, seconds, disorder))}")
    if report.skipped:
        for bad in report.bad_rows:
            click.echo(f"skipped {printable(bad)}", err=True)
        more = report.skipped - len(report.bad_rows)
        click.echo(
            f"{number_of(report.skipped, 'bad row')} skipped{f', {more:,} of them not shown' if more else ''}", err=True
        )


def _sentence(report: LoadReport, seconds: float, disorder: str) -> Iterator[str]:
    yield f"{number_of(report.rows, 'row')} with {decimal(report.value_bytes)} of values in {seconds:.2f} s"
    if report.rows:
        yield rate_of(report.rows, seconds, "row")
        yield f"IDs {report.first_id} to {report.last_id}"
    if report.resumed:
        yield f"{number_of(report.resumed, 'row')} had been imported by an earlier run"
    if report.repeated:
        yield f"{report.repeated:,} of the same millisecond as the row before"
    if report.disordered:
        how = "row before (sorted by time)" if disorder == "sort" else "row or the entry before (given its time)"
        yield f"{report.disordered:,} older than the {how}"
    if report.checked:
        yield "read back and found the same"
