"""`diskstream seal`: turn what was written into packed, immutable segments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from diskstream.cli.each_stream import EachStream
from diskstream.cli.options import directory_option, existing_store, json_option, stream_argument
from diskstream.cli.output import write_json
from diskstream.cli.progress import entries_progress


@click.command("seal")
@stream_argument(required=False)
@directory_option
@json_option
@click.pass_context
def command(ctx: click.Context, *, stream: bytes | None, directory: Path, as_json: bool) -> None:
    """Seal the segments of STREAM, or of all streams, and print how many were sealed.

    Where that fails it prints how many were before; with --json also `failed`, which streams and why.
    """
    sealed = 0
    failed: list[dict[str, Any]] = []

    def count_one() -> None:
        nonlocal sealed
        sealed += 1

    with existing_store(directory, seal="manual") as store:  # what its own background sealed was not counted
        each = EachStream(store, stream, on_failed=failed.append)
        try:
            for found in each.streams:
                with (
                    each.doing(found),
                    entries_progress(store, each.doing_what("sealing", found), found.name) as progress,
                ):
                    store.seal(found.name, progress=progress, on_sealed=count_one)
        finally:  # also where the disk is full
            if as_json:
                write_json({"sealed": sealed, "failed": failed})
            else:
                click.echo(str(sealed))
    ctx.exit(1 if each.failed else 0)
