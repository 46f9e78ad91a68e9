"""The subcommand HELP that each container has."""

from collections.abc import Iterable

from diskstream.commands.caller import Caller
from diskstream.commands.replies import Reply, Status
from diskstream.commands.table import Command

__all__ = ["help_lines", "help_of"]


def help_lines(lines: Iterable[str]) -> Reply:
    """What a HELP answers with: lines that are no data."""
    return [Status(line.encode()) for line in lines]


def help_of(container: str, lines: str, *, group: str = "stream", since: str = "5.0.0") -> Command:
    """The command that says `lines`, within Redis's frame around them."""
    head = f"{container.upper()} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
    said = [head, *lines.splitlines(), "HELP", "    Print this help."]

    def run(_: Caller, __: list[bytes]) -> Reply:
        return help_lines(said)

    summary = "Says what there is."
    flags = frozenset({"loading", "stale"})
    return Command(f"{container}|help", 2, run, flags, group=group, since=since, summary=summary)
