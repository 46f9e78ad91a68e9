"""`diskstream seal`: turn what was written into packed, immutable segments."""

from __future__ import annotations

from pathlib import Path

import click

from diskstream.cli.options import directory_option, existing_store, existing_stream, json_option, stream_argument
from diskstream.cli.output import write_json
from diskstream.cli.progress import entries_progress


@click.command("seal")
@stream_argument(required=False)
@directory_option
@json_option
def command(*, stream: bytes | None, directory: Path, as_json: bool) -> None:
    """Seal the segments of STREAM, or of all streams, and print how many were sealed."""
    with existing_store(directory) as store:
        if stream is not None:
            existing_stream(store, stream)
        with entries_progress(store, "sealing", stream) as progress:
            sealed = store.seal(stream, progress=progress)
    if as_json:
        write_json({"sealed": sealed})
    else:
        click.echo(str(sealed))
