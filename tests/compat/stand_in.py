"""What is missing until `diskstream.commands.dispatch` and `all_commands` are there: the stream commands by name, and
just enough of transactions and keys for the tests of pipelines. To be removed with the first commit that has them."""

import importlib
from collections.abc import Callable
from typing import Any

from diskstream.commands.caller import Caller, Transaction
from diskstream.commands.replies import NIL_ARRAY, OK, QUEUED, ErrorReply, Failure, Map, Reply, Status
from diskstream.commands.table import Command, Table, call, find, table_of
from diskstream.commands.waiting import Waiting
from diskstream.errors import StreamExistsError
from diskstream.info import StreamInfo

MODULES = ("adding", "group_reading", "groups", "info", "pending", "reading")


def _version(caller: Caller, key: bytes) -> object:
    stream = caller.store.stream(key)
    info: StreamInfo | None = stream.info() if stream.exists() else None
    return info


def _watch(caller: Caller, words: list[bytes]) -> Reply:
    caller.watched += [(caller.database, key, _version(caller, key)) for key in words[1:]]
    return OK


def _unwatch(caller: Caller, words: list[bytes]) -> Reply:
    caller.watched.clear()
    return OK


def _multi(caller: Caller, words: list[bytes]) -> Reply:
    caller.transaction = Transaction()
    return OK


def _exec(caller: Caller, words: list[bytes]) -> Reply:
    asked, caller.transaction = caller.transaction, None
    watched, caller.watched = caller.watched, []
    if asked is None or asked.failed:
        raise Failure("EXECABORT Transaction discarded because of previous errors.")
    if any(_version(caller, key) != version for _, key, version in watched):
        return NIL_ARRAY
    caller.may_wait = False
    replies = [call(find(TABLE, queued), caller, queued) for queued in asked.queue]
    caller.may_wait = True
    return [NIL_ARRAY if isinstance(reply, Waiting) else reply for reply in replies]


def _rename(caller: Caller, words: list[bytes]) -> Reply:
    if not caller.store.exists(words[1]):
        raise Failure("ERR no such key")
    try:
        caller.store.rename(words[1], words[2], replace=len(words[0]) == len(b"RENAME"))
    except StreamExistsError:
        return 0
    return OK if len(words[0]) == len(b"RENAME") else 1


def _scan(caller: Caller, words: list[bytes]) -> Reply:
    return [b"0", caller.store.streams()]


def _command(name: str, run: Callable[[Caller, list[bytes]], Any]) -> Command:
    return Command(name, -1, run, frozenset())


TABLE: Table = table_of(
    *(importlib.import_module(f"diskstream.commands.stream_{name}").COMMANDS for name in MODULES),
    (
        _command("watch", _watch),
        _command("unwatch", _unwatch),
        _command("multi", _multi),
        _command("exec", _exec),
        _command("del", lambda caller, words: sum(map(caller.store.delete, words[1:]))),
        _command("exists", lambda caller, words: sum(map(caller.store.exists, words[1:]))),
        _command("dbsize", lambda caller, words: len(caller.store.streams())),
        _command("keys", lambda caller, words: caller.store.streams(words[1])),
        _command("type", lambda caller, words: Status(b"stream" if caller.store.exists(words[1]) else b"none")),
        _command("rename", _rename),
        _command("renamenx", _rename),
        _command("scan", _scan),
        _command("ping", lambda caller, words: Status(b"PONG")),
        _command("config", lambda caller, words: Map([])),
    ),
)


def dispatch(table: Table, caller: Caller, words: list[bytes]) -> Reply | Waiting:
    """Calls a command, or keeps it for EXEC."""
    try:
        command = find(table, words)
    except Failure as failure:
        if caller.transaction is not None:
            caller.transaction.failed = True
        return ErrorReply(failure.text)
    if caller.transaction is not None and command.name != "exec":
        caller.transaction.queue.append(words)
        return QUEUED
    return call(command, caller, words)
