"""How a command fails: what is wrong, and what can be done about it, on standard error."""

from __future__ import annotations

from typing import IO, Any

import click

from diskstream.cli.advice import VERIFY, for_command
from diskstream.cli.output import error_console, printable


class Failure(click.ClickException):
    """Ends the command with exit status 1."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        message = for_command(message)
        if hint is not None and VERIFY[2:] in hint:
            message = message.removesuffix(VERIFY)
        super().__init__(printable(message))
        self.hint = None if hint is None else printable(hint)

    def show(self, file: IO[Any] | None = None) -> None:
        """Write `error:` and `hint:`."""
        console = error_console(file)
        console.print("error:", style="bold red", end=" ")
        console.print(self.message, markup=False, highlight=False, soft_wrap=True)
        if self.hint:
            console.print("hint:", style="bold", end=" ")
            console.print(self.hint, markup=False, highlight=False, soft_wrap=True)
