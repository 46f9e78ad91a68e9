"""Taking entries away at the source, once their copy was read back.

One script does it, so that what it looks at is what it trims. It trims nothing where the stream is gone, is not the one
that was copied (its last ID or its count of entries lies below what was seen before, or the first or the last entry
that would go is not what the copy has under its ID), or somebody else has the lease; and unless told otherwise nothing
that a group was not given yet, or has not acknowledged. What the first and the last entry are is asked for before, and
told to the script again: it trims only while they are the same.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from diskstream.archiving.leasing import LEASE_PREFIX, Lease
from diskstream.archiving.server import Server
from diskstream.errors import ChangedError
from diskstream.ids import EntryID
from diskstream.stream import Stream

__all__ = ["Trimmed", "trim_source"]

_MOST_LOOKS = 100
STEP_ENTRIES = 10_000  # of one call: the server does nothing else meanwhile
_MINID_SINCE = (6, 2)

# KEYS: the stream, the lease. ARGV: our lease, MINID, the least last ID, the least entries added or '', whether to keep
# what groups need, whether XTRIM knows MINID; the first and the last entry that may go, or '' to be told which they
# are; the ID of the last one. Numbers of 64 bits are compared as text: Lua's have 53.
_TRIM = """
local function less(a, b) if #a ~= #b then return #a < #b end return a < b end
local function below(a, b)
  local am, as = string.match(a, '^(%d+)-(%d+)$')
  local bm, bs = string.match(b, '^(%d+)-(%d+)$')
  if am ~= bm then return less(am, bm) end
  return less(as, bs)
end
local function following(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  if #seq > 15 then return id end
  return ms .. '-' .. string.format('%.0f', tonumber(seq) + 1)
end
local function fact(reply, name)
  for i = 1, #reply, 2 do if reply[i] == name then return reply[i + 1] end end
end
if redis.call('TYPE', KEYS[1]).ok ~= 'stream' then return {'gone', 0, ''} end
local held = redis.call('GET', KEYS[2])
if held and held ~= ARGV[1] then return {'leased', 0, held} end
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
local function mark(entries)
  for _, entry in ipairs(entries) do
    if below(entry[1], bound) then
      local parts = {}
      for i, part in ipairs(entry[2]) do parts[i] = #part .. ':' .. part end
      return entry[1] .. ' ' .. redis.sha1hex(table.concat(parts))
    end
  end
  return ''
end
local first = mark(redis.call('XRANGE', KEYS[1], '-', bound, 'COUNT', 1))
local final = mark(redis.call('XRANGE', KEYS[1], ARGV[9], ARGV[9]))
if first == '' then return {'trimmed', 0, bound} end
if ARGV[7] ~= first or ARGV[8] ~= final then return {'look', first, final} end
if ARGV[6] == '1' then return {'trimmed', redis.call('XTRIM', KEYS[1], 'MINID', bound), bound} end
local removed = 0
while true do
  local some = {}
  for _, entry in ipairs(redis.call('XRANGE', KEYS[1], '-', bound, 'COUNT', 1000)) do
    if below(entry[1], bound) then some[#some + 1] = entry[1] end
  end
  if #some == 0 then return {'trimmed', removed, bound} end
  removed = removed + redis.call('XDEL', KEYS[1], unpack(some))
end
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
) -> Trimmed:
    """Trims the source of a copy, in steps, up to `upto`, which was read back.

    Args:
        server, lease: where, and by what right.
        copy: the copy.
        behind: what was trimmed before.
        upto: the last entry that may go.
        least_added: the count of entries added at the source cannot be below this; None: not known.
        unacknowledged: whether also what groups still need may go.

    Raises:
        ChangedError: the stream is not the one that was copied, or another archiver trims it.
        RemoteError: the server failed or refused.
    """
    key = copy.name
    entries, done, held_back = 0, None, False
    words = [upto, "" if least_added is None else least_added, int(not unacknowledged)]
    minid = int(server.facts.version >= _MINID_SINCE)
    start = behind.next()
    while start is not None and start <= upto and not held_back:
        last = copy.id_further(start, STEP_ENTRIES)
        last = upto if last is None else min(last, upto)
        bound = last.next()
        if bound is None:
            break  # behind the last possible ID there is no other to name
        named: tuple[bytes, bytes] = (b"", b"")
        for _ in range(_MOST_LOOKS):
            status, removed, found = server.call(
                f"trim the stream {key!r}",
                *("EVAL", _TRIM, 2, key, LEASE_PREFIX + key, lease.value, bytes(bound), *map(_word, words), minid),
                *(*named, bytes(last)),
            )
            if status != b"look":
                break
            named = removed, found
            for mark in filter(None, named):  # the last one may be gone, or be needed by a group
                _check_entry(server, copy, mark)
        else:
            raise ChangedError(server.shown, f"others remove entries of the stream {key!r} all the time", "stop them")
        if status == b"gone":
            break  # deleted, or expired: there is nothing to trim, and the next round says so
        _check(server, key, status, found)
        entries += int(removed)
        reached = EntryID(found)
        held_back = reached < bound
        before = reached.prev()
        if before is not None and before > behind:
            done = before
        start = bound
    return Trimmed(entries, done, held_back)


def _check_entry(server: Server, copy: Stream, mark: bytes) -> None:
    """Makes sure that an entry which would go is what the copy has under its ID."""
    entry_id, _, digest = mark.partition(b" ")
    entry = copy.get(entry_id)
    parts = [] if entry is None else [part for pair in entry.pairs for part in pair]
    found = hashlib.sha1(b"".join(b"%d:%s" % (len(part), part) for part in parts), usedforsecurity=False)
    if entry is None or found.hexdigest().encode() != digest:
        raise ChangedError(
            server.shown,
            f"the stream {copy.name!r} is not the one that was copied: its entry {entry_id.decode()} is another one",
            "somebody deleted and made it anew, or another one took its name; nothing more of it was trimmed",
        )


def _word(value: object) -> object:
    return bytes(value) if isinstance(value, EntryID) else value


def _check(server: Server, key: bytes, status: bytes, found: bytes) -> None:
    if status == b"leased":
        who = found.decode("utf-8", "replace").split(" ", 1)[-1].rpartition(" ")[0]
        raise ChangedError(server.shown, f"another archiver, {who}, trims the stream {key!r}", "stop one of them")
    if status == b"changed":
        raise ChangedError(
            server.shown,
            f"the stream {key!r} is not the one that was copied: its last ID is {found.decode()}",
            "somebody deleted or restored it meanwhile; nothing of it was trimmed",
        )
