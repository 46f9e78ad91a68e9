"""Commands on pending entries: XACK, XACKDEL, XNACK, XCLAIM, XAUTOCLAIM and XPENDING."""

from collections import Counter
from typing import Any

from diskstream._native import EntryID
from diskstream.commands.arguments import INT_MAX, Words
from diskstream.commands.caller import Caller
from diskstream.commands.failures import SYNTAX, c_text, no_group
from diskstream.commands.id_words import as_end, as_id, as_start
from diskstream.commands.replies import NIL_ARRAY, Failure, Reply
from diskstream.commands.stream_adding import ids_with_references
from diskstream.commands.stream_options import counted_ids
from diskstream.commands.stream_read_options import FEW, most_bytes, refuse_beyond, reply_bytes, room
from diskstream.commands.table import Command
from diskstream.errors import ArgumentError
from diskstream.group import Group

__all__ = ["COMMANDS"]

# Entries that XAUTOCLAIM may be asked for: of more Redis could not hold the IDs.
_MOST_TO_CLAIM = INT_MAX // 16
_MODES = (b"SILENT", b"FAIL", b"FATAL")


def _group(caller: Caller, key: bytes, name: bytes) -> Group:
    """The group that is meant.

    Raises:
        Failure: there is none, or no such stream, or the key is of another type.
    """
    stream = caller.keyspace.stream(caller.database, key)
    group = stream.group(name, create=False)
    if not stream.exists() or not group.exists():
        raise no_group(key, name)
    return group


def _xack(caller: Caller, given: list[bytes]) -> Reply:
    stream = caller.keyspace.stream(caller.database, given[1])
    group = stream.group(given[2], create=False)
    try:
        ids = [as_id(word) for word in given[3:]]
    except Failure:
        if stream.exists() and group.exists():
            raise
        return 0  # as Redis, which does not look at IDs then
    return group.ack(*ids)


def _xackdel(caller: Caller, given: list[bytes]) -> Reply:
    stream = caller.keyspace.stream(caller.database, given[1])
    ids, ref = ids_with_references(Words(given, 3))
    return stream.group(given[2], create=False).ack_delete(*ids, ref=ref)


def _xnack(caller: Caller, given: list[bytes]) -> Reply:
    words = Words(given, 3)
    mode = words.take_option()
    if mode not in _MODES:
        raise Failure("ERR mode must be SILENT, FAIL, or FATAL")
    if words.option() != b"IDS":
        raise Failure("ERR syntax error, expected IDS keyword")
    ids = counted_ids(
        words,
        count_error="ERR numids must be a positive integer",
        match_error="ERR number of IDs doesn't match numids",
    )
    retry_count, force = None, False
    while words:
        option = words.take()
        if c_text(option).upper() == b"RETRYCOUNT" and words:
            retry_count = words.take_int("ERR Invalid RETRYCOUNT value, must be >= 0", least=0)
        elif c_text(option).upper() == b"FORCE":
            force = True
        else:
            raise Failure(b"ERR Unrecognized XNACK option '%s'" % c_text(option))
    group = _group(caller, given[1], given[2])
    return group.nack(*ids, mode=mode.decode(), retry_count=retry_count, force=force)


def _xclaim(caller: Caller, given: list[bytes]) -> Reply:
    group = _group(caller, given[1], given[2])
    words = Words(given, 4)
    min_idle_ms = max(0, words.take_int("ERR Invalid min-idle-time argument for XCLAIM"))
    ids = _leading_ids(words)
    options: dict[str, Any] = {}
    just_ids = False
    while words:
        option, more = words.take(), bool(words)
        name = c_text(option).upper()
        if name == b"JUSTID":
            just_ids = True
        elif name == b"FORCE":
            options["force"] = True
        elif name in (b"IDLE", b"TIME") and more:
            # Both say the same thing: the later one counts.
            options.pop("idle_ms", None), options.pop("time_ms", None)
            value = words.take_int(f"ERR Invalid {name.decode()} option argument for XCLAIM")
            options[f"{name.decode().lower()}_ms"] = max(-1, value)  # all below zero say: now
        elif name == b"RETRYCOUNT" and more:
            count = words.take_int("ERR Invalid RETRYCOUNT option argument for XCLAIM")
            options["retry_count"] = count if count >= 0 else None  # as if it were not there, in Redis
        elif name == b"LASTID" and more:
            options["last_id"] = as_id(words.take())
        else:
            raise Failure(b"ERR Unrecognized XCLAIM option '%s'" % c_text(option))
    if not just_ids:
        _refuse_many(caller, group, ids)
    consumer = group.consumer(given[3])
    if just_ids:
        return consumer.claim_ids(*ids, min_idle_ms=min_idle_ms, **options)
    return consumer.claim(*ids, min_idle_ms=min_idle_ms, **options)


def _refuse_many(caller: Caller, group: Group, ids: list[EntryID]) -> None:
    """Before anything is claimed: an ID that is named again and again has its entry in the reply each time.

    Raises:
        Failure: the reply would have more than it may.
    """
    named = Counter(ids)
    most = None if len(ids) == len(named) <= FEW else most_bytes(caller, None)
    if most is None:
        return
    size = 0
    for entry_id, times in named.items():
        entry = group.stream.get(entry_id)
        size += 0 if entry is None else times * reply_bytes([entry])
        refuse_beyond(size, most)


def _leading_ids(words: Words) -> list[EntryID]:
    """IDs up to the first word that is none: Redis takes that for an option, even where it comes first."""
    ids: list[EntryID] = []
    while words:
        try:
            ids.append(as_id(words.words[words.at]))
        except Failure:
            break
        words.take()
    return ids


def _xautoclaim(caller: Caller, given: list[bytes]) -> Reply:
    words = Words(given, 4)
    min_idle_ms = max(0, words.take_int("ERR Invalid min-idle-time argument for XAUTOCLAIM"))
    start = as_start(words.take())
    count, just_ids = 100, False
    while words:
        option = words.take_option()
        if option == b"COUNT" and words:
            count = words.take_int("ERR COUNT must be > 0", least=1, most=_MOST_TO_CLAIM)
        elif option == b"JUSTID":
            just_ids = True
        else:
            raise Failure(SYNTAX)
    consumer = _group(caller, given[1], given[2]).consumer(given[3])
    most, max_bytes = most_bytes(caller, count), None
    if most is not None:  # what a reply has no room for is not claimed: the cursor leads to it
        entries, max_bytes = room(most)
        count = min(count, entries)
    try:
        if just_ids:
            ids = consumer.autoclaim_ids(min_idle_ms, start, count=count)
            return [ids.cursor, ids.ids, ids.deleted]
        found = consumer.autoclaim(min_idle_ms, start, count=count, max_bytes=max_bytes)
    except ArgumentError as error:
        raise Failure(f"ERR {error}") from None
    return [found.cursor, found.entries, found.deleted]


def _xpending(caller: Caller, given: list[bytes]) -> Reply:
    if len(given) == 3:  # the summary has no more words
        summary = _group(caller, given[1], given[2]).pending()
        if not summary.total:
            return [0, None, None, NIL_ARRAY]
        consumers = [[name, b"%d" % count] for name, count in sorted(summary.consumers.items())]
        return [summary.total, summary.first, summary.last, consumers]
    words = Words(given, 3)
    idle_ms = None
    if not 3 <= words.left <= 6:  # start, end, count, and perhaps a consumer, IDLE and its value
        raise Failure(SYNTAX)
    if words.option() == b"IDLE":
        words.take()
        idle_ms = max(0, words.take_int())
        if words.left < 3:
            raise Failure(SYNTAX)
    low, high, count = words.take(), words.take(), max(0, words.take_int())
    start, end = as_start(low), as_end(high)
    consumer = words.take() if words else None  # and words behind it mean nothing
    found = _group(caller, given[1], given[2]).pending_range(start, end, count, consumer=consumer, idle_ms=idle_ms)
    return [[each.id, each.consumer, each.idle_ms, each.deliveries] for each in found]


_WRITE = frozenset({"write", "fast"})
_KEY = (1, 1, 1)
COMMANDS = (
    Command("xack", -4, _xack, _WRITE, _KEY, summary="Acknowledges entries of a group.", ends_waits=False),
    Command(
        "xackdel",
        -6,
        _xackdel,
        _WRITE,
        _KEY,
        since="8.2.0",
        summary="Acknowledges entries and deletes them.",
        ends_waits=False,
    ),
    Command("xnack", -7, _xnack, _WRITE, _KEY, since="8.8.0", summary="Gives entries back for others to claim."),
    Command("xclaim", -6, _xclaim, _WRITE, _KEY, summary="Takes over pending entries of others."),
    Command("xautoclaim", -6, _xautoclaim, _WRITE, _KEY, since="6.2.0", summary="Takes over what lies too long."),
    Command(
        "xpending", -3, _xpending, frozenset({"readonly"}), _KEY, summary="What is pending, in sum or entry by entry."
    ),
)
