"""The model behind Redis's commands: an operation in, the reply of RESP2 out (XINFO as dictionaries)."""

import re
from collections.abc import Callable
from typing import Any

from tests.groups.model import FOREVER, ID, LAST, ZERO, Budget, Claim, Group, Pairs, Stream
from tests.groups.ops import OURS_ALONE, Op
from tests.streams.commands import Refused

__all__ = ["Model", "parse_end", "parse_id", "parse_start", "shown"]

_ID = re.compile(r"(\d{1,20})(?:-(\d{1,20}))?")
_NO_KEY = "no such key"
_NO_STREAM = (
    "The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to "
    "create an empty stream automatically."
)


class RefusalError(Exception):
    """A command was refused; its text is Redis's."""


def shown(id: ID) -> bytes:
    return b"%d-%d" % id


def parse_id(text: str, missing: int = 0) -> ID:
    match = _ID.fullmatch(text)
    if match is None:
        raise RefusalError("Invalid stream ID specified as stream command argument")
    id = (int(match[1]), missing if match[2] is None else int(match[2]))
    if max(id) > LAST[0]:
        raise RefusalError("Invalid stream ID specified as stream command argument")
    return id


def parse_start(text: str) -> ID:
    if text.startswith("("):
        ms, seq = parse_id(text[1:])
        if (ms, seq) == LAST:
            raise RefusalError("invalid start ID for the interval")
        return (ms, seq + 1) if seq < LAST[1] else (ms + 1, 0)
    return {"-": ZERO, "+": LAST}.get(text) or parse_id(text)


def parse_end(text: str) -> ID:
    if text.startswith("("):
        ms, seq = parse_id(text[1:], LAST[1])
        if (ms, seq) == ZERO:
            raise RefusalError("invalid end ID for the interval")
        return (ms, seq - 1) if seq > 0 else (ms - 1, LAST[1])
    return {"-": ZERO, "+": LAST}.get(text) or parse_id(text, LAST[1])


def _no_group(key: str, group: str, text: str = "No such key '{0}' or consumer group '{1}'") -> RefusalError:
    return RefusalError("NOGROUP " + text.format(key, group))


class Model:
    """A server's streams. `clock` gives milliseconds."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.streams: dict[str, Stream] = {}
        self._clock = clock

    def run(self, op: Op) -> Any:
        if op.name in OURS_ALONE:
            return None
        method: Callable[..., Any] = getattr(self, op.name)
        try:
            return method(**op.args)
        except RefusalError as refusal:
            return Refused(refusal)

    def group(self, key: str, group: str) -> Group | None:
        stream = self.streams.get(key)
        return None if stream is None else stream.groups.get(group.encode())

    def _of(self, key: str, group: str) -> tuple[Stream, Group]:
        """A stream and its group, for XCLAIM and the like."""
        found = self.group(key, group)
        if found is None:
            raise _no_group(key, group)
        return self.streams[key], found

    def _managed(self, key: str, group: str) -> Group:
        """A group, for XGROUP."""
        if key not in self.streams:
            raise RefusalError(_NO_STREAM)
        found = self.group(key, group)
        if found is None:
            raise _no_group(key, group, "No such consumer group '{1}' for key name '{0}'")
        return found

    def _stream(self, key: str) -> Stream:
        if key not in self.streams:
            raise RefusalError(_NO_KEY)
        return self.streams[key]

    # --- entries ------------------------------------------------------------------------------------------------------

    def xadd(
        self,
        key: str,
        id: str,
        fields: Pairs,
        nomkstream: bool = False,
        trim: tuple[str, str, Any] | None = None,
        ref: str = "KEEPREF",
        producer: str | None = None,
        message: str | None = None,
    ) -> Any:
        limits = None if trim is None else _limits(trim)
        if id != "*" and not id.endswith("-*") and parse_id(id) == ZERO:
            raise RefusalError("The ID specified in XADD must be greater than 0-0")
        if nomkstream and key not in self.streams:
            return None
        stream = self.streams.setdefault(key, Stream())
        sent = (producer or "").encode()
        what: object = tuple(sorted(fields)) if message is None else message
        if producer is not None and (original := stream.original(sent, what, self._clock())) is not None:
            stream.duplicates += 1
            return shown(original)
        added = self._next_id(stream, id)
        stream.add(added, fields)
        if producer is not None:
            stream.remember(sent, what, added)
        if limits is not None:
            stream.trim(*limits, ref)
        return shown(added)

    def _next_id(self, stream: Stream, given: str) -> ID:
        if stream.last == LAST:
            raise RefusalError("The stream has exhausted the last possible ID, unable to add more items")
        ms, seq = stream.last
        after = (ms, seq + 1) if seq < LAST[1] else (ms + 1, 0)
        if given == "*":
            now = self._clock()
            return (now, 0) if now > ms else after
        if given.endswith("-*"):
            wanted, _ = parse_id(given[:-2])
            id = (wanted, seq + 1 if wanted == ms else 0)
        else:
            id = parse_id(given)
        if id <= stream.last or id[1] > LAST[1]:
            raise RefusalError("The ID specified in XADD is equal or smaller than the target stream top item")
        return id

    def add_many(self, key: str, entries: list[tuple[str, Pairs]]) -> list[bytes]:
        """One frame of ours; here as many XADD."""
        return [self.xadd(key, id, fields) for id, fields in entries]

    def xtrim(self, key: str, trim: tuple[str, str, Any], ref: str = "KEEPREF") -> int:
        limits = _limits(trim)
        return self.streams[key].trim(*limits, ref) if key in self.streams else 0

    def xdel(self, key: str, ids: list[str]) -> int:
        wanted = [parse_id(id) for id in ids]
        return sum(self.streams[key].delete(id) for id in wanted) if key in self.streams else 0

    def xdelex(self, key: str, ids: list[str], ref: str = "KEEPREF") -> list[int]:
        wanted = [parse_id(id) for id in ids]
        return [self.streams[key].delete_entry(id, ref) if key in self.streams else -1 for id in wanted]

    def xsetid(self, key: str, id: str, added: int | None = None, deleted: str | None = None) -> bytes:
        last, greatest = parse_id(id), ZERO if deleted is None else parse_id(deleted)
        if added is not None and added < 0:
            raise RefusalError("entries_added must be positive")
        smaller = "The ID specified in XSETID is smaller than "
        if last < greatest:
            raise RefusalError(smaller + "the provided max_deleted_entry_id")
        stream = self._stream(key)
        if last < stream.deleted:
            raise RefusalError(smaller + "current max_deleted_entry_id")
        if last < stream.top:
            raise RefusalError(smaller + "the target stream top item")
        if added is not None and added < len(stream.entries):
            raise RefusalError("The entries_added specified in XSETID is smaller than the target stream length")
        stream.last = last
        stream.added = stream.added if added is None else added
        stream.deleted = stream.deleted if greatest == ZERO else greatest
        return b"OK"

    def xlen(self, key: str) -> int:
        return len(self.streams[key].entries) if key in self.streams else 0

    def xrange(self, key: str, start: str, end: str, count: int = FOREVER) -> list[Any]:
        low, high = parse_start(start), parse_end(end)
        entries = self.streams[key].entries if key in self.streams else {}
        return [_entry(id, pairs) for id, pairs in entries.items() if low <= id <= high][:count]

    def xread(self, streams: list[tuple[str, str]], count: int = FOREVER) -> Any:
        found = []
        for key, after in streams:
            stream = self.streams.get(key, Stream())
            position = stream.last if after == "$" else parse_id(after)
            found.append(
                [key.encode(), [_entry(id, pairs) for id, pairs in stream.entries.items() if id > position][:count]]
            )
        return [read for read in found if read[1]] or None

    def delete(self, key: str) -> int:
        return int(self.streams.pop(key, None) is not None)

    def rename(self, key: str, new: str) -> bytes:
        self.streams[new] = self.streams.pop(key) if key in self.streams else self._stream(key)
        return b"OK"

    def xcfgset(self, key: str, duration: int | None = None, maxsize: int | None = None) -> bytes:
        self._stream(key).configure(duration, maxsize)
        return b"OK"

    def xidmprecord(self, key: str, producer: str, message: str, id: str) -> bytes:
        stream, wanted, sent = self._stream(key), parse_id(id), producer.encode()
        if wanted not in stream.entries:
            raise RefusalError("No such message in stream")
        known = stream.original(sent, message, self._clock())
        if known not in (None, wanted):
            raise RefusalError("IID already exists for this producer with a different stream ID")
        if known is None:
            stream.remember(sent, message, wanted)
        return b"OK"

    # --- groups -------------------------------------------------------------------------------------------------------

    def xgroup_create(
        self, key: str, group: str, id: str, mkstream: bool = False, entries_read: int | None = None
    ) -> bytes:
        read = _entries_read(entries_read)
        if key not in self.streams and not mkstream:
            raise RefusalError(_NO_STREAM)
        stream = self.streams.get(key, Stream())
        last = stream.last if id == "$" else parse_id(id)
        self.streams[key] = stream
        if group.encode() in stream.groups:
            raise RefusalError("BUSYGROUP Consumer Group name already exists")
        stream.groups[group.encode()] = Group(last, None if read is None else min(read, stream.added))
        return b"OK"

    def xgroup_setid(self, key: str, group: str, id: str, entries_read: int | None = None) -> bytes:
        read = _entries_read(entries_read)
        found = self._managed(key, group)
        stream = self.streams[key]
        found.last = {"$": stream.last, "-": ZERO, "+": LAST}.get(id) or parse_id(id)
        found.read = None if read is None else min(read, stream.added)
        return b"OK"

    def xgroup_destroy(self, key: str, group: str) -> int:
        if key not in self.streams:
            raise RefusalError(_NO_STREAM)
        return int(self.streams[key].groups.pop(group.encode(), None) is not None)

    def xgroup_createconsumer(self, key: str, group: str, consumer: str) -> int:
        found = self._managed(key, group)
        if consumer.encode() in found.consumers:
            return 0
        found.hear_of(consumer.encode(), self._clock())
        return 1

    def xgroup_delconsumer(self, key: str, group: str, consumer: str) -> int:
        return self._managed(key, group).dismiss(consumer.encode())

    def xreadgroup(
        self,
        group: str,
        consumer: str,
        streams: list[tuple[str, str]],
        count: int | None = None,
        max_count: int | None = None,
        max_bytes: int | None = None,
        claim: int | None = None,
        noack: bool = False,
        way: str = "",
    ) -> Any:
        positions: list[ID | None] = []  # None for new entries
        for key, after in streams:
            if self.group(key, group) is None:
                raise _no_group(key, group, "No such key '{0}' or consumer group '{1}' in XREADGROUP with GROUP option")
            positions.append(None if after == ">" or parse_id(after) == LAST else parse_id(after))
        budget = Budget(FOREVER if max_count is None else max_count, FOREVER if max_bytes is None else max_bytes)
        most = FOREVER if count is None or count <= 0 else count
        name, now, reply = consumer.encode(), self._clock(), []
        for (key, _), position in zip(streams, positions, strict=True):
            if budget.is_spent:
                break
            stream, found = self._of(key, group)
            found.hear_of(name, now)
            if position is not None:
                claim = None  # a quirk of Redis: for this stream and those behind it
                history = stream.read_history(found, name, position, most, now, budget)
                reply.append([key.encode(), [_history(stream, id) for id in history]])
                continue
            claimed = [] if claim is None else stream.read_claimed(found, name, claim, most, now, budget)
            new = stream.read_new(found, name, most - len(claimed), now, budget, noack=noack)
            entries = [[*_entry(id, stream.entries[id]), *behind] for id, *behind in claimed]
            entries += [[*_entry(id, stream.entries[id]), *((0, 0) if claim is not None else ())] for id in new]
            if entries:
                reply.append([key.encode(), entries])
        return reply or None

    def xack(self, key: str, group: str, ids: list[str]) -> int:
        found = self.group(key, group)
        return 0 if found is None else found.acknowledge([parse_id(id) for id in ids])

    def xackdel(self, key: str, group: str, ids: list[str], ref: str = "KEEPREF") -> list[int]:
        found = self.group(key, group)
        if found is None:
            return [-1] * len(ids)
        wanted = [parse_id(id) for id in ids]
        return [self.streams[key].acknowledge_and_delete(found, id, ref) for id in wanted]

    def xnack(
        self, key: str, group: str, mode: str, ids: list[str], retry: int | None = None, force: bool = False
    ) -> int:
        stream, found = self._of(key, group)
        refused = 0
        for id in [parse_id(id) for id in ids]:
            if id not in found.pending and not (force and id in stream.entries):
                continue
            had = found.pending[id].deliveries if id in found.pending else 0
            by_mode = {"SILENT": max(0, had - 1), "FAIL": had, "FATAL": FOREVER}[mode]
            found.refuse(id, by_mode if retry is None else retry)
            refused += 1
        return refused

    def xclaim(
        self,
        key: str,
        group: str,
        consumer: str,
        min_idle: int,
        ids: list[str],
        idle: int | None = None,
        time: int | None = None,
        retry: int | None = None,
        force: bool = False,
        justid: bool = False,
        last_id: str | None = None,
    ) -> list[Any]:
        stream, found = self._of(key, group)
        wanted, now, name = [parse_id(id) for id in ids], self._clock(), consumer.encode()
        if last_id is not None:
            found.last = max(found.last, parse_id(last_id))
        delivered = now if time is None else time
        if idle is not None:
            delivered = now - idle
        if not 0 <= delivered <= now:
            delivered = now
        found.hear_of(name, now)
        claimed = stream.claim(found, name, wanted, Claim(min_idle, delivered, retry, force, justid), now)
        return [shown(id) if justid else _entry(id, stream.entries[id]) for id in claimed]

    def xautoclaim(
        self, key: str, group: str, consumer: str, min_idle: int, start: str, count: int = 100, justid: bool = False
    ) -> list[Any]:
        low = parse_start(start)
        if count < 1:
            raise RefusalError("COUNT must be > 0")
        stream, found = self._of(key, group)
        name, now = consumer.encode(), self._clock()
        found.hear_of(name, now)
        cursor, claimed, gone = stream.autoclaim(found, name, low, count, min_idle, now, justid=justid)
        entries = [shown(id) if justid else _entry(id, stream.entries[id]) for id in claimed]
        return [shown(cursor), entries, [shown(id) for id in gone]]

    def xpending(self, key: str, group: str) -> list[Any]:
        _, found = self._of(key, group)
        if not found.pending:
            return [0, None, None, None]
        owners = [entry.owner for entry in found.pending.values()]
        counts = [[name, b"%d" % owners.count(name)] for name in sorted(found.consumers) if name in owners]
        return [len(owners), shown(min(found.pending)), shown(max(found.pending)), counts or None]

    def xpending_range(
        self,
        key: str,
        group: str,
        start: str,
        end: str,
        count: int,
        consumer: str | None = None,
        idle: int = 0,
    ) -> list[Any]:
        low, high, now = parse_start(start), parse_end(end), self._clock()
        _, found = self._of(key, group)
        listed = [
            [shown(id), entry.owner or b"", entry.idle(now), entry.deliveries]
            for id, entry in found.in_order()
            if low <= id <= high and entry.is_ripe(now, idle) and consumer in (None, (entry.owner or b"").decode())
        ]
        return listed[: max(0, count)]

    # --- about --------------------------------------------------------------------------------------------------------

    def xinfo_stream(self, key: str) -> dict[bytes, Any]:
        stream = self._stream(key)
        entries, remembered = stream.entries, stream.remembered(self._clock())
        return {
            **_counters(stream),
            b"idmp-duration": stream.duration_s,
            b"idmp-maxsize": stream.max_messages,
            b"pids-tracked": len(remembered),
            b"iids-tracked": sum(map(len, remembered.values())),
            b"iids-added": stream.messages,
            b"iids-duplicates": stream.duplicates,
            b"groups": len(stream.groups),
            b"first-entry": _entry(stream.first, entries[stream.first]) if entries else None,
            b"last-entry": _entry(stream.top, entries[stream.top]) if entries else None,
        }

    def xinfo_full(self, key: str, count: int = 10) -> dict[bytes, Any]:
        stream = self._stream(key)
        most = FOREVER if count == 0 else count if count > 0 else 10
        return {
            **_counters(stream),
            b"entries": [_entry(id, pairs) for id, pairs in stream.entries.items()][:most],
            b"groups": [_full_group(stream, name, most) for name in sorted(stream.groups)],
        }

    def xinfo_groups(self, key: str) -> list[Any]:
        stream = self._stream(key)
        return [
            {
                b"name": name,
                b"consumers": len(group.consumers),
                b"pending": len(group.pending),
                b"last-delivered-id": shown(group.last),
                b"entries-read": group.read,
                b"lag": stream.lag(group),
            }
            for name, group in sorted(stream.groups.items())
        ]

    def xinfo_consumers(self, key: str, group: str) -> list[Any]:
        self._stream(key)
        found, now = self._managed(key, group), self._clock()
        return [
            {
                b"name": name,
                b"pending": len(found.owned(name)),
                b"idle": max(0, now - consumer.seen),
                b"inactive": -1 if consumer.active is None else max(0, now - consumer.active),
            }
            for name, consumer in sorted(found.consumers.items())
        ]


def _limits(trim: tuple[str, str, Any]) -> tuple[int | None, ID | None]:
    strategy, _, threshold = trim
    return (threshold, None) if strategy == "MAXLEN" else (None, parse_id(threshold))


def _entries_read(given: int | None) -> int | None:
    if given is not None and given < -1:
        raise RefusalError("value for ENTRIESREAD must be positive or -1")
    return None if given == -1 else given


def _entry(id: ID, pairs: Pairs) -> list[Any]:
    return [shown(id), [word for pair in pairs for word in pair]]


def _history(stream: Stream, id: ID) -> list[Any]:
    return _entry(id, stream.entries[id]) if id in stream.entries else [shown(id), None]


def _counters(stream: Stream) -> dict[bytes, Any]:
    return {
        b"length": len(stream.entries),
        b"last-generated-id": shown(stream.last),
        b"max-deleted-entry-id": shown(stream.deleted),
        b"entries-added": stream.added,
        b"recorded-first-entry-id": shown(stream.first),
    }


def _full_group(stream: Stream, name: bytes, most: int) -> dict[bytes, Any]:
    group = stream.groups[name]
    pending = [[shown(id), entry.owner or b"", entry.time, entry.deliveries] for id, entry in group.in_order()]
    return {
        b"name": name,
        b"last-delivered-id": shown(group.last),
        b"entries-read": group.read,
        b"lag": stream.lag(group),
        b"pel-count": len(pending),
        b"nacked-count": sum(entry.owner is None for entry in group.pending.values()),
        b"pending": pending[:most],
        b"consumers": [
            {
                b"name": consumer,
                b"seen-time": known.seen,
                b"active-time": known.active,
                b"pel-count": len(group.owned(consumer)),
                b"pending": [[shown(id), e.time, e.deliveries] for id, e in group.owned(consumer).items()][:most],
            }
            for consumer, known in sorted(group.consumers.items())
        ],
    }
