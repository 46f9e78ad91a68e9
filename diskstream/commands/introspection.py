"""COMMAND: what commands there are, for clients that ask before they call."""

from collections.abc import Iterable

from diskstream.commands.caller import Caller
from diskstream.commands.command_facts import categories_of, flags_of, tips_of
from diskstream.commands.failures import SYNTAX
from diskstream.commands.globs import glob
from diskstream.commands.help import help_lines
from diskstream.commands.key_specs import key_flags, key_specs
from diskstream.commands.replies import Failure, Map, Reply, Status
from diskstream.commands.table import Command, Table
from diskstream.commands.wire import set_of

__all__ = ["commands", "keys_of"]


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
    return [
        command.name,
        command.arity,
        set_of([Status(flag.encode()) for flag in flags_of(command)], protocol),
        first,
        last,
        step,
        set_of([Status(category.encode()) for category in categories_of(command)], protocol),
        set_of(tips_of(command), protocol),
        set_of(key_specs(command, protocol), protocol),
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


def _get_keys(table: Table, words: list[bytes]) -> tuple[Command, list[bytes]]:
    command = table.get(words[2].decode("latin-1").lower())
    if command is not None and command.subcommands and len(words) > 3:
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
    return command, found


def _listed(table: Table, words: list[bytes]) -> Iterable[str]:
    every = [command for top in table.values() for command in (top, *top.subcommands.values())]
    if len(words) == 2:
        return list(table)
    if len(words) != 5 or words[2].upper() != b"FILTERBY":
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
    lines = [
        "COMMAND <subcommand> [<arg> ...]. Subcommands are:",
        "COUNT",
        "DOCS",
        "GETKEYS",
        "GETKEYSANDFLAGS",
        "INFO",
        "LIST",
    ]
    return help_lines(lines)


def commands(table: Table) -> tuple[Command, ...]:
    """COMMAND, which tells of those in `table`."""

    def every(caller: Caller, _words: list[bytes]) -> Reply:
        return [_details(command, caller.protocol) for command in table.values()]

    def count(_caller: Caller, _words: list[bytes]) -> Reply:
        return len(table)

    def info(caller: Caller, words: list[bytes]) -> Reply:
        named = [_named(table, name) for name in words[2:]] if len(words) > 2 else list(table.values())
        return [None if command is None else _details(command, caller.protocol) for command in named]

    def docs(_caller: Caller, words: list[bytes]) -> Reply:
        named = [_named(table, name) for name in words[2:]] if len(words) > 2 else list(table.values())
        return Map([(command.name, _documents(command)) for command in named if command is not None])

    def get_keys(_caller: Caller, words: list[bytes]) -> Reply:
        return _get_keys(table, words)[1]

    def get_keys_and_flags(caller: Caller, words: list[bytes]) -> Reply:
        command, found = _get_keys(table, words)
        said = [key_flags(command, number, words[2:]) for number in range(len(found))]
        as_set = [set_of([Status(flag.encode()) for flag in flags], caller.protocol) for flags in said]
        return [[key, flags] for key, flags in zip(found, as_set, strict=True)]

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
        "getkeys": sub("getkeys", -4, get_keys, "2.8.13", "Extracts the key names from an arbitrary command."),
        "getkeysandflags": sub(
            "getkeysandflags",
            -4,
            get_keys_and_flags,
            "7.0.0",
            "Extracts the key names and access flags for an arbitrary command.",
        ),
        "list": sub("list", -2, listed, "7.0.0", "Returns a list of command names."),
        "help": sub("help", 2, _help, "5.0.0", "Returns helpful text about the different subcommands."),
    }
    summary = "Returns detailed information about all commands."
    return (Command("command", -1, every, flags, group="server", since="2.8.13", summary=summary, subcommands=below),)
