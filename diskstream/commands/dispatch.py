"""A command on its way: found, allowed, queued where a transaction is being filled, else called and counted."""

from time import perf_counter_ns

from diskstream.commands.caller import Caller, Transaction
from diskstream.commands.moments import UNREAD
from diskstream.commands.replies import QUEUED, ErrorReply, Failure, Reply
from diskstream.commands.table import Command, Table, WrongCount, call, find
from diskstream.commands.waiting import Waiting

__all__ = ["dispatch", "run"]

# What may be said before one has said who one is.
_OPEN_TO_ALL = frozenset({"auth", "hello", "quit", "reset"})
# What is done at once though a transaction is being filled.
_NEVER_QUEUED = frozenset({"discard", "exec", "multi", "quit", "reset", "watch"})
# Commands of one transaction: as many as Redis takes in one array of a pipeline.
_MAX_QUEUED = 1 << 20
# What a word of a queued command takes beside its bytes: an object of its own, and a place in a list.
_WORD_BYTES = 48


def dispatch(table: Table, caller: Caller, words: list[bytes]) -> "Reply | Waiting":
    """What becomes of a command: a reply, `ErrorReply` where something is wrong, or `Waiting` where it waits.

    Args:
        table: all commands.
        caller: who it is.
        words: the command's name and its arguments; one at least.
    """
    try:
        command = find(table, words)
    except Failure as failure:
        known = failure.command if isinstance(failure, WrongCount) else None
        return _refused(caller, known, failure.text, ends=words[0].lower() == b"exec")
    name = command.name
    if caller.user is None and name not in _OPEN_TO_ALL:
        return _refused(caller, command, b"NOAUTH Authentication required.", ends=name == "exec")
    transaction = caller.transaction
    if transaction is not None and name not in _NEVER_QUEUED:
        if "no_multi" in command.flags:
            return _refused(caller, command, b"ERR Command not allowed inside a transaction")
        return _queued(caller, transaction, command, words)
    caller.last_command = name
    moment = caller.keyspace.moment
    moment.at = UNREAD
    try:
        return run(command, caller, words)
    finally:
        moment.at = None


def _queued(caller: Caller, transaction: Transaction, command: Command, words: list[bytes]) -> Reply:
    """Keeps a command for EXEC; what is kept counts as Redis has it: as part of the client's unfinished requests."""
    if transaction.failed:
        return QUEUED  # EXEC will refuse all of them: nothing is kept for it
    if len(transaction.queue) >= _MAX_QUEUED:
        return _refused(caller, command, b"ERR a transaction has %d commands at most" % _MAX_QUEUED)
    size = transaction.size_bytes + sum(map(len, words)) + _WORD_BYTES * len(words)
    limit = caller.keyspace.settings.number("client-query-buffer-limit")
    if size > limit:
        transaction.queue.clear()
        return _refused(caller, command, b"ERR a transaction has %d bytes at most (client-query-buffer-limit)" % limit)
    transaction.size_bytes = size
    transaction.queue.append(words)
    return QUEUED


def run(command: Command, caller: Caller, words: list[bytes]) -> "Reply | Waiting":
    """Calls a command that was found, and counts it."""
    statistics = caller.keyspace.statistics
    calls = statistics.commands.get(command.name) or statistics.of(command.name)
    started = perf_counter_ns()
    reply = call(command, caller, words)
    calls.nanoseconds += perf_counter_ns() - started
    calls.calls += 1
    if type(reply) is ErrorReply:
        calls.failed += 1
        statistics.count_error(reply.text)
        if caller.host is not None:
            caller.keyspace.troubles.met(reply.text)
    elif caller.keyspace.troubles.writes_fail and reply and "write" in command.flags and type(reply) is not Waiting:
        caller.keyspace.troubles.wrote()
    return reply


def _refused(caller: Caller, command: Command | None, text: bytes, *, ends: bool = False) -> ErrorReply:
    """What is told of a command that is not run; of an EXEC, which all the same `ends` the transaction, as in Redis."""
    if ends:
        caller.transaction = None
        caller.watched.clear()
        text = b"EXECABORT Transaction discarded because of: " + text.removeprefix(b"ERR ")
    if caller.transaction is not None:
        caller.transaction.failed = True
    statistics = caller.keyspace.statistics
    if command is not None:
        statistics.of(command.name).rejected += 1
    statistics.count_error(text)
    return ErrorReply(text)
