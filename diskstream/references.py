"""Removing entries with an eye on groups: keep their references, drop them too, or spare what is not acknowledged.

KEEPREF, DELREF and ACKED are those of Redis 8.2.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from diskstream._native import EntryID, SegmentView
from diskstream.engine import reader, trimming
from diskstream.engine.log import StreamLog
from diskstream.engine.segment import ROWS_AT_ONCE, SegmentGone
from diskstream.engine.view_rows import BY_ID
from diskstream.errors import ArgumentError
from diskstream.ids import MAX_ID
from diskstream.membership import now_ms

__all__ = [
    "ACKED",
    "DELREF",
    "KEEPREF",
    "ack_delete",
    "acknowledged",
    "check_ref",
    "delete",
    "end_references",
    "is_any_pending",
    "not_needed",
    "remove_not_needed",
    "trim",
    "trim_acknowledged",
    "trim_references",
]

KEEPREF, DELREF, ACKED = "KEEPREF", "DELREF", "ACKED"
ABSENT, REMOVED, KEPT = -1, 1, 2
_AT_ONCE = 1 << 16


def check_ref(ref: str) -> str:
    """One of the three words.

    Raises:
        ArgumentError: it is none.
    """
    if ref not in (KEEPREF, DELREF, ACKED):
        raise ArgumentError(f"syntax error: ref is KEEPREF, DELREF or ACKED, not {ref!r}")
    return ref


def _groups(log: StreamLog) -> list[tuple[int, EntryID]]:
    return [(number, last) for number, _, last, *_ in log.native.groups()]


def _holding(log: StreamLog) -> list[int]:
    """The groups that have something pending: of the others the view need not be asked."""
    return log.native.groups_holding()


def _given(log: StreamLog) -> EntryID:
    """Up to where every group was given the entries."""
    least = log.native.least_delivered()
    return MAX_ID if least is None else least


def is_any_pending(log: StreamLog) -> bool:
    """Whether a trim with DELREF may have anything to end."""
    return bool(_holding(log))


def _owned(log: StreamLog, group: int, ids: Sequence[EntryID]) -> set[EntryID]:
    """Those of `ids` that are pending in a group; they are known to the overlay afterwards."""
    listed = list(ids)
    log.pending.learn(group, listed)
    return {row[0] for row in log.native.find_pending(group, listed) if row is not None}


def _remove(log: StreamLog, ids: list[EntryID], ends: dict[int, set[EntryID]], *, trims: bool = False) -> None:
    """Deletes the live ones of `ids` and ends what is pending, in one frame. A trim moves no greatest deleted ID."""
    places = reader.locate(log, ids)
    records: list[tuple[object, ...]] = [("end", group, sorted(those)) for group, those in ends.items() if those]
    if places:
        greatest = EntryID(0, 0) if trims else max(entry_id for entry_id, _, _ in places)
        records.append(("delete", greatest, sorted((segment, position) for _, segment, position in places)))
    if records:
        now = now_ms(log)
        log.pending.change(records, now)


def delete(log: StreamLog, ids: Sequence[EntryID], ref: str) -> list[int]:
    """Deletes entries, as XDELEX: for each -1 where there was none, 1 where it went, 2 where it is still needed."""
    live = set(reader.find_many(log, list(ids)))
    ends: dict[int, set[EntryID]] = {}
    needed: set[EntryID] = set()
    for group, last in _groups(log) if ref != KEEPREF else []:
        owned = _owned(log, group, ids)
        if ref == DELREF:
            ends[group] = owned
        else:
            needed |= owned | {entry_id for entry_id in ids if entry_id > last}
    gone = set(live) - needed
    _remove(log, sorted(gone), ends)
    answers = []
    for entry_id in ids:
        if entry_id in needed:
            answers.append(KEPT)
        else:
            answers.append(REMOVED if entry_id in gone else ABSENT)
            gone.discard(entry_id)  # named twice, it is absent the second time
    return answers


def ack_delete(log: StreamLog, group: int, ids: Sequence[EntryID], ref: str) -> list[int]:
    """Acknowledges and deletes, as XACKDEL, in one step: -1 not pending here, 1 deleted, 2 acknowledged only."""
    mine = _owned(log, group, ids)
    ends: dict[int, set[EntryID]] = {group: mine}
    needed: set[EntryID] = set()
    for other, last in _groups(log) if ref != KEEPREF else []:
        owned = _owned(log, other, sorted(mine)) if mine else set()
        if ref == DELREF:
            ends[other] = owned if other != group else mine
        elif other != group:
            needed |= owned | {entry_id for entry_id in mine if entry_id > last}
        else:
            needed |= {entry_id for entry_id in mine if entry_id > last}
    _remove(log, sorted(mine - needed), ends)
    answers, left = [], set(mine)
    for entry_id in ids:
        if entry_id not in left:
            answers.append(ABSENT)
            continue
        left.discard(entry_id)
        answers.append(KEPT if entry_id in needed else REMOVED)
    return answers


def trim_references(log: StreamLog) -> None:
    """After a trim with DELREF: nothing that is older than the first entry is pending any more."""
    holding = _holding(log)
    if not holding:
        return
    views = log.segments.views()
    if views and _hides_first(log, views[0]):
        entry = reader.first_entry(log)
        first = EntryID(0, 0) if entry is None else entry.id
    else:
        first = reader.first_id(log)
    until = (1, 0, 0) if first == EntryID(0, 0) else (0, first.ms, first.seq)
    for group in holding:
        rows = log.pending.rows(group, BY_ID, (0, 0, 0), until)
        old = [row[0] for row in rows]
        for at in range(0, len(old), _AT_ONCE):
            part = old[at : at + _AT_ONCE]
            log.pending.change([("end", group, part)], now_ms(log))


def _hides_first(log: StreamLog, view: SegmentView) -> bool:
    """Whether it must be known which entry of a segment is the first, and the segment is away."""
    low, high = (0, view.first.ms, view.first.seq), (0, view.last.ms, view.last.seq)
    holding = _holding(log)  # known at once: nothing is looked at where nothing is pending
    return bool(holding and log.segments.is_away(view)) and any(
        log.pending.first(group, BY_ID, low, high) is not None for group in holding
    )


def end_references(log: StreamLog, last: EntryID, limit: int) -> int:
    """Ends what is pending in any group up to an ID, `limit` of them at most; under the append lock. Returns how many.

    Nothing of it may be a live entry.
    """
    ended = 0
    beyond = last.next() or MAX_ID
    for group in _holding(log):
        rows = log.pending.rows(group, BY_ID, (0, 0, 0), (0, beyond.ms, beyond.seq))
        old = [row[0] for row in islice(rows, limit - ended)]
        if old:
            log.pending.change([("end", group, old)], now_ms(log))
            ended += len(old)
        if ended >= limit:
            break
    return ended


def acknowledged(log: StreamLog) -> tuple[EntryID, EntryID]:
    """The least ID that some group needs, and the least that some group was not given yet; under the append lock."""
    given = _given(log).next() or MAX_ID
    first = reader.first_id(log)
    firsts = [log.pending.first(group, BY_ID, (0, first.ms, first.seq)) for group in _holding(log)]
    return min([given, *(row[0] for row in firsts if row is not None)]), given


def not_needed(log: StreamLog, ids: list[EntryID]) -> list[EntryID]:
    """Those of `ids`, in order, that every group was given and has acknowledged; under the append lock."""
    given = _given(log)
    free = [entry_id for entry_id in ids if entry_id <= given]
    for group in _holding(log):
        if not free:
            break
        beyond = free[-1].next()
        until = (1, 0, 0) if beyond is None else (0, beyond.ms, beyond.seq)
        wanted = set(free)  # in between there may be any number of pending entries that are gone
        rows = log.pending.rows(group, BY_ID, (0, free[0].ms, free[0].seq), until)
        owned = {row[0] for row in rows if row[0] in wanted}
        free = [entry_id for entry_id in free if entry_id not in owned]
    return free


def remove_not_needed(log: StreamLog, places: Mapping[EntryID, tuple[int, int]]) -> int:
    """Removes those of some live entries, in order of IDs, whose segments and positions are known; as above."""
    free = [places[entry_id] for entry_id in not_needed(log, list(places))]
    if free:
        log.pending.change([("delete", EntryID(0, 0), sorted(free))], now_ms(log))
    return len(free)


def trim_acknowledged(log: StreamLog, keep: int | None, below: EntryID | None) -> int:
    """Removes the oldest entries that every group has acknowledged, passing over the others. Returns how many.

    What it passes over it looks at once: a backlog costs the trims behind it nothing.
    """
    wanted = 1 << 62 if keep is None else max(0, log.native.written_length() - keep)
    if wanted == 0:
        return 0
    given = _given(log)
    searched = log.pending.searched
    try:
        searched.follow(log.native.take_freed(), given)
        end = given if below is None else min(given, below.prev() or EntryID(0, 0))
        gone = _trim_freed(log, end, wanted)
        return gone + (_trim_behind(log, end, wanted - gone) if gone < wanted else 0)
    except BaseException:
        searched.forget()
        raise


def _trim_freed(log: StreamLog, end: EntryID, wanted: int) -> int:
    """Of the entries that were looked at before: those that were acknowledged since."""
    gone = 0
    while gone < wanted and (some := log.pending.searched.take(end, min(wanted - gone, _AT_ONCE))):
        free = [entry_id for entry_id, _, _ in reader.locate(log, some)]
        for group in _holding(log) if free else []:
            owned = _owned(log, group, free)
            free = [entry_id for entry_id in free if entry_id not in owned]
        if free:
            _remove(log, free, {}, trims=True)
        gone += len(free)
    return gone


def _trim_behind(log: StreamLog, end: EntryID, wanted: int) -> int:
    """Of the entries that were not looked at before."""
    searched, gone = log.pending.searched, 0
    for ids in _live_ids(log, searched.until.next() or MAX_ID, end, wanted):
        free = ids
        for group in _holding(log):
            beyond = ids[-1].next()
            until = (1, 0, 0) if beyond is None else (0, beyond.ms, beyond.seq)
            rows = log.pending.rows(group, BY_ID, (0, ids[0].ms, ids[0].seq), until)
            owned = {row[0] for row in rows}
            free = [entry_id for entry_id in free if entry_id not in owned]
        taken = free[: wanted - gone]
        _remove(log, taken, {}, trims=True)
        gone += len(taken)
        searched.until = ids[-1] if len(taken) == len(free) else taken[-1]
        if gone >= wanted:
            break
    return gone


def _live_ids(log: StreamLog, start: EntryID, end: EntryID, wanted: int) -> Iterator[list[EntryID]]:
    # Who trims as he adds wants one: a whole block would be unpacked, and looked up in each group, for each entry.
    for block in reader.blocks(log, start, end, enough=min(wanted, ROWS_AT_ONCE)) if start <= end else ():
        ids = [entry.id for entry in block.entries()]
        if ids:
            yield ids


def trim(log: StreamLog, keep: int | None, below: EntryID | None, ref: str) -> int:
    """Trims exactly, to `keep` entries or to those not `below` an ID, with DELREF or ACKED. Returns how many went."""
    if log.options.is_always:
        log.retry(log.native.flush, held=True)  # what was just added must be seen
    if ref == ACKED:
        return trim_acknowledged(log, keep, below)
    planned = log.native.plan_trim(keep or 0, False, 0) if below is None else trimming.plan_below(log, below)
    if planned is not None and _trim_at_once(log, planned[:2]):
        return planned[2]
    if below is not None:
        gone = trimming.trim_below(log, below, approximate=False, limit=0)
    else:
        view = trimming.first_kept(log, keep or 0) if is_any_pending(log) else None
        if view is not None and _hides_first(log, view):
            with contextlib.suppress(SegmentGone):
                log.segments.get(view)  # before anything is changed: a storage may not answer
        gone = trimming.trim_to_length(log, keep or 0, approximate=False, limit=0)
    if gone:
        trim_references(log)
    return gone


def _trim_at_once(log: StreamLog, place: tuple[int, int]) -> bool:
    """Trims to a place and ends what is pending before the first entry behind it, in one frame: both or neither.

    False, with nothing done, where nothing is pending, too much for one frame, or the first entry is not at hand.
    """
    holding = _holding(log)
    first = trimming.first_behind(log, *place) if holding else None
    if first is None:
        return False
    until = (1, 0, 0) if first == MAX_ID else (0, first.ms, first.seq)
    records: list[tuple[object, ...]] = []
    left = _AT_ONCE
    for group in holding:
        old = [row[0] for row in islice(log.pending.rows(group, BY_ID, (0, 0, 0), until), left + 1)]
        left -= len(old)
        if left < 0:
            return False
        if old:
            records.append(("end", group, old))
    if not records:
        return False
    log.pending.change([*records, ("trim", *place)], now_ms(log))
    return True
