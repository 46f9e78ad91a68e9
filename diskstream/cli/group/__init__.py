"""`diskstream group`: consumer groups. One file a verb."""

from __future__ import annotations

import click

from diskstream.cli.group.ack import command as ack_verb
from diskstream.cli.group.claim import command as claim_verb
from diskstream.cli.group.create import command as create_verb
from diskstream.cli.group.destroy import command as destroy_verb
from diskstream.cli.group.info import command as info_verb
from diskstream.cli.group.ls import command as ls_verb
from diskstream.cli.group.pending import command as pending_verb
from diskstream.cli.group.set_id import command as set_id_verb


@click.group("group")
def command() -> None:
    """Consumer groups: list, make, move and remove them, and see what is pending."""


for _each in (ack_verb, claim_verb, create_verb, destroy_verb, info_verb, ls_verb, pending_verb, set_id_verb):
    command.add_command(_each)
