"""The groups of a Redis stream, with their consumers and pending entries, as a copy of them would have it."""

from __future__ import annotations

from typing import Any

from diskstream.archiving.server import Server, members
from diskstream.copying import ConsumerState, GroupState, PendingState
from diskstream.errors import RemoteError, quoted
from diskstream.ids import EntryID
from diskstream.redis_link import is_full, telling

__all__ = ["groups_of"]

_PENDING_AT_ONCE = 5000
_MOST_LOOKS = 8  # at a clock that is between two milliseconds


def groups_of(server: Server, key: bytes) -> list[GroupState]:
    """All groups of a stream, in byte order. Pending entries of all of them are in memory then.

    Raises:
        RemoteError: the server failed or refused; also where the key is gone.
    """
    listed = server.call(f"list the groups of {quoted(key)}", "XINFO", "GROUPS", key)
    found: list[GroupState] = []
    for each in listed:
        try:
            found.append(_group(server, key, members(each)))
        except RemoteError as error:
            if not _is_gone(error):
                raise
    return sorted(found, key=lambda group: group.name)


def _is_gone(error: RemoteError) -> bool:
    """Whether the group was destroyed since they were listed; other errors may have that word in a name."""
    import redis

    cause = error.__cause__  # of a pipeline its text names the command first
    return isinstance(cause, redis.ResponseError) and str(cause).rpartition("caused error: ")[2].startswith("NOGROUP")


def _group(server: Server, key: bytes, facts: dict[bytes, Any]) -> GroupState:
    name = facts[b"name"]
    read = facts.get(b"entries-read")
    now = _now_ms(server)
    consumers = [
        _consumer(members(each), now)
        for each in server.call(f"list the consumers of {quoted(key)}", "XINFO", "CONSUMERS", key, name)
    ]
    places = {consumer.name: place for place, consumer in enumerate(consumers)}
    pending: list[PendingState] = []
    start: EntryID | None = EntryID(0, 0)
    while start is not None:
        rows, now = _page(server, key, name, start)
        for entry_id, owner, idle, deliveries in rows:
            if idle >= 0 and owner not in places:  # made since they were listed
                places[owner] = len(consumers)
                consumers.append(ConsumerState(owner, now, now))
            # What nobody has is told as that of a consumer '', and there may be one; its age alone is no age.
            place = places[owner] if idle >= 0 else -1
            pending.append(PendingState(EntryID(entry_id), place, max(0, now - max(0, idle)), int(deliveries)))
        start = pending[-1].id.next() if len(rows) == _PENDING_AT_ONCE else None
    return GroupState(
        name, EntryID(facts[b"last-delivered-id"]), None if read is None else int(read), consumers, pending
    )


def _consumer(facts: dict[bytes, Any], now: int) -> ConsumerState:
    """Servers before 7.2 do not tell when a consumer was given something last: then it is when it was seen."""
    seen = max(0, now - int(facts[b"idle"]))
    inactive = facts.get(b"inactive")
    if inactive is None:
        return ConsumerState(facts[b"name"], seen, seen)
    return ConsumerState(facts[b"name"], seen, None if int(inactive) < 0 else max(0, now - int(inactive)))


def _page(server: Server, key: bytes, group: bytes, start: EntryID) -> tuple[list[Any], int]:
    """Some pending entries, and the time of the server that their ages count from.

    Servers look at the clock for each command, or for a transaction, so TIME may say the millisecond before or behind.
    The first entry is asked for beside the others, for its age between two TIMEs of one millisecond: that says when it
    was delivered, and so what the clock was where its age among the others is counted from.
    """
    listing = "XPENDING", key, group, bytes(start), "+"
    left, at_once = _MOST_LOOKS, True
    while True:
        left -= 1
        try:
            before, first, behind, rows = _looked(server, key, group, listing, at_once=at_once)
        except RemoteError as error:
            if not at_once or not is_full(error):
                raise
            at_once = False  # a server without room takes no transaction, not even one that only reads
            continue
        now = _ms(behind)
        if not first or first[0][2] < 0 or not left:  # that of nobody is told with no age
            return rows, now
        is_same = bool(rows) and _but_age(rows[0]) == _but_age(first[0])  # without a transaction it may be another
        if _ms(before) == now and is_same:
            return rows, now + rows[0][2] - first[0][2]


def _looked(server: Server, key: bytes, group: bytes, listing: tuple[Any, ...], *, at_once: bool) -> list[Any]:
    """A time, the first pending entry, a time, some of them; with `at_once` nothing changes between the last three."""
    words: list[tuple[Any, ...]] = [("TIME",), (*listing, 1), ("TIME",), (*listing, _PENDING_AT_ONCE)]
    if at_once:
        words = [words[0], ("MULTI",), *words[1:], ("EXEC",)]
    with telling(server.url, f"list what is pending in {quoted(group)} of {quoted(key)}"):
        pipeline = server.client.pipeline(transaction=False)
        for each in words:
            pipeline.execute_command(*each)
        replies: list[Any] = pipeline.execute()
        if at_once:
            replies = [replies[0], *replies[-1]]
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
    return replies


def _but_age(row: Any) -> tuple[Any, ...]:
    entry_id, owner, _, deliveries = row
    return entry_id, owner, deliveries


def _now_ms(server: Server) -> int:
    return _ms(server.call("ask for its time", "TIME"))


def _ms(reply: Any) -> int:
    seconds, micros = reply
    return int(seconds) * 1000 + int(micros) // 1000
