"""MULTI, EXEC, DISCARD, WATCH, UNWATCH."""

from diskstream.commands.caller import Caller, Transaction
from diskstream.commands.dispatch import run
from diskstream.commands.replies import NIL_ARRAY, OK, ErrorReply, Failure, Raw, Reply
from diskstream.commands.table import Command, Table, find
from diskstream.commands.waiting import Waiting
from diskstream.commands.wire import encode

__all__ = ["WATCHED_BYTES", "commands"]

# What a watched key takes beside its name: its version, and its place among others.
WATCHED_BYTES = 512

_FAST = frozenset({"noscript", "loading", "stale", "fast", "allow_busy"})
_SLOW = frozenset({"noscript", "loading", "stale", "skip_slowlog"})


def _multi(caller: Caller, _words: list[bytes]) -> Reply:
    if caller.transaction is not None:
        raise Failure("ERR MULTI calls can not be nested")
    caller.transaction = Transaction()
    return OK


def _discard(caller: Caller, _words: list[bytes]) -> Reply:
    if caller.transaction is None:
        raise Failure("ERR DISCARD without MULTI")
    caller.transaction = None
    caller.watched.clear()
    return OK


def _watch(caller: Caller, words: list[bytes]) -> Reply:
    if caller.transaction is not None:
        raise Failure("ERR WATCH inside MULTI is not allowed")
    watched, keyspace = caller.watched, caller.keyspace
    fresh = [place for key in dict.fromkeys(words[1:]) if (place := (caller.database, key)) not in watched]
    # It counts as unfinished requests do: a client may name keys for as long as it is connected.
    size = (caller.watched_bytes if watched else 0) + sum(WATCHED_BYTES + len(key) for _, key in fresh)
    limit = keyspace.settings.number("client-query-buffer-limit")
    if size > limit:
        raise Failure(b"ERR what a client watches has %d bytes at most (client-query-buffer-limit)" % limit)
    caller.watched_bytes = size
    keyspace.watches(caller)
    for place in fresh:
        watched[place] = keyspace.version(*place)
    return OK


def _unwatch(caller: Caller, _words: list[bytes]) -> Reply:
    caller.watched.clear()
    return OK


def _execute(table: Table, caller: Caller) -> Reply:
    transaction, watched = caller.transaction, caller.watched
    if transaction is None:
        raise Failure("ERR EXEC without MULTI")
    caller.transaction, caller.watched = None, {}
    if transaction.failed:
        raise Failure("EXECABORT Transaction discarded because of previous errors.")
    keyspace = caller.keyspace
    if any(keyspace.version(*place) != version for place, version in watched.items()):
        return NIL_ARRAY
    may_wait, caller.may_wait = caller.may_wait, False
    try:
        return _all(table, caller, transaction.queue)
    finally:
        caller.may_wait = may_wait


def _all(table: Table, caller: Caller, queue: list[list[bytes]]) -> Reply:
    """The replies to all, each in the protocol that its client spoke then: HELLO may be one of them.

    CLIENT REPLY may be one, too: `Raw` is then what is left of them, to be told whatever the mode is by the end. As
    from a Redis, it is no whole array.
    """
    replies, protocol = list[Reply](), caller.protocol
    is_silent = starts_silent = was_silent = caller.reply_mode in ("off", "skipping")
    skips = False
    for words in queue:
        reply = _one(table, caller, words)
        if caller.protocol != protocol:
            replies = [Raw(encode([each], resp3=protocol > 2)) for each in replies]  # RESP3
            protocol = caller.protocol
        mode = caller.reply_mode
        is_silent = mode == "off" or (mode != "on" and is_silent)
        was_silent, skips = was_silent or is_silent, skips or mode == "skip"
        replies.append(Raw(b"") if is_silent else reply)
    if skips and caller.reply_mode == "on":
        caller.reply_mode = "skip"  # it is for what comes behind EXEC
    if not (was_silent or skips):
        return replies
    return Raw((b"" if starts_silent else b"*%d\r\n" % len(queue)) + encode(replies, resp3=protocol > 2))


def _one(table: Table, caller: Caller, words: list[bytes]) -> Reply:
    try:
        command = find(table, words)
    except Failure as failure:
        return ErrorReply(failure.text)
    reply = run(command, caller, words)
    return reply.otherwise if isinstance(reply, Waiting) else reply


def commands(table: Table) -> tuple[Command, ...]:
    """The commands; EXEC looks up in `table` what was queued."""

    def execute(caller: Caller, _words: list[bytes]) -> Reply:
        return _execute(table, caller)

    group = "transactions"
    return (
        Command("multi", 1, _multi, _FAST, group=group, since="1.2.0", summary="Starts a transaction."),
        Command(
            "exec", 1, execute, _SLOW, group=group, since="1.2.0", summary="Executes all commands in a transaction."
        ),
        Command("discard", 1, _discard, _FAST, group=group, since="2.0.0", summary="Discards a transaction."),
        Command(
            "watch",
            -2,
            _watch,
            _FAST,
            (1, -1, 1),
            group=group,
            since="2.2.0",
            summary="Monitors changes to keys to determine the execution of a transaction.",
        ),
        Command("unwatch", 1, _unwatch, _FAST, group=group, since="2.2.0", summary="Forgets about watched keys."),
    )
