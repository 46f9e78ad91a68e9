"""Taking entries away at the source, once their copy was read back.

One script does it, so that what it looks at is what it trims. It trims nothing where the stream is gone, is not the
one that was copied (its last ID or its count of entries lies below what was seen before), or another store has the
lease; that of a dead archiver into this one need not have been taken over, as a server that is full does not let us.
Unless told otherwise it trims nothing that a group was not given yet, or has not acknowledged; and nothing but entries
that the copy has: it trims only where the checksum of all that would go, IDs and contents, is the one it was told.
Where it is another one the script says which entries there are, each of them is looked for in the copy, and it is
asked again.

The checksum of entries is a chain: S of nothing is '', and for each hundred entries, the last ones being fewer::

    S = hex(SHA-1(S, and of each entry: its ID, ' ', and of each of its names and values: its length, ':', itself))
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from diskstream import Entry
from diskstream.archiving.comparing import compare_entries
from diskstream.archiving.leasing import LEASE_PREFIX, Lease
from diskstream.archiving.server import Server
from diskstream.errors import ChangedError, DiskstreamError, RemoteError, quoted
from diskstream.ids import EntryID
from diskstream.redis_link import was_refused
from diskstream.stream import Stream

__all__ = ["Trimmed", "gone_since", "trim_source"]

_MOST_LOOKS = 100
STEP_ENTRIES = 10_000  # of one call: the server does nothing else meanwhile
_STEP_BYTES = 8 << 20
_LINK_ENTRIES = 100
# What the script reads at once is in the server's memory several times over: as a reply, as words, joined.
_READ_BYTES = 1 << 20
_READ_UNKNOWN = 8  # entries, where nobody has looked how large they are
_SPARSE = 64  # reading one entry costs about as much as so many in a row
_MINID_SINCE = (6, 2)

_Span = tuple[EntryID, EntryID] | None

# KEYS: the stream, the lease. ARGV: our lease, MINID, the least last ID, the least entries added or '', whether to keep
# what groups need, whether XTRIM knows MINID, the checksum of what may go, how many entries and bytes may go at once,
# how many entries there are if all is well, how many of them may be read at once.
# Numbers of 64 bits are compared and counted up as text: Lua's have 53.
_TRIM = """
local function less(a, b) if #a ~= #b then return #a < #b end return a < b end
local function split(id) return string.match(id, '^(%d+)-(%d+)$') end
local function below(a, b)
  local am, as = split(a)
  local bm, bs = split(b)
  if am ~= bm then return less(am, bm) end
  return less(as, bs)
end
local function plus_one(number)
  local kept, digit, nines = string.match(number, '^(%d-)([0-8]?)(9*)$')
  if digit == '' then return '1' .. string.rep('0', #nines) end
  return kept .. string.char(string.byte(digit) + 1) .. string.rep('0', #nines)
end
local greatest = '18446744073709551615'
local function following(id)
  local ms, seq = split(id)
  if seq ~= greatest then return ms .. '-' .. plus_one(seq) end
  if ms ~= greatest then return plus_one(ms) .. '-0' end
  return id
end
local function fact(reply, name)
  for i = 1, #reply, 2 do if reply[i] == name then return reply[i + 1] end end
end
if redis.call('TYPE', KEYS[1]).ok ~= 'stream' then return {'gone', 0, ''} end
local held = redis.call('GET', KEYS[2])
if held and held ~= ARGV[1] and string.match(held, '^%S+') ~= string.match(ARGV[1], '^%S+') then
  return {'leased', 0, held}
end
local info = redis.call('XINFO', 'STREAM', KEYS[1])
local last = fact(info, 'last-generated-id')
if below(last, ARGV[3]) then return {'changed', 0, last} end
local added = fact(info, 'entries-added')
if ARGV[4] ~= '' and added and added < tonumber(ARGV[4]) then return {'changed', 0, last} end
local bound = ARGV[2]
if ARGV[5] == '1' then
  for _, group in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
    local needed = following(fact(group, 'last-delivered-id'))
    if below(needed, bound) then bound = needed end
    if fact(group, 'pending') > 0 then
      needed = redis.call('XPENDING', KEYS[1], fact(group, 'name'))[2]
      if below(needed, bound) then bound = needed end
    end
  end
end
local sum, ids, parts, bytes, start = '', {}, {}, 0, '0-0'
while start do
  local count = math.max(1, math.min(tonumber(ARGV[11]), 100 - #parts, tonumber(ARGV[10]) - #ids))
  local some = redis.call('XRANGE', KEYS[1], start, bound, 'COUNT', count)
  start = #some == count and following(some[count][1])
  for _, entry in ipairs(some) do
    if not below(entry[1], bound) then start = false break end
    if #ids >= tonumber(ARGV[8]) or bytes >= tonumber(ARGV[9]) then bound, start = entry[1], false break end
    ids[#ids + 1] = entry[1]
    local words = {entry[1] .. ' '}
    for i, word in ipairs(entry[2]) do words[i + 1] = #word .. ':' .. word end
    parts[#parts + 1] = table.concat(words)
    bytes = bytes + #parts[#parts]
  end
  if #parts == 100 or (not start and #parts > 0) then
    sum, parts = redis.sha1hex(sum .. table.concat(parts)), {}
  end
end
if #ids == 0 then return {'trimmed', 0, bound} end
if sum ~= ARGV[7] then return {'look', sum, bound, ids} end
if ARGV[6] == '1' then return {'trimmed', redis.call('XTRIM', KEYS[1], 'MINID', bound), bound} end
local removed = 0
for i = 1, #ids, 1000 do
  removed = removed + redis.call('XDEL', KEYS[1], unpack(ids, i, math.min(i + 999, #ids)))
end
return {'trimmed', removed, bound}
"""


@dataclass(frozen=True)
class Trimmed:
    """What a trim did.

    Attributes:
        entries: how many went.
        to: the ID up to which all are gone; None where nothing was done.
        held_back: whether a group needs what comes next.
    """

    entries: int
    to: EntryID | None
    held_back: bool


def trim_source(
    server: Server,
    lease: Lease,
    copy: Stream,
    *,
    behind: EntryID,
    upto: EntryID,
    least_added: int | None,
    unacknowledged: bool,
    held_back: bool = False,
    check: Callable[[EntryID, EntryID], None] | None = None,
    on_step: Callable[[int, EntryID], None] | None = None,
    on_unanswered: Callable[[EntryID, EntryID], None] | None = None,
) -> Trimmed:
    """Trims the source of a copy, in steps, up to `upto`, which was read back.

    A trim names the first ID that stays: behind the greatest one there is none, so that one's entry is left.

    Args:
        server, lease: where, and by what right.
        copy: the copy.
        behind: what was trimmed before.
        upto: the last entry that may go.
        least_added: the count of entries added at the source cannot be below this; None: not known.
        unacknowledged: whether also what groups still need may go.
        held_back: whether groups held it back the last time. Then the copy is not read before something can go.
        check: called with the first and the last entry that a step may take, before it does: what it raises ends it.
        on_step: called with the entries that a step took away, and up to where all are gone by then.
        on_unanswered: called with the first and the last entry that a step was to take, of which nobody knows whether
            it did: see `gone_since`.

    Raises:
        ChangedError: the stream is not the one that was copied, or another archiver trims it.
        RemoteError: the server failed or refused.
    """
    whole = upto.next() or upto
    words = [bytes(upto), "" if least_added is None else least_added, int(not unacknowledged)]
    if whole == upto:
        upto = upto.prev() or upto
    entries, done, reached, removed = 0, behind, behind.next() or whole, -1
    ahead: _Step | None = None
    asker = _Asker(server, lease, copy, words, check or _nothing, on_unanswered or _nothing)
    with ThreadPoolExecutor(1, thread_name_prefix="diskstream trim") as beside:
        while reached < whole and removed:
            step = _NO_STEP if held_back else _fitting(ahead, reached) or _step(copy, reached, upto)
            if step.span is not None:
                asker.check(*step.span)
            asking, ahead = beside.submit(asker.ask, whole, step.checksum, step, step.span), None
            with suppress(DiskstreamError):  # the answer counts all the same; the next step meets what this one met
                ahead = _behind(copy, step, upto)  # while the server is at it
            status, told, found = asker.looked(asking.result(), step)
            if status == b"gone":
                break  # deleted, or expired: there is nothing to trim, and the next round says so
            _check(server, copy.name, status, found)
            reached, removed = EntryID(found), int(told)
            entries += removed
            done = max(done, reached.prev() or done)
            if on_step is not None:
                on_step(removed, done)
            held_back = reached < whole and not removed
    return Trimmed(entries, done if done > behind else None, held_back)


def _nothing(first: EntryID, last: EntryID) -> None:
    """Where nobody is to be asked, or told."""


@dataclass(frozen=True)
class _Asker:
    """Has the server trim a step; `words` are those of all steps, `check` and `on_unanswered` of `trim_source`."""

    server: Server
    lease: Lease
    copy: Stream
    words: list[Any]
    check: Callable[[EntryID, EntryID], None]
    on_unanswered: Callable[[EntryID, EntryID], None]

    def ask(self, bound: EntryID, checksum: str, step: _Step, within: _Span) -> list[Any]:
        """Runs the script. Where its answer does not come it may have taken entries `within`."""
        key, knows_minid = self.copy.name, int(self.server.facts.version >= _MINID_SINCE)
        given = (key, LEASE_PREFIX + key, self.lease.value, bytes(bound), *self.words, knows_minid, checksum)
        most = STEP_ENTRIES, _STEP_BYTES, step.entries, step.at_once
        try:
            reply: list[Any] = self.server.call(f"trim the stream {quoted(key)}", "EVAL", _TRIM, 2, *given, *most)
        except RemoteError as error:
            if within is not None and not was_refused(error):
                self.on_unanswered(*within)
            raise
        return reply

    def looked(self, reply: list[Any], step: _Step) -> list[Any]:
        """Its last answer: as long as it says that other entries would go, these are looked for, and it is asked again.

        Raises:
            ChangedError: one of them is not in the copy, or they are others each time.
        """
        for _ in range(_MOST_LOOKS):
            status, told, found, *ids = reply
            if status != b"look":
                return [status, told, found]
            some = [EntryID(each) for each in ids[0]]
            checksum = _looked(self.server, self.copy, some, told)
            self.check(some[0], some[-1])
            reply = self.ask(EntryID(found), checksum, step, (some[0], some[-1]))
        what = f"others remove entries of the stream {quoted(self.copy.name)} all the time"
        raise ChangedError(self.server.shown, what, "stop them")


def gone_since(server: Server, copy: Stream, first: EntryID, last: EntryID) -> tuple[int, EntryID]:
    """What became of a step whose answer was lost: how many entries are gone, and up to where. It takes the first ones.

    Args:
        server: the source, which was looked at since: it has the stream.
        copy: the copy.
        first, last: entries that the step was to take.

    Raises:
        RemoteError: the server failed or refused.
    """
    words = copy.name, bytes(first), bytes(last), "COUNT", 1
    left = server.call(f"read the stream {quoted(copy.name)}", "XRANGE", *words)
    behind = EntryID(left[0][0]) if left else last.next()
    entries = copy.count_from(first) - (0 if behind is None else copy.count_from(behind))
    return entries, last if behind is None else behind.prev() or first


@dataclass(frozen=True)
class _Step:
    """What goes in one step, if the source has what the copy has.

    Attributes:
        after: behind what it begins.
        first, last: its entries; None where there are none, or nobody looked.
        checksum: of them.
        entries: how many they are, or at most would be.
        at_once: how many of them the server may read at once.
    """

    after: EntryID | None
    first: EntryID | None
    last: EntryID | None
    checksum: str
    entries: int = STEP_ENTRIES
    at_once: int = _READ_UNKNOWN

    @property
    def span(self) -> _Span:
        """Its first and its last entry, where it has any."""
        return None if self.first is None or self.last is None else (self.first, self.last)


_NO_STEP = _Step(None, None, None, "")


def _step(copy: Stream, start: EntryID, upto: EntryID) -> _Step:
    plain: list[bytes] = []
    first = last = None
    size_bytes = 0
    for entry in copy.range(start, upto, count=STEP_ENTRIES):
        if size_bytes >= _STEP_BYTES:
            break
        first, last = first or entry.id, entry.id
        plain.append(_plain(entry))
        size_bytes += len(plain[-1])
    if not plain:
        return _Step(start.prev(), None, None, "")
    at_once = max(1, min(_LINK_ENTRIES, _READ_BYTES // max(map(len, plain))))
    return _Step(start.prev(), first, last, _checksum(plain), len(plain), at_once)


def _behind(copy: Stream, step: _Step, upto: EntryID) -> _Step | None:
    """The step behind one."""
    start = None if step.last is None else step.last.next()
    return None if start is None or start > upto else _step(copy, start, upto)


def _fitting(ahead: _Step | None, reached: EntryID) -> _Step | None:
    """What was made ready, if it is the step that begins with `reached`."""
    if ahead is None or ahead.after is None or ahead.first is None:
        return None
    return ahead if ahead.after < reached <= ahead.first else None


def _plain(entry: Entry) -> bytes:
    words = [b"%d:%b" % (len(part), part) for pair in entry.pairs for part in pair]
    return b"%b %b" % (bytes(entry.id), b"".join(words))


def _checksum(plain: Iterable[bytes]) -> str:
    """As the script finds it, of entries as `_plain` writes them."""
    found, rest = "", iter(plain)
    while link := list(islice(rest, _LINK_ENTRIES)):
        found = hashlib.sha1(b"".join([found.encode(), *link]), usedforsecurity=False).hexdigest()
    return found


def _looked(server: Server, copy: Stream, ids: list[EntryID], checksum: bytes) -> str:
    """Makes sure that all entries which would go are in the copy, as they are. Returns their checksum there."""
    ours = _checksum(map(_plain, _named(copy, ids)))
    if ours.encode() != checksum:
        compare_entries(server, copy, ids[0], ids[-1])  # says which one it is, if they did not change meanwhile
    return ours


def _named(copy: Stream, ids: list[EntryID]) -> Iterator[Entry]:
    """Those of these entries that the copy has: read in one go, unless most of what lies between is not wanted."""
    behind = ids[-1].next()
    between = copy.count_from(ids[0]) - (0 if behind is None else copy.count_from(behind))
    if between > _SPARSE * len(ids):
        yield from filter(None, map(copy.get, ids))
        return
    wanted = set(ids)
    yield from (entry for entry in copy.range(ids[0], ids[-1]) if entry.id in wanted)


def _check(server: Server, key: bytes, status: bytes, found: bytes) -> None:
    if status == b"leased":
        who = found.decode("utf-8", "replace").split(" ", 1)[-1].rpartition(" ")[0]
        raise ChangedError(server.shown, f"another archiver, {who}, trims the stream {quoted(key)}", "stop one of them")
    if status == b"changed":
        raise ChangedError(
            server.shown,
            f"the stream {quoted(key)} is not the one that was copied: its last ID is {found.decode()}",
            "somebody deleted or restored it meanwhile; nothing of it was trimmed",
        )
