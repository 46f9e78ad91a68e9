"""`diskstream completion`: what a shell needs to complete the command."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from diskstream.cli import completing_bash

_PROGRAM = "diskstream"
_VARIABLE = "_DISKSTREAM_COMPLETE"
_SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the script that completes verbs, options, and the names of streams and groups.

    \b
    bash  eval "$(diskstream completion bash)"                                     in ~/.bashrc; bash 4.4 or later
    zsh   eval "$(diskstream completion zsh)"                                      in ~/.zshrc, behind compinit
    fish  diskstream completion fish > ~/.config/fish/completions/diskstream.fish

    Names are those of the store that --dir, before them, or DISKSTREAM_DIR names.
    """
    completing_bash.register()
    made = get_completion_class(shell)
    assert made is not None  # click knows these three
    parts = made(ctx.find_root().command, {}, _PROGRAM, _VARIABLE)
    # Not `source()`: for bash that asks the bash of this machine for its version, and the script may be for another.
    # That of fish cuts an answer at each comma, and so what an option is for.
    template = parts.source_template.replace('string split ","', 'string split --max 1 ","')
    click.echo(template % parts.source_vars())
