"""The subcommand HELP that each container has."""

from diskstream.commands.caller import Caller
from diskstream.commands.replies import Reply, Status
from diskstream.commands.table import Command

__all__ = ["help_of"]


def help_of(container: str, lines: str, *, group: str = "stream", since: str = "5.0.0") -> Command:
    """The command that says `lines`, within Redis's frame around them."""
    head = f"{container.upper()} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
    said = [head, *lines.splitlines(), "HELP", "    Print this help."]

    def run(_: Caller, __: list[bytes]) -> Reply:
        return [Status(line.encode()) for line in said]

    summary = "Says what there is."
    flags = frozenset({"loading", "stale"})
    return Command(f"{container}|help", 2, run, flags, group=group, since=since, summary=summary)
