"""A backup as the source of what goes elsewhere: it stays there meanwhile, and is what it was when it was made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from diskstream.backups import Backup, must_be_unchanged
from diskstream.cli.output import printable
from diskstream.cli.progress import bytes_progress


def tell_others(backup: Backup) -> None:
    """Says, where a backup was chosen as the newest, that others there are of another directory."""
    for other in backup.others:
        click.echo(
            f"{backup.name} is the newest, of {printable(backup.place)}; {other.name} is the newest of "
            f"{printable(other.place)}: to take that one, name its directory",
            err=True,
        )


@contextmanager
def reading_backup(backup: Backup, streams: Sequence[bytes]) -> Iterator[Path]:
    """Its directory, to be read as a store: held, so that nobody removes it, with these streams compared; all for none.

    Raises:
        BackupError: it is being removed, or is not what it was.
    """
    tell_others(backup)
    with backup.used():
        with bytes_progress("comparing") as (on_total, on_bytes):
            must_be_unchanged(backup, streams, on_total=on_total, on_bytes=on_bytes)
        yield backup.path
