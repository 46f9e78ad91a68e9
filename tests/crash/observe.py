"""Reading a store the way a user does, as far as the model knows it."""

import contextlib
from collections.abc import Callable
from typing import TypeVar

from diskstream import Store
from diskstream.engine.log import StreamLog
from diskstream.engine.pending import Row as PendingRow
from diskstream.engine.view_rows import BY_CONSUMER, BY_ID, BY_TIME
from diskstream.ids import EntryID
from diskstream.retention_rule import rule_of
from tests.crash.groups import NOBODY, Group, Groups, Member, Row, Windows
from tests.crash.model import ID, State

__all__ = ["MESSAGES", "PRODUCERS", "WRITERS", "Violation", "as_id", "look", "look_at_all", "look_at_groups"]

_T = TypeVar("_T")

# All that a workload uses: a producer's messages cannot be listed, only asked for.
PRODUCERS = (b"p", b"q")
WRITERS = (b"job", b"\x00\xff")
MESSAGES = tuple(b"m%d" % number for number in range(8))


class Violation(Exception):  # noqa: N818  # the word for what the simulator looks for
    """A promise was broken."""


def as_id(entry_id: EntryID) -> ID:
    """An ID as a pair."""
    return entry_id.ms, entry_id.seq


def look(store: Store, name: bytes) -> State:
    """All of a stream."""
    stream = store.stream(name)
    entries = tuple((as_id(entry.id), tuple(entry.pairs)) for entry in stream.range())
    info = stream.info()
    if info.length != len(entries):
        raise Violation(f"{name!r}: the length is {info.length}, and {len(entries)} entries are there")
    last, deleted = as_id(info.last_generated_id), as_id(info.max_deleted_entry_id)
    groups = look_at_groups(store, name)
    if info.groups != len(groups):
        raise Violation(f"{name!r}: there are {info.groups} groups, and these: {sorted(groups)}")
    windows = stream._use(lambda log: _quietly(log, _windows), Windows())
    known = {writer: stream.committed(writer) for writer in WRITERS}
    commits = {writer: last for writer, last in known.items() if last is not None}
    rule = stream._use(lambda log: _quietly(log, rule_of), None)
    return State(entries, last, info.entries_added, deleted, groups, windows, commits, rule)


def look_at_all(store: Store) -> dict[bytes, State]:
    """All streams."""
    return {name: look(store, name) for name in store.streams(unfinished=True)}


# --- groups -----------------------------------------------------------------------------------------------------------


def look_at_groups(store: Store, name: bytes) -> Groups:
    """A stream's groups, none where it is gone; what is counted, and the three orders of what is pending, agree."""
    nothing: Groups = {}
    return store.stream(name)._use(lambda log: _quietly(log, _groups), nothing)


def _quietly(log: StreamLog, look: Callable[[StreamLog], _T]) -> _T:
    """Looks without making anything durable: what was promised before must be so without us."""
    with contextlib.nullcontext() if log.read_only else log.locked():
        log.refresh()
        return look(log)


def _groups(log: StreamLog) -> Groups:
    return {row[1]: _group(log, row[0]) for row in log.native.groups()}


def _group(log: StreamLog, number: int) -> Group:
    _, name, last, read, members, pending, refused = next(row for row in log.native.groups() if row[0] == number)
    consumers = log.native.consumers(number)
    names: dict[int, bytes | None] = {0: NOBODY, **{row[0]: row[1] for row in consumers}}
    rows = list(log.pending.rows(number, BY_ID, (0, 0, 0)))
    for order in (BY_CONSUMER, BY_TIME):
        others = list(log.pending.rows(number, order, (0, 0, 0)))
        if others != sorted(rows, key=lambda row: (_first(row, order), row[0])):
            raise Violation(f"{name!r}: by ID there is {rows}, in order {order} {others}")
    if rows != sorted(set(rows)):
        raise Violation(f"{name!r}: not in order, or twice: {rows}")
    ids = [row[0] for row in rows]
    ends = log.pending.first(number, BY_ID, (0, 0, 0)), log.pending.last_id(number)
    if ends != ((rows[0], ids[-1]) if rows else (None, None)):
        raise Violation(f"{name!r}: pending from {ends[0]} to {ends[1]}, and these are: {rows}")
    counted = (pending, refused, members, [row[4] for row in consumers])
    owners = [row[1] for row in rows]
    listed = (len(rows), owners.count(0), len(consumers), [owners.count(row[0]) for row in consumers])
    if counted != listed or not set(owners) <= set(names):
        raise Violation(f"{name!r}: counted (pending, nobody's, consumers, each one's) {counted}, listed {listed}")
    found = {as_id(row[0]): Row(names[row[1]], row[2], row[3]) for row in rows}
    return Group(as_id(last), read, {row[1]: Member(row[2], row[3]) for row in consumers}, found)


def _first(row: PendingRow, order: int) -> int:
    """What an index is sorted by before the ID."""
    _, consumer, time_ms, _ = row
    if order == BY_CONSUMER:
        return consumer
    return time_ms if consumer == 0 else time_ms | 1 << 63


def _windows(log: StreamLog) -> Windows:
    duration_s, limit, _, _, added, _ = log.native.windows(0)
    producers = {}
    for producer in PRODUCERS:
        found = [(message, log.native.find_message(producer, message, 0)) for message in MESSAGES]
        known = [(message, as_id(entry_id)) for message, entry_id in found if entry_id is not None]
        if known:
            producers[producer] = tuple(sorted(known, key=lambda one: one[1]))
    return Windows(duration_s, limit, added, producers)
