"""COMMAND: what commands there are, for clients that ask before they call."""

from collections.abc import Iterable

from diskstream.commands.caller import Caller
from diskstream.commands.failures import SYNTAX
from diskstream.commands.globs import glob
from diskstream.commands.help import help_lines
from diskstream.commands.replies import Failure, Map, Reply, Status
from diskstream.commands.table import Command, Table
from diskstream.commands.wire import set_of

__all__ = ["categories_of", "commands", "keys_of"]

_CATEGORIES = {
    "generic": "@keyspace",
    "server": "",
    "connection": "@connection",
    "transactions": "@transaction",
    "scripting": "@scripting",
}


def categories_of(command: Command) -> list[str]:
    """The ACL categories of a command, in order."""
    found = {_CATEGORIES.get(command.group, f"@{command.group}")} - {""}
    found.update(f"@{flag}" for flag in ("admin", "blocking") if flag in command.flags)
    found.update(f"@{kind}" for kind, flag in (("read", "readonly"), ("write", "write")) if flag in command.flags)
    found.add("@fast" if "fast" in command.flags else "@slow")
    if "admin" in command.flags:
        found.add("@dangerous")
    return sorted(found)


def keys_of(command: Command, words: list[bytes]) -> list[bytes]:
    """The keys in a command that is called with so many words."""
    if command.find_keys is not None:
        return command.find_keys(words)
    first, last, step = command.keys
    if not first:
        return []
    return words[first : (last if last >= 0 else len(words) + last) + 1 : step]


def _details(command: Command, protocol: int) -> Reply:
    first, last, step = command.keys
    movable = {"movablekeys"} if command.find_keys is not None else set()
    return [
        command.name,
        command.arity,
        set_of([Status(flag.encode()) for flag in sorted(command.flags | movable)], protocol),
        first,
        last,
        step,
        set_of([Status(category.encode()) for category in categories_of(command)], protocol),
        set_of([], protocol),
        set_of([], protocol),
        [_details(below, protocol) for below in command.subcommands.values()] or set_of([], protocol),
    ]


def _documents(command: Command) -> Reply:
    pairs: list[tuple[Reply, Reply]] = [
        ("summary", command.summary),
        ("since", command.since),
        ("group", command.group),
    ]
    if command.subcommands:
        pairs.append(("subcommands", Map([(below.name, _documents(below)) for below in command.subcommands.values()])))
    return Map(pairs)


def _named(table: Table, name: bytes) -> Command | None:
    top, _, below = name.decode("latin-1").lower().partition("|")
    command = table.get(top)
    return command if command is None or not below else command.subcommands.get(below)


def _get_keys(table: Table, words: list[bytes]) -> list[bytes]:
    command = table.get(words[2].decode("latin-1").lower())
    if command is not None and command.subcommands and len(words) > 3:  # noqa: PLR2004
        command = command.subcommands.get(words[3].decode("latin-1").lower())
    if command is None:
        raise Failure("ERR Invalid command specified")
    if not command.keys[0] and command.find_keys is None:
        raise Failure("ERR The command has no key arguments")
    if not command.takes(len(words) - 2):
        raise Failure("ERR Invalid number of arguments specified for command")
    found = keys_of(command, words[2:])
    if not found:
        raise Failure("ERR Invalid arguments specified for command")
    return found


def _listed(table: Table, words: list[bytes]) -> Iterable[str]:
    every = [command for top in table.values() for command in (top, *top.subcommands.values())]
    if len(words) == 2:  # noqa: PLR2004
        return list(table)
    if len(words) != 5 or words[2].upper() != b"FILTERBY":  # noqa: PLR2004
        raise Failure(SYNTAX)
    by, what = words[3].upper(), words[4].lower()
    if by == b"MODULE":
        return []
    if by == b"ACLCAT":
        return [command.name for command in every if f"@{what.decode('latin-1')}" in categories_of(command)]
    if by == b"PATTERN":
        pattern = glob(what)
        return [command.name for command in every if pattern.fullmatch(command.name.encode())]
    raise Failure(SYNTAX)


def _help(_caller: Caller, _words: list[bytes]) -> Reply:
    lines = ["COMMAND <subcommand> [<arg> ...]. Subcommands are:", "COUNT", "DOCS", "GETKEYS", "INFO", "LIST"]
    return help_lines(lines)


def commands(table: Table) -> tuple[Command, ...]:
    """COMMAND, which tells of those in `table`."""

    def every(caller: Caller, _words: list[bytes]) -> Reply:
        return [_details(command, caller.protocol) for command in table.values()]

    def count(_caller: Caller, _words: list[bytes]) -> Reply:
        return len(table)

    def info(caller: Caller, words: list[bytes]) -> Reply:
        named = [_named(table, name) for name in words[2:]] if len(words) > 2 else list(table.values())  # noqa: PLR2004
        return [None if command is None else _details(command, caller.protocol) for command in named]

    def docs(_caller: Caller, words: list[bytes]) -> Reply:
        named = [_named(table, name) for name in words[2:]] if len(words) > 2 else list(table.values())  # noqa: PLR2004
        return Map([(command.name, _documents(command)) for command in named if command is not None])

    def get_keys(_caller: Caller, words: list[bytes]) -> Reply:
        return _get_keys(table, words)

    def listed(_caller: Caller, words: list[bytes]) -> Reply:
        return list(_listed(table, words))

    flags = frozenset({"loading", "stale"})

    def sub(name: str, arity: int, run: object, since: str, summary: str) -> Command:
        assert callable(run)
        return Command(f"command|{name}", arity, run, flags, group="server", since=since, summary=summary)

    below = {
        "count": sub("count", 2, count, "2.8.13", "Returns a count of commands."),
        "info": sub("info", -2, info, "2.8.13", "Returns information about one, multiple or all commands."),
        "docs": sub("docs", -2, docs, "7.0.0", "Returns documentary information about one, multiple or all commands."),
        "getkeys": sub("getkeys", -3, get_keys, "2.8.13", "Extracts the key names from an arbitrary command."),
        "list": sub("list", -2, listed, "7.0.0", "Returns a list of command names."),
        "help": sub("help", 2, _help, "5.0.0", "Returns helpful text about the different subcommands."),
    }
    summary = "Returns detailed information about all commands."
    return (Command("command", -1, every, flags, group="server", since="2.8.13", summary=summary, subcommands=below),)
