"""Keys from one place into another: COPY, MOVE, SWAPDB, DUMP, RESTORE; and FLUSHDB, FLUSHALL."""

import contextlib
from itertools import pairwise
from typing import Any

from diskstream.commands.arguments import INT_MAX, Words, as_int, as_small_int
from diskstream.commands.caller import Caller
from diskstream.commands.dumps import dump_stream, dump_values, load
from diskstream.commands.failures import SYNTAX
from diskstream.commands.keyspace import DATABASES
from diskstream.commands.replies import OK, Failure, Reply
from diskstream.commands.table import Command, Run
from diskstream.copying import fill, temporary_name
from diskstream.errors import ArgumentError, NoSuchStreamError, StreamExistsError

__all__ = ["COMMANDS", "database_named"]

# What a RESTORE may say of how a key was used, up to what, and what else is answered; here it means nothing.
_KEPT_FOR_EVICTION = {
    b"IDLETIME": (INT_MAX, "ERR Invalid IDLETIME value, must be >= 0"),
    b"FREQ": (255, "ERR Invalid FREQ value, must be >= 0 and <= 255"),
}
_TAKEN = "BUSYKEY Target key name already exists."
_SAME = "ERR source and destination objects are the same"


def _database(word: bytes) -> int:
    number = as_small_int(word)
    if not 0 <= number < DATABASES:
        raise Failure("ERR DB index is out of range")
    return number


def _copy(caller: Caller, words: list[bytes]) -> Reply:
    database, replace = caller.database, False
    left = Words(words, 3)
    while left:
        option = left.take().upper()
        if option == b"REPLACE":
            replace = True
        elif option == b"DB":
            database = _database(left.take())
        else:
            raise Failure(SYNTAX)
    if database == caller.database and words[1] == words[2]:
        raise Failure(_SAME)
    return int(caller.keyspace.copy(caller.database, words[1], database, words[2], replace=replace))


def _move(caller: Caller, words: list[bytes]) -> Reply:
    database = _database(words[2])
    if database == caller.database:
        raise Failure(_SAME)
    return int(caller.keyspace.move(caller.database, words[1], database))


def database_named(words: list[bytes], database: int) -> int:
    """The database that a MOVE or a COPY writes to; for all other commands, and where it names none, `database`."""
    name, word = words[0].lower(), None
    if name == b"move":
        word = words[2] if len(words) > 2 else None
    elif name == b"copy":
        word = next((word for option, word in pairwise(words[3:]) if option.upper() == b"DB"), None)
    if word is not None:
        with contextlib.suppress(Failure):  # it will be told so
            return as_small_int(word)
    return database


def _swap(caller: Caller, words: list[bytes]) -> Reply:
    numbers = [
        as_small_int(words[1], "ERR invalid first DB index"),
        as_small_int(words[2], "ERR invalid second DB index"),
    ]
    if not all(0 <= number < DATABASES for number in numbers):
        raise Failure("ERR DB index is out of range")
    caller.keyspace.swap(*numbers)
    return OK


def _flush(*, every: bool) -> Run:
    def run(caller: Caller, words: list[bytes]) -> Reply:
        if len(words) > 2 or (len(words) == 2 and words[1].upper() not in (b"ASYNC", b"SYNC")):
            raise Failure(SYNTAX)
        caller.keyspace.flush(None if every else caller.database)
        return OK

    return run


def _dump(caller: Caller, words: list[bytes]) -> Reply:
    keyspace, key = caller.keyspace, words[1]
    found = keyspace.held(caller.database, key)
    if found is None:
        return None
    kind, values = found
    if kind != "stream":
        return dump_values(kind, values)
    try:
        return dump_stream(keyspace.stream(caller.database, key))
    except NoSuchStreamError:  # somebody has just removed it
        return None


def _restore_options(words: list[bytes]) -> tuple[bool, bool]:
    """Whether a RESTORE replaces the key, and whether its life is a time of the clock."""
    replace = absolute = False
    told = b""
    left = Words(words, 4)
    while left:
        option = left.take().upper()
        if option == b"REPLACE":
            replace = True
        elif option == b"ABSTTL":
            absolute = True
        elif option in _KEPT_FOR_EVICTION and told in (b"", option):  # a Redis keeps one or the other
            told = option
            most, refusal = _KEPT_FOR_EVICTION[option]
            if not 0 <= as_int(left.take()) <= most:
                raise Failure(refusal)
        else:
            raise Failure(SYNTAX)
    return replace, absolute


def _restore(caller: Caller, words: list[bytes]) -> Reply:
    replace, absolute = _restore_options(words)
    keyspace, key = caller.keyspace, words[1]
    _refuse_taken(caller, key, replace=replace)
    life = as_int(words[2])
    if life < 0:
        raise Failure("ERR Invalid TTL value, must be >= 0")
    expires = None if not life else life if absolute else keyspace.now_ms() + life
    if expires is not None and expires > INT_MAX:
        raise Failure("ERR invalid expire time in 'restore' command")
    kind, values, state, entries = load(words[3])
    if expires is not None and expires <= keyspace.now_ms():
        if replace:
            keyspace.delete(caller.database, key)
        return OK
    if state is not None:
        return _restored(caller, key, (state, entries), expires, replace=replace)
    with keyspace.changing():
        _refuse_taken(caller, key, replace=replace)  # another process may have been faster
        try:
            keyspace.put_values(caller.database, key, kind, values, expires=expires, replace=replace)
        except StreamExistsError as error:
            raise Failure(_TAKEN) from error
    return OK


def _refuse_taken(caller: Caller, key: bytes, *, replace: bool) -> None:
    if not replace and caller.keyspace.kind(caller.database, key) is not None:
        raise Failure(_TAKEN)


def _restored(caller: Caller, key: bytes, content: tuple[Any, Any], expires: int | None, *, replace: bool) -> Reply:
    """A stream, filled under a name of its own, which takes its place when it is whole."""
    keyspace, (state, entries) = caller.keyspace, content
    store = keyspace.store(caller.database)
    fresh = store.stream(temporary_name())
    try:
        fill(fresh, state, entries)
        keyspace.take(caller.database, key, fresh, expires, replace=replace)
    except StreamExistsError as error:
        store.delete(fresh.name)
        raise Failure(_TAKEN) from error
    except ArgumentError as error:
        store.delete(fresh.name)
        raise Failure("ERR Bad data format") from error
    except BaseException:
        store.delete(fresh.name)
        raise
    return OK


_WRITE, _READ = frozenset({"write"}), frozenset({"readonly"})
_ONE, _TWO, _NONE = (1, 1, 1), (1, 2, 1), (0, 0, 0)

COMMANDS = (
    Command(
        "copy", -3, _copy, _WRITE | {"denyoom"}, _TWO, "generic", "6.2.0", "Copies the value of a key to a new key."
    ),
    Command("move", 3, _move, _WRITE | {"fast"}, _ONE, "generic", "1.0.0", "Moves a key to another database."),
    Command("dump", 2, _dump, _READ, _ONE, "generic", "2.6.0", "Returns a serialized representation of a key."),
    Command(
        "restore",
        -4,
        _restore,
        _WRITE | {"denyoom"},
        _ONE,
        "generic",
        "2.6.0",
        "Creates a key from what DUMP returned.",
    ),
    Command("swapdb", 3, _swap, _WRITE | {"fast"}, _NONE, "server", "4.0.0", "Swaps two databases."),
    Command("flushdb", -1, _flush(every=False), _WRITE, _NONE, "server", "1.0.0", "Removes all keys of a database."),
    Command("flushall", -1, _flush(every=True), _WRITE, _NONE, "server", "1.0.0", "Removes all keys of all databases."),
)
