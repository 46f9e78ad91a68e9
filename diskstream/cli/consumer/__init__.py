"""`diskstream consumer`: the consumers of a group. One file a verb."""

from __future__ import annotations

import click

from diskstream.cli.consumer.ls import command as ls_verb
from diskstream.cli.consumer.rm import command as rm_verb


@click.group("consumer")
def command() -> None:
    """Consumers of a group: list and remove them."""


for _each in (ls_verb, rm_verb):
    command.add_command(_each)
