"""`diskstream spark compact`: small files of an archive into larger ones."""

from __future__ import annotations

from pathlib import Path

import click
from rich.filesize import decimal

from diskstream.cli.options import json_option
from diskstream.cli.output import attributes, write_json
from diskstream.cli.spark.garbage import tell_garbage
from diskstream.cli.spark.options import (
    archive_option,
    jobs_or_failure,
    seconds,
    session_options,
    size_bytes,
    started,
    streams_option,
)
from diskstream.plurals import number_of


@click.command("compact")
@archive_option
@streams_option
@click.option("--target-bytes", type=size_bytes, default="128m", help="Of a file, at most.  [128m]")
@click.option("--target-rows", type=click.IntRange(min=1), default=2_000_000, show_default=True, help="Likewise.")
@click.option("--verify/--no-verify", default=True, help="Read each file back before it counts.  [verify]")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--grace", type=seconds, default="1h", help="How long readers of older versions go on.  [1h]")
@session_options
@json_option
def command(
    *,
    archive: Path,
    streams: tuple[bytes, ...],
    target_bytes: int,
    target_rows: int,
    verify: bool,
    dry_run: bool,
    grace: float,
    master: str | None,
    confs: tuple[str, ...],
    as_json: bool,
) -> None:
    """Make few large files of the many small ones of each partition, and remove what no version needs any more.

    Whoever reads goes on: files of the version before stay until the grace time is over.
    """
    jobs_or_failure()
    from diskstream.spark.jobs.compact import CompactSettings, run

    settings = CompactSettings(
        str(archive.absolute()),
        streams,
        target_bytes,
        target_rows,
        grace_s=grace,
        verify=verify,
        dry_run=dry_run,
        quiet=as_json,
    )
    summary = run(None if dry_run else started("compact", master, confs), settings)
    if as_json:
        write_json(attributes(summary))
        return
    verb = "would come" if summary.dry_run else "came"
    size = "" if summary.dry_run else f", {decimal(summary.bytes_before)} to {decimal(summary.bytes_after)}"
    click.echo(
        f"{number_of(summary.files_before, 'file')} {verb} to {summary.files_after:,}: {summary.merged:,} small "
        f"ones with {number_of(summary.rows, 'row')} were merged{size}; version {summary.version:,}"
        if summary.merged
        else f"{number_of(summary.files_before, 'file')}, none of them small: nothing to do"
    )
    tell_garbage(summary.garbage, dry_run=summary.dry_run)
