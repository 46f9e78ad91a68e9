"""The subcommand HELP that each container has."""

from diskstream.commands.caller import Caller
from diskstream.commands.replies import Reply, Status
from diskstream.commands.table import Command

__all__ = ["help_of"]


def help_of(container: str, lines: str) -> Command:
    """The command that says `lines`, within Redis's frame around them."""
    head = f"{container.upper()} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
    said = [head, *lines.splitlines(), "HELP", "    Print this help."]

    def run(_: Caller, __: list[bytes]) -> Reply:
        return [Status(line.encode()) for line in said]

    return Command(f"{container}|help", 2, run, frozenset({"loading", "stale"}), summary="Says what there is.")
