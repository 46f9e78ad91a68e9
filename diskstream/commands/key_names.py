"""Keys whatever they hold: which there are, of what type, deleting and renaming them."""

import random

from diskstream.commands.arguments import Words, as_int
from diskstream.commands.caller import Caller
from diskstream.commands.failures import SYNTAX
from diskstream.commands.globs import glob
from diskstream.commands.listing import some_after
from diskstream.commands.replies import OK, Failure, Reply, Status
from diskstream.commands.table import Command

__all__ = ["COMMANDS"]

_MAX_CURSOR = 2**64 - 1
_CURSOR_DIGITS = 20  # Python takes no number of thousands of digits


def _delete(caller: Caller, words: list[bytes]) -> Reply:
    return caller.keyspace.delete_all(caller.database, words[1:])


def _exists(caller: Caller, words: list[bytes]) -> Reply:
    return sum(caller.keyspace.kind(caller.database, key) is not None for key in words[1:])


def _type(caller: Caller, words: list[bytes]) -> Reply:
    return Status((caller.keyspace.kind(caller.database, words[1]) or "none").encode())


def _rename(caller: Caller, words: list[bytes]) -> Reply:
    caller.keyspace.rename(caller.database, words[1], words[2])
    return OK


def _rename_if_free(caller: Caller, words: list[bytes]) -> Reply:
    return int(caller.keyspace.rename(caller.database, words[1], words[2], replace=False))


def _count(caller: Caller, _words: list[bytes]) -> Reply:
    return len(caller.keyspace.names(caller.database))


def _keys(caller: Caller, words: list[bytes]) -> Reply:
    names = caller.keyspace.names(caller.database)
    if words[1] == b"*":
        return names
    pattern = glob(words[1])
    return [name for name in names if pattern.fullmatch(name)]


def _any(caller: Caller, _words: list[bytes]) -> Reply:
    names = caller.keyspace.names(caller.database)
    return random.choice(names) if names else None


def _scan(caller: Caller, words: list[bytes]) -> Reply:
    """Some keys, and where to go on: nothing is remembered, and each that is there all along comes once."""
    digits = words[1].removeprefix(b"-" if words[1].startswith(b"-") else b"+")
    if not digits.isdigit() or len(digits) > _CURSOR_DIGITS or int(digits) > _MAX_CURSOR:
        raise Failure("ERR invalid cursor")
    cursor = _MAX_CURSOR if words[1].startswith(b"-") else int(digits)
    count, pattern, kind = 10, None, None
    left = Words(words, 2)
    while left:
        option = left.take().upper()
        if option == b"COUNT":
            count = as_int(left.take())
            if count < 1:
                raise Failure(SYNTAX)
        elif option == b"MATCH":
            pattern = glob(left.take())
        elif option == b"TYPE":
            kind = left.take().decode("latin-1").lower()
        else:
            raise Failure(SYNTAX)
    names, place = some_after(caller.keyspace.order(caller.database), cursor, count)
    found = [name for name in names if pattern is None or pattern.fullmatch(name)]
    if kind is not None:
        found = [name for name in found if caller.keyspace.kind(caller.database, name) == kind]
    return [b"%d" % place, found]


_READ, _WRITE = frozenset({"readonly"}), frozenset({"write"})
_FAST = frozenset({"fast"})
_ONE, _ALL, _TWO, _NONE = (1, 1, 1), (1, -1, 1), (1, 2, 1), (0, 0, 0)


COMMANDS = (
    Command("del", -2, _delete, _WRITE, _ALL, "generic", "1.0.0", "Deletes one or more keys."),
    Command("unlink", -2, _delete, _WRITE | _FAST, _ALL, "generic", "4.0.0", "Deletes one or more keys."),
    Command(
        "exists", -2, _exists, _READ | _FAST, _ALL, "generic", "1.0.0", "Determines whether one or more keys exist."
    ),
    Command("touch", -2, _exists, _READ | _FAST, _ALL, "generic", "3.2.1", "Returns the number of keys that exist."),
    Command("type", 2, _type, _READ | _FAST, _ONE, "generic", "1.0.0", "Determines the type of value stored at a key."),
    Command("rename", 3, _rename, _WRITE, _TWO, "generic", "1.0.0", "Renames a key and overwrites the destination."),
    Command(
        "renamenx",
        3,
        _rename_if_free,
        _WRITE | _FAST,
        _TWO,
        "generic",
        "1.0.0",
        "Renames a key if the target key doesn't exist.",
    ),
    Command(
        "keys",
        2,
        _keys,
        _READ,
        _NONE,
        "generic",
        "1.0.0",
        "Returns all key names that match a pattern.",
    ),
    Command("scan", -2, _scan, _READ, _NONE, "generic", "2.8.0", "Iterates over the key names in the database."),
    Command("randomkey", 1, _any, _READ, _NONE, "generic", "1.0.0", "Returns a random key name from the database."),
    Command("dbsize", 1, _count, _READ | _FAST, _NONE, "server", "1.0.0", "Returns the number of keys."),
)
