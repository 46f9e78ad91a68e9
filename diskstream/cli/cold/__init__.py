"""`diskstream cold`: sealed segments in object storage. One file a verb."""

from __future__ import annotations

import click

from diskstream.cli.cold.adopt import command as adopt_verb
from diskstream.cli.cold.fetch import command as fetch_verb
from diskstream.cli.cold.ls import command as ls_verb
from diskstream.cli.cold.move import command as move_verb
from diskstream.cli.cold.sweep import command as sweep_verb


@click.group("cold")
def command() -> None:
    """Sealed segments moved to object storage, and back.

    A place is a URL: s3://bucket/prefix?region=eu-west-1, also with endpoint_override=https://host:port, gs://,
    abfss:// or file:///path. It never holds a key or a password: those come from the environment.
    """


for _each in (adopt_verb, fetch_verb, ls_verb, move_verb, sweep_verb):
    command.add_command(_each)
