"""`diskstream export`: entries as CSV, JSON lines, Arrow or Parquet."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click
from click.core import ParameterSource

import diskstream
from diskstream.cli.amounts import SPAN
from diskstream.cli.completing import complete_streams
from diskstream.cli.export_report import export_progress, write_report
from diskstream.cli.failure import Failure
from diskstream.cli.moments import check_order, end_bound, since, start_bound
from diskstream.cli.options import as_bytes, directory_option, existing_store, existing_stream, json_option
from diskstream.cli.standard_files import check_open
from diskstream.exporting import (
    COMPRESSIONS,
    FORMATS,
    ExportReport,
    ExportRequest,
    export_directory,
    export_file,
    export_pipe,
    parse_columns,
)

_PIPE = "-"
_PACKED = {".gz": "gzip", ".zst": "zstd"}


@click.command("export")
@click.argument("streams", metavar="STREAM...", nargs=-1, required=True, type=as_bytes, shell_complete=complete_streams)
@click.option("--format", "chosen", type=click.Choice(FORMATS), help="[default: by the name of the file, else jsonl]")
@click.option("-o", "--output", default=_PIPE, show_default=True, metavar="FILE", help="A file, a directory, or - .")
@click.option("--start", default="-", metavar="ID|TIME", type=start_bound, help="Only from there on.")
@click.option("--end", default="+", metavar="ID|TIME", type=end_bound, help="Only up to there.")
@click.option("--since", "span", metavar="SPAN", type=SPAN, help="Only the last 90s, 1h30m, 7d.")
@click.option("--columns", type=as_bytes, metavar="NAME[:TYPE],...", help="These fields only; not in jsonl as columns.")
@click.option(
    "--duplicates",
    type=click.Choice(["first", "last", "fail"]),
    default="fail",
    show_default=True,
    help="Of a name that an entry has twice, where fields are columns.",
)
@click.option(
    "--compression",
    type=click.Choice(sorted({each for some in COMPRESSIONS.values() for each in some})),
    help="[default: by the name of the file; zstd for parquet, else none]",
)
@click.option("--rows-per-file", type=click.IntRange(1, 2**40), metavar="N", help="Write parts into a directory.")
@click.option("-f", "--force", is_flag=True, help="Replace the file if it is there.")
@directory_option
@json_option
def command(
    *,
    streams: tuple[bytes, ...],
    chosen: str | None,
    output: str,
    start: str,
    end: str,
    span: int | None,
    columns: bytes | None,
    duplicates: str,
    compression: str | None,
    rows_per_file: int | None,
    force: bool,
    directory: Path,
    as_json: bool,
) -> None:
    """Write the entries of each STREAM, as they are when the export begins.

    \b
    jsonl    an object a line, as `range --json` prints it: every byte is kept; `import --format entries` reads it
    arrow    id_ms, id_seq and the list of fields: every byte is kept; with --columns a column for each of them
    parquet  the same
    csv      a column for each field: those of --columns, or all there are, found by reading everything twice

    A file is there when it is whole, and not before. --rows-per-file writes parts into a directory instead, and there
    the same command goes on where it was killed. Of several streams each row says which it is of.
    """
    if span is not None and start != "-":
        raise click.UsageError("give one of --start and --since")
    check_order(start, end)
    if rows_per_file is not None and (output == _PIPE or force):
        raise click.UsageError("--rows-per-file wants a directory as --output, and never replaces anything")
    try:
        request = ExportRequest(
            tuple(dict.fromkeys(streams)),
            chosen or _format_of(output, is_directory=rows_per_file is not None),
            since(span) if span is not None else start,
            end,
            () if columns is None else parse_columns(columns),
            duplicates,
            compression or _compression_of(output),
        )
    except diskstream.ArgumentError as error:
        raise click.UsageError(str(error)) from None
    has_columns = request.format == "csv" or (request.columns and request.format != "jsonl")
    given = click.get_current_context().get_parameter_source("duplicates") is ParameterSource.COMMANDLINE
    if given and not has_columns:
        without = "" if request.format == "jsonl" else " without --columns"
        raise click.UsageError(f"--duplicates is for columns: {request.format}{without} keeps each value of a name")
    if output == _PIPE and request.format in ("arrow", "parquet") and sys.stdout.isatty():
        raise Failure(f"{request.format} is nothing for a terminal", hint="--output names a file")
    if output == _PIPE:
        check_open()
    started = time.perf_counter()
    with existing_store(directory, read_only=True) as store:
        for name in request.streams:
            existing_stream(store, name)
        report = _export(store, request, output, (rows_per_file, span, force))
    write_report(report, output, time.perf_counter() - started, as_json=as_json)


def _export(
    store: diskstream.Store, request: ExportRequest, output: str, how: tuple[int | None, int | None, bool]
) -> ExportReport:
    rows_per_file, span, force = how
    with export_progress(store, request) as progress:
        if output == _PIPE:
            return export_pipe(store, request, sys.stdout.buffer, progress=progress)
        if rows_per_file is None:
            return export_file(store, request, Path(output), replace=force, progress=progress)
        # Where the time began moves on between two runs; what was asked for does not.
        given = {} if span is None else {"start": "", "since_ms": span}
        return export_directory(
            store, request, Path(output), rows_per_file=rows_per_file, given=given, progress=progress
        )


def _compression_of(output: str) -> str:
    """By the name of a text file; else it is the format's own."""
    return "" if output == _PIPE else _PACKED.get(Path(output).suffix.lower(), "")


def _format_of(output: str, *, is_directory: bool) -> str:
    """By the name of a file; else JSON lines.

    Raises:
        click.UsageError: it has an ending, and none of ours: it may be misspelt.
    """
    suffixes = [suffix.lower() for suffix in Path(output).suffixes] if output != _PIPE else []
    known = {".ndjson": "jsonl", ".json": "jsonl", ".feather": "arrow", **{f".{name}": name for name in FORMATS}}
    found = next((known[suffix] for suffix in reversed(suffixes) if suffix in known), None)
    unknown = [suffix for suffix in suffixes if suffix not in _PACKED]
    if found is None and unknown and not is_directory:
        endings = ", ".join(sorted(known))
        raise click.UsageError(
            f"{unknown[-1]} is the ending of no format ({endings}): give --format to use it all the same"
        )
    return found or "jsonl"
