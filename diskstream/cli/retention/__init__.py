"""`diskstream retention`: how much of a stream is kept. One file a verb."""

from __future__ import annotations

import click

from diskstream.cli.retention.apply import command as apply_verb
from diskstream.cli.retention.clear import command as clear_verb
from diskstream.cli.retention.set_rule import command as set_verb
from diskstream.cli.retention.show import command as show_verb


@click.group("retention")
def command() -> None:
    """Retention: how much of a stream is kept, by age, bytes and number of entries."""


for _each in (apply_verb, clear_verb, set_verb, show_verb):
    command.add_command(_each)
