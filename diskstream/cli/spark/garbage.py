"""What a job says of the garbage that it found in an archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.filesize import decimal

from diskstream.plurals import number_of

if TYPE_CHECKING:
    from diskstream.spark.jobs.garbage import Garbage


def tell_garbage(garbage: Garbage, *, dry_run: bool) -> None:
    """One line each for what was removed and what will be, on standard error; nothing where there is none."""
    if garbage.removed:
        verb = "would be removed" if dry_run else "removed"
        click.echo(
            f"{number_of(len(garbage.removed), 'file')} of no version {verb}: {decimal(garbage.removed_bytes)}",
            err=True,
        )
    if garbage.failed:
        click.echo(f"what older versions and killed jobs left was not removed: {garbage.failed}", err=True)
    if garbage.waiting:
        left = "of older versions or killed jobs"
        waiting = number_of(len(garbage.waiting), f"file {left} waits", f"files {left} wait")
        click.echo(
            f"{waiting} for the end of the grace time: {decimal(garbage.waiting_bytes)}",
            err=True,
        )
