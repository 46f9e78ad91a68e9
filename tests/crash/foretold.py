"""What an operation on groups makes of a stream: the state after it, from the state before, as Redis would have it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from tests.crash.groups import ID, NOBODY, Group, Row
from tests.crash.model import State

__all__ = ["Claim", "acked", "autoclaimed", "claimed", "deleted", "history", "nacked", "new_ids", "read_new", "ripe"]

_MOST = 2**63 - 1


def acked(state: State, name: bytes, ids: Collection[ID]) -> State:
    """After XACK."""
    return state.with_group(name, state.groups[name].without(ids))


def new_ids(state: State, name: bytes, count: int) -> list[ID]:
    """The next entries of a group."""
    return [entry_id for entry_id, _ in state.entries if entry_id > state.groups[name].last][:count]


def read_new(state: State, name: bytes, consumer: bytes, count: int, now: int, *, noack: bool = False) -> State:
    """After XREADGROUP with `>`."""
    ids = new_ids(state, name, count)
    group = state.groups[name].joined(consumer, now)
    if ids:
        group = replace(group, last=ids[-1])
        if not noack:
            group = group.with_rows({entry_id: Row(consumer, now, 1) for entry_id in ids})
    return state.with_group(name, group)


def _live(state: State) -> set[ID]:
    return {entry_id for entry_id, _ in state.entries}


def _again(state: State, group: Group, ids: Sequence[ID], consumer: bytes, now: int) -> Group:
    live = _live(state)
    rows = {key: Row(consumer, now, min(group.pending[key].deliveries + 1, _MOST)) for key in ids if key in live}
    return group.with_rows(rows)


def history(state: State, name: bytes, consumer: bytes, after: ID, count: int, now: int) -> State:
    """After XREADGROUP with an ID."""
    group = state.groups[name].joined(consumer, now)
    ids = [key for key in group.of(consumer) if key > after][:count]
    return state.with_group(name, _again(state, group, ids, consumer, now))


def ripe(state: State, name: bytes, consumer: bytes, count: int, min_idle_ms: int, now: int) -> tuple[State, int]:
    """After the first part of XREADGROUP with CLAIM, and how many entries that gave: nobody's, then the oldest."""
    group = state.groups[name].joined(consumer, now)
    live = _live(state)
    owned = sorted((row.time_ms, key) for key, row in group.pending.items() if row.consumer is not NOBODY)
    ids = [*group.of(NOBODY), *(key for time_ms, key in owned if time_ms <= now - min_idle_ms)]
    given = [key for key in ids if key in live][:count]
    group = _again(state, group, given, consumer, now)
    if given:
        member = replace(group.members[consumer], seen_ms=now, active_ms=now)
        group = replace(group, members={**group.members, consumer: member})
    return state.with_group(name, group), len(given)


@dataclass(frozen=True)
class Claim:
    """The options of XCLAIM and XAUTOCLAIM."""

    min_idle_ms: int = 0
    idle_ms: int | None = None
    retry_count: int | None = None
    force: bool = False
    just_id: bool = False
    last_id: ID | None = None

    def row(self, row: Row, consumer: bytes, now: int) -> Row:
        """A row as it is once claimed."""
        count = row.deliveries if self.just_id else row.deliveries + 1
        at = now if self.idle_ms is None else now - self.idle_ms
        return Row(
            consumer,
            at if 0 <= at <= now else now,
            min(count if self.retry_count is None else self.retry_count, _MOST),
        )

    def may(self, row: Row, now: int) -> bool:
        """Whether it has lain long enough."""
        return row.consumer is NOBODY or self.min_idle_ms <= 0 or now - row.time_ms >= self.min_idle_ms


def claimed(
    state: State, name: bytes, consumer: bytes, ids: Sequence[ID], how: Claim, now: int
) -> tuple[State, list[ID]]:
    """After XCLAIM, and what it gives."""
    group = state.groups[name].joined(consumer, now)
    live, given = _live(state), []
    for key in ids:
        row = group.pending.get(key)
        if key not in live:
            group = group.without([key])
            continue
        if row is None and how.force:
            row = Row(NOBODY, 0, 1)
        if row is not None and how.may(row, now):
            group = group.with_rows({key: how.row(row, consumer, now)})
            given.append(key)
    if how.last_id is not None and how.last_id > group.last:
        group = replace(group, last=how.last_id)
    return state.with_group(name, group), given


def autoclaimed(
    state: State, name: bytes, consumer: bytes, start: ID, count: int, how: Claim, now: int
) -> tuple[State, tuple[ID, list[ID], list[ID]]]:
    """After XAUTOCLAIM, and what it gives: where to go on, what was claimed, what is gone."""
    group = state.groups[name].joined(consumer, now)
    live, given, gone, cursor, attempts = _live(state), list[ID](), list[ID](), (0, 0), 10 * count
    for key in sorted(key for key in group.pending if key >= start):
        if attempts == 0 or len(given) + len(gone) >= count:
            cursor = key
            break
        attempts -= 1
        row = group.pending[key]
        if key not in live:
            gone.append(key)
            group = group.without([key])
        elif how.may(row, now):
            given.append(key)
            group = group.with_rows({key: how.row(row, consumer, now)})
    return state.with_group(name, group), (cursor, given, gone)


def nacked(
    state: State, name: bytes, ids: Sequence[ID], mode: str, retry_count: int | None, *, force: bool
) -> tuple[State, int]:
    """After XNACK, and how many were given back."""
    group, live, rows = state.groups[name], _live(state), []
    for key in dict.fromkeys(ids):
        row = group.pending.get(key)
        if row is None and not (force and key in live):
            continue
        before = 0 if row is None else row.deliveries
        count = {"SILENT": max(0, before - 1), "FAIL": before, "FATAL": _MOST}[mode]
        rows.append((key, count if retry_count is None else retry_count))
    return state.with_group(name, group.refused(rows)), len(rows)


def deleted(state: State, ids: Sequence[ID], ref: str, acking: bytes | None = None) -> tuple[State, list[int]]:
    """After XDELEX, or after XACKDEL where a group is `acking`; and the answer for each ID."""
    live, present = _live(state), set(ids)
    if acking is not None:
        present &= set(state.groups[acking].pending)
    needed: set[ID] = set()
    for name, group in state.groups.items():
        owned = present & set(group.pending) if name != acking else set()
        if ref == "ACKED":
            needed |= owned | {key for key in present if key > group.last}
        ends = owned if ref == "DELREF" else set()
        state = state.with_group(name, group.without(present if name == acking else ends))
    answers, left = [], set(present) if acking is not None else present & (live | needed)
    for key in ids:
        answers.append(-1 if key not in left else 2 if key in needed else 1)
        if acking is not None or key not in needed:
            left.discard(key)
    return state.without(present - needed), answers
