"""What `diskstream export` shows: a bar while it works on a terminal, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click
from rich.filesize import decimal
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

import diskstream
from diskstream.cli.output import attributes, error_console, text, write_json
from diskstream.exporting import ExportReport, ExportRequest
from diskstream.exporting.report import Progress as Count
from diskstream.exporting.report import ignore
from diskstream.plurals import number_of, rate_of


@contextmanager
def export_progress(store: diskstream.Store, request: ExportRequest) -> Iterator[Count]:
    """A bar on standard error, by bytes of names and values; yields what to call with entries and bytes written."""
    console = error_console()
    if not console.is_interactive:
        yield ignore
        return
    columns = (
        TextColumn("exporting"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[entries]:,} entries"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=_size(store, request), entries=0)
        written = 0

        def on_written(entries: int, size_bytes: int) -> None:
            nonlocal written
            written += entries
            progress.update(task, advance=size_bytes, entries=written)

        yield on_written


def _size(store: diskstream.Store, request: ExportRequest) -> int | None:
    """How many bytes of names and values; unknown where a stream is damaged, which the work itself will tell."""
    try:
        streams = [store.stream(name) for name in request.streams]
        return sum(
            piece.size_bytes
            for stream in streams
            for piece in stream.splits(request.start, request.end, max_bytes=1 << 40)
        )
    except diskstream.DiskstreamError:
        return None


def write_report(report: ExportReport, output: str, seconds: float, *, as_json: bool) -> None:
    """What was exported: on standard output, or, where the entries went there, on standard error."""
    to_error = output == "-"
    if as_json:
        facts = {"output": output, **attributes(report), "missing": report.missing, "seconds": round(seconds, 6)}
        write_json(facts, err=to_error)
    elif not to_error:
        click.echo(_sentence(report, output, seconds))
    if report.empty_columns:
        names = ", ".join(text(name) for name in report.empty_columns)
        and_so = "" if report.format == "jsonl" else ", so their columns are empty"
        click.echo(f"no entry has these fields{and_so}: {names}", err=True)
    if report.missing:
        click.echo(
            f"{number_of(report.missing, 'entry was', 'entries were')} trimmed or deleted while this went on, "
            "and not in the export",
            err=True,
        )


def _sentence(report: ExportReport, output: str, seconds: float) -> str:
    where = (
        f"{number_of(report.entries, 'entry')} in {number_of(report.files, 'file')}, "
        f"{decimal(report.size_bytes)}, at {output}"
    )
    if report.complete_before:
        return f"{where}: complete since a run before"
    new = report.entries - report.resumed_entries
    resumed = f", {report.resumed_entries:,} of them by runs before" if report.resumed_entries else ""
    return f"{where}{resumed}: {seconds:.2f} s, {rate_of(new, seconds, 'entry')}"
