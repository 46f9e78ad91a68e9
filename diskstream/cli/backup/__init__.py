"""`diskstream backup`: backups of a store. One file a verb."""

from __future__ import annotations

import click

from diskstream.cli.backup.create import command as create_verb
from diskstream.cli.backup.ls import command as ls_verb
from diskstream.cli.backup.prune import command as prune_verb
from diskstream.cli.backup.verify import command as verify_verb


class _Verbs(click.Group):
    """`create` may be left out: `diskstream backup DEST`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["create", *args]
        return super().parse_args(ctx, args)


@click.group("backup", cls=_Verbs)
def command() -> None:
    """Backups of a store that others may be writing to: make, list, check and remove them.

    `diskstream backup DEST` is `diskstream backup create DEST`.
    """


for _each in (create_verb, ls_verb, prune_verb, verify_verb):
    command.add_command(_each)
