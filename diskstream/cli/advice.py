"""What errors tell a program to do, in the words of the command."""

from __future__ import annotations

from functools import reduce
from typing import Any

from diskstream.cli.output import plain

__all__ = ["VERIFY", "for_command", "for_command_each"]

VERIFY = "; diskstream verify lists all that is damaged"
# Texts that programs meet too, and that are kept: in reports, and in the manifests of backups.
_IN_COMMANDS = {
    "; Store.verify() lists all that is damaged": VERIFY,
    "; Store.verify(cold=True) lists all that is damaged": "; diskstream verify --cold lists all that is damaged",
    ": delete it first, or pass replace=True": ": diskstream rm removes it",
    ": Stream.group() makes one, unless create=False": ": diskstream group create makes one",
    "; Group.set_id() moves it, Group.destroy() removes it": (
        "; diskstream group set-id moves it, diskstream group destroy removes it"
    ),
    "duplicates 'first' or 'last' says which counts": "--duplicates first or last says which counts",
}


def for_command(told: str) -> str:
    """The text of an error, for who typed a command."""
    return reduce(lambda text, program: text.replace(program, _IN_COMMANDS[program]), _IN_COMMANDS, told)


def for_command_each(value: object) -> Any:
    """The same of all texts in what is printed as JSON."""
    value = plain(value)
    if isinstance(value, str):
        return for_command(value)
    if isinstance(value, dict):
        return {name: for_command_each(each) for name, each in value.items()}
    return [for_command_each(each) for each in value] if isinstance(value, list) else value
