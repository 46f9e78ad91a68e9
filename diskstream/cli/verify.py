"""`diskstream verify`: read everything and say what is damaged."""

from __future__ import annotations

from pathlib import Path

import click
from rich.filesize import decimal

import diskstream
from diskstream.cli.options import directory_option, existing_store, json_option
from diskstream.cli.output import attributes, text, write_json
from diskstream.cli.progress import entries_progress


@click.command("verify")
@directory_option
@click.option("--cold", is_flag=True, help="Fetch and read what is in object storage too.")
@json_option
@click.pass_context
def command(ctx: click.Context, *, cold: bool, directory: Path, as_json: bool) -> None:
    """Read every byte of the store against its checksums.

    Nothing is changed, and other processes may go on writing. Exit status 1 where something is damaged: then each fault
    is named with its file, its place in it, and the IDs that it touches.
    """
    with existing_store(directory, read_only=True) as store, entries_progress(store, "verifying") as progress:
        report = store.verify(progress=progress, cold=cold)
    if as_json:
        write_json({"ok": report.ok, **attributes(report)})
    else:
        for problem in report.problems:
            click.echo(_fault(problem))
        click.echo(
            f"{report.streams:,} streams, {report.segments:,} segments, {report.entries:,} entries, "
            f"{decimal(report.size_bytes)} read: {len(report.problems):,} faults"
        )
        if report.cold_segments and not cold:
            size = decimal(report.cold_bytes)
            click.echo(f"not read: {report.cold_segments:,} segments ({size}) in object storage; --cold reads them")
    ctx.exit(0 if report.ok else 1)


def _fault(problem: diskstream.Problem) -> str:
    ids = f", IDs {problem.first} to {problem.last}" if problem.first else ""
    return f"{text(problem.stream)}: {problem.path} at {problem.offset:,}: {problem.what}{ids}"
