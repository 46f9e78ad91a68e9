"""A stream, or a range of it, put back into a Redis.

It is built under a name of its own, ``diskstream:restoring:K`` for the key K, and renamed to K in one step when it is
whole and was read back: who looks at K sees nothing, or all. The steps:

1. K must not be there. One that already holds the same entries is left as it is; another is refused, or replaced in the
   last step with `replace`.
2. What an earlier run left is compared with the store, by its digest. The same entries are kept, and the run goes on
   behind them; others are removed, since nobody else uses that name. A range goes on with nothing that has groups or
   counters of a whole stream, since it would bring them.
3. The entries are added with their IDs, many commands at a time.
4. For a whole stream: last ID, entries added and greatest deleted ID (XSETID; the last two since Redis 7), the windows
   of idempotent appends (XCFGSET, since Redis 8.6), then groups, consumers and pending entries (owner, time and number
   of deliveries).
5. What was built is watched, and read back: number and digest must be the store's, and groups what was put.
6. RENAMENX; with `replace` RENAME, unless somebody has added to the key since the run began. The transaction fails if
   anybody has changed what was built since it is watched: another restore of the same key uses the same name, and
   begins anew there where its entries are others.

Redis keeps no pending entry whose entry is gone: those are counted and left out. Those that nobody has since they were
given back go to a consumer ``given-back``. When a consumer was seen last cannot be set.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import groupby, islice
from typing import Any

from diskstream.archiving.adding import EntriesWriter
from diskstream.archiving.entries import EntriesReader
from diskstream.archiving.group_states import groups_of
from diskstream.archiving.leasing import RESTORING_PREFIX
from diskstream.archiving.reports import RestorePlan, RestoreReport
from diskstream.archiving.server import Server, StreamFacts
from diskstream.archiving.windows import put_windows
from diskstream.copying import GroupState, PendingState, StreamState, state_of
from diskstream.digests import NOTHING, Digest
from diskstream.errors import ArgumentError, ChangedError, NoSuchStreamError, RemoteError, quoted
from diskstream.ids import MAX_ID, MIN_ID, EntryID, IDLike, parse_end, parse_start
from diskstream.plurals import number_of
from diskstream.redis_link import telling
from diskstream.stream import Stream

__all__ = ["GIVEN_BACK", "RESTORING_PREFIX", "plan_restore", "restore_stream"]

GIVEN_BACK = b"given-back"
_AT_ONCE = 1000
_AT_ONCE_BYTES = 4 << 20
_ASK_EVERY_S = 5.0  # shorter than any server waits for an idle client
_COUNTERS_SINCE = (7,)
_CONSUMERS_SINCE = (6, 2)
# What a key is at one moment, as far as somebody who adds to it would change that.
_LOOK = """
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then return kind end
if kind ~= 'stream' then return kind .. ' ' .. redis.sha1hex(redis.call('DUMP', KEYS[1])) end
local info = redis.call('XINFO', 'STREAM', KEYS[1])
for i = 1, #info, 2 do if info[i] == 'last-generated-id' then return kind .. ' ' .. info[i + 1] end end
return kind
"""
_REPLACE = f"""
local function look(...)
  local KEYS = {{...}}
  {_LOOK}
end
if look(KEYS[2]) ~= ARGV[1] then return 0 end
redis.call('RENAME', KEYS[1], KEYS[2])
return 1
"""


def plan_restore(
    stream: Stream,
    server: Server,
    *,
    key: bytes | None = None,
    start: IDLike = "-",
    end: IDLike = "+",
    replace: bool = False,
) -> RestorePlan:
    """What `restore_stream` would do with the same words; nothing is changed. Where a stream is there, it is read.

    Raises:
        ArgumentError, NoSuchStreamError, RemoteError, CorruptionError: as `restore_stream`.
    """
    with closing(_begun(stream, server, key, (start, end), None)) as work:
        return work.plan(replace=replace)


def _begun(
    stream: Stream,
    server: Server,
    key: bytes | None,
    ends: tuple[IDLike, IDLike],
    on_entries: Callable[[int, int], None] | None,
) -> _Restore:
    if key == b"":  # of a variable that was not set, say: it is not the stream's own name that was meant
        raise ArgumentError("the key's name must not be empty: leave it out for the stream's own")
    if server.facts.is_cluster:
        what = "it is a node of a cluster, which holds a part of the keys"
        raise RemoteError(server.shown, what, "restore to a server that is in no cluster")
    if server.facts.is_replica:
        raise RemoteError(server.shown, "it is a replica, which takes no writes", "name the primary")
    start, end = parse_start(ends[0]), parse_end(ends[1])
    at = stream.name if key is None else key
    return _Restore(stream, server, key=at, start=start, end=end, on_entries=on_entries)


def restore_stream(
    stream: Stream,
    server: Server,
    *,
    key: bytes | None = None,
    start: IDLike = "-",
    end: IDLike = "+",
    replace: bool = False,
    on_entries: Callable[[int, int], None] | None = None,
    on_expected: Callable[[int], None] | None = None,
    stop: threading.Event | None = None,
) -> RestoreReport | None:
    """Puts a stream back: see above.

    Args:
        stream: the stream; it should not change meanwhile.
        server: the Redis.
        key: its name there; None is the stream's own.
        start, end: as `Stream.range`; only a whole stream comes with its counters and groups.
        replace: let it take the place of a key that holds something else.
        on_entries: called with entries and bytes just added.
        on_expected: called with entries that are about to be added.
        stop: ends it early; the next call goes on where it stopped.

    Returns:
        The report; None where `stop` ended it.

    Raises:
        ArgumentError: the key's name is empty.
        NoSuchStreamError: there is no stream.
        ChangedError: the key holds something else, or somebody else is at it.
        RemoteError: the server failed or refused.
        CorruptionError: an entry of the range cannot be read.
    """
    began = time.monotonic()
    with closing(_begun(stream, server, key, (start, end), on_entries)) as work:
        done = work.run(replace=replace, stop=stop or threading.Event(), on_expected=on_expected)
    work.report.seconds = time.monotonic() - began
    return work.report if done else None


class _Restore:
    def __init__(
        self,
        stream: Stream,
        server: Server,
        *,
        key: bytes,
        start: EntryID,
        end: EntryID,
        on_entries: Callable[[int, int], None] | None,
    ) -> None:
        if not stream.exists():
            raise NoSuchStreamError(stream.name)
        self._stream, self._server, self._key = stream, server, key
        self._start, self._end, self._on_entries = start, end, on_entries
        self._building = RESTORING_PREFIX + key
        self._is_whole = start == MIN_ID and end == MAX_ID
        self._reader = EntriesReader(server)
        self._writer = EntriesWriter(server, self._building)
        self._replaced: Any = None
        self.report = RestoreReport(stream.name, key)

    def close(self) -> None:
        self._reader.close()
        self._writer.close()

    def run(self, *, replace: bool, stop: threading.Event, on_expected: Callable[[int], None] | None) -> bool:
        identity, last = self._stream.identity(), self._stream.last_id()
        wanted = self._stream.digest(self._start, self._end)
        replace = replace and not self._server.facts.is_ours
        if not self._may_begin(wanted, replace=replace):
            self.report.already_there, self.report.digest = True, str(wanted)
            self.report.notes.append("the key holds these entries already: it was left as it is")
            self._note_lacking()
            return True
        after = self._resumed()
        if on_expected is not None:
            on_expected(wanted.entries - self.report.resumed)
        for part in self._parts(after):
            if stop.is_set():
                return False
            self._add(part)
        self._writer.finish()
        self.report.digest = str(wanted)
        if wanted.entries:
            self._check_built(wanted.entries)
        elif not self._is_whole:
            self.report.notes.append("there is nothing in this range, so no key was made")
            return True
        state = self._state(identity, last) if self._is_whole else None
        if state is not None:
            self._put_state(state)
        self._put_in_place(wanted, state, replace=replace)
        return True

    # --- beginning ----------------------------------------------------------------------------------------------------

    def plan(self, *, replace: bool) -> RestorePlan:
        wanted = self._stream.digest(self._start, self._end)
        kind = self._server.kind(self._key)
        there = self._server.stream(self._key) if kind == "stream" else None
        return RestorePlan(
            self._stream.name,
            self._key,
            wanted.entries,
            kind,
            self._would(kind, wanted, replace=replace and not self._server.facts.is_ours),
            key_entries=None if there is None else there.length,
            key_last_id=None if there is None else there.last_id,
        )

    def _would(self, kind: str, wanted: Digest, *, replace: bool) -> str:
        if kind == "none":
            return "restore"
        if replace:
            return "replace"
        return "leave" if kind == "stream" and self._there(self._key) == wanted else "refused"

    def _may_begin(self, wanted: Digest, *, replace: bool) -> bool:
        """Whether there is anything to be done; raises where it may not be done."""
        kind = self._server.kind(self._key)
        if replace:
            self._replaced = self._call("EVAL", _LOOK, 1, self._key)
        would = self._would(kind, wanted, replace=replace)
        if would != "refused":
            return would != "leave"
        raise ChangedError(
            self._server.shown,
            f"the key {quoted(self._key)} is there, and holds something else"
            + ("" if kind == "stream" else f", a {kind}"),
            "give it another name there, or remove it: a diskstream serve runs no script, by which a key is replaced"
            if self._server.facts.is_ours
            else "give it another name there, or take --replace",
        )

    def _resumed(self) -> EntryID:
        """Behind which entry to go on; what an earlier run left is checked."""
        facts = self._server.stream(self._building) if self._server.kind(self._building) == "stream" else None
        if facts is not None and facts.length:
            newest = self._call("XREVRANGE", self._building, "+", "-", "COUNT", 1)
            last = EntryID(newest[0][0])
            found = self._there(self._building)
            if not self._start <= last <= self._end or found != self._stream.digest(self._start, last):
                self.report.notes.append("what an earlier run had left was of other entries: it was begun anew")
            elif not self._is_whole and not _has_entries_alone(facts, last):
                what = "what an earlier run had left was a whole stream, and a range has neither groups nor counters"
                self.report.notes.append(f"{what}: it was begun anew")
            else:
                self.report.resumed = found.entries
                self._note_ids(last)
                return last
        self._call("DEL", self._building)
        return self._start.prev() or MIN_ID

    def _there(self, key: bytes, meanwhile: Callable[[], None] | None = None) -> Digest:
        """The digest of what the Redis holds; something else may be done behind each reply."""
        total = NOTHING
        for _, batch in self._reader.read(key, MIN_ID, MAX_ID):
            if batch is not None:
                total += batch.digest
            if meanwhile is not None:
                meanwhile()
        return total

    # --- entries ------------------------------------------------------------------------------------------------------

    def _parts(self, after: EntryID) -> Iterator[list[Any]]:
        following = after.next()
        if following is None:
            return
        entries = self._stream.range(max(following, self._start), self._end)
        part: list[Any] = []
        size = 0
        for entry in entries:
            part.append(entry)
            size += entry.size_bytes
            if len(part) >= _AT_ONCE or size >= _AT_ONCE_BYTES:
                yield part
                part, size = [], 0
        if part:
            yield part

    def _add(self, entries: list[Any]) -> None:
        self._writer.add(entries)
        size = sum(entry.size_bytes for entry in entries)
        self.report.entries += len(entries)
        self.report.size_bytes += size
        self._note_ids(entries[-1].id)
        if self._on_entries is not None:
            self._on_entries(len(entries), size)

    def _note_ids(self, last: EntryID) -> None:
        if self.report.first_id is None:
            first = next(iter(self._stream.range(self._start, self._end, 1)), None)
            self.report.first_id = None if first is None else first.id
        self.report.last_id = last

    # --- what is not entries ------------------------------------------------------------------------------------------

    def _call(self, *words: Any) -> Any:
        return self._server.call(f"restore {quoted(self._key)}", *words)

    def _state(self, identity: bytes | None, last: EntryID) -> StreamState:
        """What is not entries, of the stream whose entries were restored."""
        state = state_of(self._stream)
        if self._stream.identity() != identity:
            what = "it was removed or made anew while it was restored"
            raise ChangedError(f"the stream {quoted(self._stream.name)} of the store", what, "run this again")
        if state.last_id != last:  # counters and groups would be of entries that are not there
            what = f"it was added to while it was restored: its last ID was {last}, and is {state.last_id}"
            hint = "run this again when nobody adds to it, or restore a range with --end, which has no groups"
            raise ChangedError(f"the stream {quoted(self._stream.name)} of the store", what, hint)
        return state

    def _note_lacking(self) -> None:
        """Says which groups of a whole stream a key that is left as it is has not: its entries alone were compared."""
        if not self._is_whole:
            return
        there = self._groups_at(self._key)
        self.report.groups = len(there)
        if lacking := [quoted(group.name) for group in self._stream.groups() if group.name not in there]:
            what = f"it has not the {'group' if len(lacking) == 1 else 'groups'} {', '.join(lacking)}"
            self.report.notes.append(f"{what}, which the stream has: --replace brings all")

    def _groups_at(self, key: bytes) -> set[bytes]:
        listed = self._call("XINFO", "GROUPS", key)
        return {each[b"name"] if isinstance(each, dict) else each[1] for each in listed}

    def _put_state(self, state: StreamState) -> None:
        key, since = self._building, self._server.facts.version
        if self._server.kind(key) == "none":
            self._call("XGROUP", "CREATE", key, "unfinished", "0", "MKSTREAM")
        for name in self._groups_at(key):
            self._call("XGROUP", "DESTROY", key, name)
        words: list[Any] = ["XSETID", key, bytes(state.last_id)]
        if since >= _COUNTERS_SINCE:
            words += ["ENTRIESADDED", state.entries_added, "MAXDELETEDID", bytes(state.max_deleted_id)]
        self._call(*words)
        if said := put_windows(self._server, key, state.windows):
            self.report.notes.append(said)
        for group in state.groups:
            words = ["XGROUP", "CREATE", key, group.name, bytes(group.last_delivered_id)]
            if since >= _COUNTERS_SINCE and group.entries_read is not None:
                words += ["ENTRIESREAD", group.entries_read]
            self._call(*words)
            if since >= _CONSUMERS_SINCE:
                for consumer in group.consumers:
                    self._call("XGROUP", "CREATECONSUMER", key, group.name, consumer.name)
            self._put_pending(group)

    def _put_pending(self, group: GroupState) -> None:
        """A command for each run of entries that have owner, time and number of deliveries in common."""

        def shared(row: PendingState) -> tuple[bytes, int, int]:
            if row.consumer < 0:
                return GIVEN_BACK, 0, row.deliveries
            return group.consumers[row.consumer].name, row.delivered_ms, row.deliveries

        runs = ((common, [bytes(row.id) for row in rows]) for common, rows in groupby(group.pending, shared))
        while some := list(islice(runs, _AT_ONCE)):
            with telling(self._server.url, f"restore what is pending in {quoted(group.name)}"):
                pipeline = self._server.client.pipeline(transaction=False)
                for (owner, at, deliveries), ids in some:
                    for part in range(0, len(ids), _AT_ONCE):
                        words = (*ids[part : part + _AT_ONCE], "TIME", at, "RETRYCOUNT", deliveries)
                        claim = ("XCLAIM", self._building, group.name, owner, 0, *words, "FORCE", "JUSTID")
                        pipeline.execute_command(*claim)
                pipeline.execute()

    def _check_groups(self, state: StreamState) -> None:
        found = {group.name: group for group in groups_of(self._server, self._building)}
        for group in state.groups:
            there = found.get(group.name)
            if there is None or there.last_delivered_id != group.last_delivered_id:
                raise self._another_is_at_work(
                    f"the group {quoted(group.name)} of {quoted(self._building)} is not what was restored"
                )
            missing = len(group.pending) - len(there.pending)
            if missing:
                whose = f"of the group {quoted(group.name)}"
                gone = number_of(missing, f"pending entry {whose} is", f"pending entries {whose} are")
                self.report.notes.append(f"{gone} not in the stream any more: a Redis keeps none of those")
            unowned = sum(row.consumer < 0 for row in group.pending)
            if unowned:
                given = number_of(unowned, "entry that nobody had is", "entries that nobody had are")
                self.report.notes.append(f"{given} with the consumer {quoted(GIVEN_BACK)}")
            self.report.pending += len(there.pending)
        self.report.groups = len(state.groups)

    # --- putting it in place ------------------------------------------------------------------------------------------

    def _put_in_place(self, wanted: Digest, state: StreamState | None, *, replace: bool) -> None:
        """Reads back what was built, and renames it if nobody has changed it since that began."""
        import redis

        with telling(self._server.url, f"put {quoted(self._key)} in place"), self._server.client.pipeline() as pipeline:
            try:
                pipeline.watch(self._building)
                self._read_back(wanted, pipeline)
                if state is not None:
                    self._check_groups(state)
                pipeline.multi()
                if replace:
                    pipeline.execute_command("EVAL", _REPLACE, 2, self._building, self._key, self._replaced)
                else:
                    pipeline.execute_command("RENAMENX", self._building, self._key)
                (done,) = pipeline.execute()
            except redis.WatchError as error:
                if isinstance(error.__context__, redis.RedisError):  # nothing changed: the connection broke off
                    raise error.__context__ from None
                raise self._another_is_at_work(f"{quoted(self._building)} was changed after it was read back") from None
        if not done:
            raise self._taken(replace=replace)

    def _read_back(self, wanted: Digest, watching: Any) -> None:
        """Makes sure that what was built is the stream. A server may close a connection on which nothing is asked."""
        asked = time.monotonic()

        def ask_meanwhile() -> None:
            nonlocal asked
            if time.monotonic() - asked >= _ASK_EVERY_S:
                watching.execute_command("PING")
                asked = time.monotonic()

        self._check_built(wanted.entries)
        if self._there(self._building, ask_meanwhile) != wanted:
            raise self._another_is_at_work(f"the entries of {quoted(self._building)} are not those of the stream")

    def _check_built(self, wanted: int) -> None:
        """Looks, without reading it, whether it is what was added: it may have been evicted, or flushed, since."""
        facts = self._server.stream(self._building)
        found = 0 if facts is None else facts.length
        if found != wanted:
            raise self._another_is_at_work(
                f"{quoted(self._building)} has {number_of(found, 'entry')} instead of the {wanted:,} of the stream"
            )
        if facts is None:
            raise self._another_is_at_work(f"{quoted(self._building)} is gone")
        last = None if facts.last is None else facts.last.id
        if last is not None and last != self.report.last_id:
            raise self._another_is_at_work(
                f"{quoted(self._building)} ends with {last}, and did with {self.report.last_id}"
            )
        if not self._is_whole and last is not None and not _has_entries_alone(facts, last):
            raise self._another_is_at_work(
                f"{quoted(self._building)} has groups or counters by now, which a range has not"
            )

    def _another_is_at_work(self, what: str) -> ChangedError:
        return ChangedError(
            self._server.shown,
            f"{what}, so nothing was put in place: another restore is at work on the key "
            f"{quoted(self._key)}, somebody else changes that one, or the stream of the store, or the Redis made room",
            "let one restore of a key run at a time; when the other has ended, run this again",
        )

    def _taken(self, *, replace: bool) -> ChangedError:
        if replace:
            return ChangedError(
                self._server.shown,
                f"the key {quoted(self._key)} was added to or made by somebody else meanwhile, so it was not replaced",
                "stop what writes to it, archive what it has, and run this again",
            )
        return ChangedError(
            self._server.shown,
            f"the key {quoted(self._key)} was made by somebody else meanwhile",
            f"what was restored is in {quoted(self._building)}; take --replace to put it there",
        )


def _has_entries_alone(facts: StreamFacts, last: EntryID) -> bool:
    """Whether nothing but XADD, up to this ID, has made the stream."""
    return (
        facts.groups == 0
        and facts.last_id == last
        and facts.entries_added in (None, facts.length)
        and facts.max_deleted_id in (None, MIN_ID)
    )
