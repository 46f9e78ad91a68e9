"""`diskstream group info`: everything that is known of a group."""

from __future__ import annotations

from pathlib import Path

import click

from diskstream.cli.options import (
    directory_option,
    existing_group,
    existing_store,
    group_argument,
    json_option,
    stream_argument,
)
from diskstream.cli.output import attributes, print_facts, text, write_json


@click.command("info")
@stream_argument()
@group_argument
@directory_option
@json_option
def command(*, stream: bytes, group: bytes, directory: Path, as_json: bool) -> None:
    """Show where a group is in its stream, and what is pending."""
    with existing_store(directory, read_only=True) as store:
        found = existing_group(store, stream, group)
        info, pending = found.info(), found.pending()
    ends = {"first_pending": pending.first, "last_pending": pending.last}
    facts = {"stream": stream, **attributes(info, name="group"), **ends}
    if as_json:
        write_json(facts)
        return
    print_facts({name.replace("_", " "): _shown(name, value) for name, value in facts.items()})


def _shown(name: str, value: object) -> str:
    if value is None:
        return "unknown" if name in ("entries_read", "lag") else "none"
    if isinstance(value, int):
        return f"{value:,}"
    return text(value) if isinstance(value, bytes) else str(value)
