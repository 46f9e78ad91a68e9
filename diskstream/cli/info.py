"""`diskstream info`: everything that is known of a stream."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

import diskstream
from diskstream.cli.advice import for_command
from diskstream.cli.options import directory_option, existing_store, existing_stream, json_option, stream_argument
from diskstream.cli.output import attributes, entry_line, print_facts, text, write_json


@click.command("info")
@stream_argument()
@directory_option
@json_option
def command(*, stream: bytes, directory: Path, as_json: bool) -> None:
    """Show the length of a stream, its IDs, counters and files."""
    with existing_store(directory, read_only=True) as store:
        info = existing_stream(store, stream).info()
    if info.retention_error is not None:
        info = replace(info, retention_error=for_command(info.retention_error))
    # Who only looks cannot know whether all is durable: that it is not so was said of all.
    facts = {**attributes(info, name="stream"), "durable": None}
    if as_json:
        write_json(facts)
        return
    print_facts({name.replace("_", " "): _shown(name, value) for name, value in facts.items()})


def _shown(name: str, value: object) -> str:
    if value is None:
        return "unknown" if name == "durable" else "none"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, diskstream.Entry):
        return entry_line(value)
    return text(value) if isinstance(value, bytes) else str(value)
