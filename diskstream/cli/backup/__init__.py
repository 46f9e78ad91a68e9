"""`diskstream backup`: backups of a store. One file a verb."""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path

import click

from diskstream.cli.backup.create import command as create_verb
from diskstream.cli.backup.ls import command as ls_verb
from diskstream.cli.backup.prune import command as prune_verb
from diskstream.cli.backup.verify import command as verify_verb


class _Verbs(click.Group):
    """`create` may be left out: `diskstream backup DEST`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            for word in _places_in(args):
                self._refuse_misspelt(ctx, word)
            args = ["create", *args]
        return super().parse_args(ctx, args)

    def _refuse_misspelt(self, ctx: click.Context, word: str) -> None:
        """A verb that was misspelt would make a backup, in a directory of that name."""
        if os.sep in word or Path(word).exists():
            return
        if word in self.commands:
            raise click.UsageError(f"a verb comes before its options: `diskstream backup {word} ...`", ctx)
        meant = get_close_matches(word, self.commands, n=1)
        if meant:
            raise click.UsageError(
                f"no such verb as {word!r}: {meant[0]!r} was meant? For a backup in a new directory of that name, say "
                f"`diskstream backup create {word}`",
                ctx,
            )


def _places_in(args: list[str]) -> list[str]:
    """The words that are neither an option of `create` nor the value of one."""
    flags = {
        name for each in create_verb.params if isinstance(each, click.Option) and each.is_flag for name in each.opts
    }
    before = [None, *args]
    return [
        word
        for option, word in zip(before, args, strict=False)
        if not word.startswith("-")
        and (option is None or option in flags or not option.startswith("-") or "=" in option)
    ]


@click.group("backup", cls=_Verbs)
def command() -> None:
    """Backups of a store that others may be writing to: make, list, check and remove them.

    `diskstream backup DEST` is `diskstream backup create DEST`.
    """


for _each in (create_verb, ls_verb, prune_verb, verify_verb):
    command.add_command(_each)
