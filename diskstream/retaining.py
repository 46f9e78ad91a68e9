"""One step of retention: what is beyond the limits of a stream's rule goes, a bounded part at a time.

What goes is planned without the append lock: files are read then. Under the lock the plan is carried out if nothing
that it rests on has changed: the rule is the same, and nothing was removed or rolled meanwhile. Entries that were added
since make a plan only more cautious, so nothing newer than what the rule keeps ever goes.
"""

import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from diskstream._native import EntryID
from diskstream.engine import limits, positions, reader
from diskstream.engine.limits import Sizes
from diskstream.engine.log import StreamLog
from diskstream.engine.segment import SegmentGone
from diskstream.ids import MIN_ID
from diskstream.membership import looked, now_ms
from diskstream.references import ACKED, DELREF, acknowledged, end_references, not_needed, remove_not_needed
from diskstream.retention_rule import RetentionRule, rule_of

__all__ = ["DEFAULT_LIMIT", "Memory", "Plan", "RetentionReport", "memory_of", "plan", "preview", "step"]

# Entries of a step. It costs the same for any number of them, but for DELREF and ACKED, which look at each: these take
# some ten milliseconds for so many.
DEFAULT_LIMIT = 4096
_ATTEMPTS = 8


@dataclass(frozen=True)
class RetentionReport:
    """What a step of retention did, or would do.

    Attributes:
        removed: entries removed.
        references: pending entries that DELREF ended.
        moved: what each move to cold storage reported.
        more: whether there is more to do at once.
    """

    removed: int = 0
    references: int = 0
    moved: tuple[Any, ...] = ()
    more: bool = False


@dataclass
class Memory:
    """What is remembered of a stream between steps; nothing is wrong where it is forgotten.

    Attributes:
        mutex: held for a step, so that two threads do not do the same.
        sizes: of sealed files.
        cursor: where the search for acknowledged entries goes on; 0-0 where it begins anew.
        began: the last frame, and the end of the search, when it began anew.
        found: whether it has found anything since.
        searched: what `began` was of a search that found nothing.
        referenced: up to which trimmed entry nothing is pending.
        error: the last failure in the background, as text (an exception would keep the log it came from); None after a
            step that went well.
        failures: how many there were since.
        retry_s: when to try again, by the monotonic clock.
        newest: the last ID and the boot clock when the stream was first looked at: see `diskstream.steady_clock`.
    """

    mutex: threading.Lock = field(default_factory=threading.Lock)
    sizes: Sizes = field(default_factory=dict)
    cursor: EntryID = MIN_ID
    began: tuple[int, EntryID] | None = None
    found: bool = False
    searched: tuple[int, EntryID] | None = None
    referenced: EntryID | None = None
    error: str | None = None
    failures: int = 0
    retry_s: float = 0.0
    newest: tuple[int, int] | None = None


class _Memories:
    """What a process remembers of its open streams."""

    def __init__(self) -> None:
        self.mutex = threading.Lock()
        self.by_log: weakref.WeakKeyDictionary[StreamLog, Memory] = weakref.WeakKeyDictionary()


_MEMORIES = _Memories()
# A forked child has other openings, and a lock that a thread of its parent's may have held.
os.register_at_fork(after_in_child=_MEMORIES.__init__)  # type: ignore[misc]


def memory_of(log: StreamLog) -> Memory:
    """What this process remembers of an open stream."""
    with _MEMORIES.mutex:
        return _MEMORIES.by_log.setdefault(log, Memory())


@dataclass(frozen=True)
class Plan:
    """Up to where entries are to go.

    Attributes:
        version: of the list of segments that it rests on.
        place: segment and position of the first entry that stays.
        entries: live entries before it.
    """

    version: int
    place: tuple[int, int]
    entries: int


def plan(log: StreamLog, rule: RetentionRule, now: int, sizes: Sizes) -> Plan:
    """What is beyond the limits of a rule; without the append lock.

    Raises:
        SegmentGone: the segments have changed meanwhile.
        CorruptionError: a file is missing or damaged.
    """
    log.refresh()
    version, native = log.native.version, log.native
    place = (0, 0)
    keep = rule.max_entries
    if rule.max_bytes is not None:
        within = limits.entries_within(log, rule.max_bytes, sizes)
        keep = keep if within is None else within if keep is None else min(keep, within)
    planned = None if keep is None else native.plan_trim(keep, False, 0)
    if planned is not None:
        place = planned[:2]
    if rule.max_age_ms is not None and now > rule.max_age_ms:
        place = max(place, limits.place_of(log, EntryID(now - rule.max_age_ms, 0)))
    entries = native.live_before(*place)
    if native.version != version:
        raise SegmentGone
    return Plan(version, place, entries)


def _planned(log: StreamLog, rule: RetentionRule, now: int, sizes: Sizes) -> Plan | None:
    """The same; None where the segments change again and again: later, then."""
    for _ in range(_ATTEMPTS):
        try:
            return plan(log, rule, now, sizes)
        except SegmentGone:
            continue
    return None


def _held(log: StreamLog, rule: RetentionRule, version: int, action: Callable[[], int]) -> int | None:
    """Does something under the append lock; None where what it rests on has changed."""
    with log.locked():
        log.prepare()
        if log.native.version != version or rule_of(log) != rule:
            return None
        done = action()
        log.pending.relieve()
    if done and log.options.is_always:
        log.flush()
    return done


def step(log: StreamLog, now: int | None = None, limit: int = DEFAULT_LIMIT) -> RetentionReport:
    """Removes some of what is beyond the limits of the rule; moves nothing.

    A step ends after `limit` entries, or, without a look at groups, with the segment in which that falls.

    Args:
        log: the stream's.
        now: milliseconds to go by; None is the store's clock.
        limit: entries, at most.

    Raises:
        StreamMoved: the stream is gone from here.
        ReadOnlyError, CorruptionError, StorageError: nothing more can be removed.
        NewerFormatError: a later version has set the rule.
    """
    memory = memory_of(log)
    with memory.mutex:
        log.refresh()
        rule = rule_of(log)
        if rule is None or rule.to is not None:
            return RetentionReport()
        current = now_ms(log) if now is None else now
        planned = _planned(log, rule, current, memory.sizes)
        if planned is None:
            return RetentionReport(more=True)
        if rule.ref == ACKED:
            return _acknowledged_step(log, rule, planned, limit, memory)
        removed = _held(log, rule, planned.version, lambda: _trim(log, planned, limit)) if planned.entries else 0
        if removed is None:
            return RetentionReport(more=True)
        more = removed < planned.entries
        references = _references_step(log, rule, limit, memory) if rule.ref == DELREF else 0
        return RetentionReport(removed, references, more=more or references >= limit)


def _trim(log: StreamLog, planned: Plan, limit: int) -> int:
    """Trims towards the place of a plan, by at most `limit` entries, or to the end of the segment where that falls."""
    place = planned.place
    if planned.entries > limit:
        part = log.native.plan_trim(log.native.written_length() - limit, False, 0)
        if part is not None:
            ends = {view.number: view.entries for view in log.segments.views()}
            place = min(place, (part[0], ends.get(part[0], part[1])))
    gone = log.native.live_before(*place)
    if gone:
        log.retry(lambda: log.native.trim(*place), held=True)
    return gone


# --- DELREF -----------------------------------------------------------------------------------------------------------


def _references_step(log: StreamLog, rule: RetentionRule, limit: int, memory: Memory) -> int:
    """Ends what is pending of entries that a trim took, a part of it. Returns how many there were.

    It does not matter which trim, or that a process died between both: it is done whenever a trim has come further than
    at the last look. What was deleted one by one stays pending until a trim has passed it.
    """
    trimmed = reader.trimmed_to(log)
    if trimmed is None or trimmed == memory.referenced:
        return 0
    with log.locked():
        log.prepare()
        if rule_of(log) != rule:
            return 0
        ended = end_references(log, trimmed, limit)
        if ended < limit:
            memory.referenced = trimmed
        log.pending.relieve()
    if ended and log.options.is_always:
        log.flush()
    return ended


# --- ACKED ------------------------------------------------------------------------------------------------------------


def _acknowledged_step(
    log: StreamLog, rule: RetentionRule, planned: Plan, limit: int, memory: Memory
) -> RetentionReport:
    """Trims what no group needs from the beginning; where nothing of that is left, searches what lies behind."""
    if not planned.entries:
        return RetentionReport()
    bound = _first_kept(log, planned)
    if bound is None:
        return RetentionReport(more=True)
    with log.locked():
        log.prepare()
        needed, given = acknowledged(log)
    try:
        place = limits.place_of(log, min(bound, needed))
    except SegmentGone:
        return RetentionReport(more=True)

    def trim() -> int:
        # Groups may need more than before: one was made, moved back, or was given an entry.
        if acknowledged(log)[0] < min(bound, needed):
            return 0
        return _trim(log, Plan(planned.version, place, log.native.live_before(*place)), limit)

    removed = _held(log, rule, planned.version, trim)
    if removed is None:
        return RetentionReport(more=True)
    if removed:
        memory.cursor = MIN_ID
        return RetentionReport(removed, more=True)
    return _search_step(log, rule, _Search(planned.version, needed, min(bound, given), limit), memory)


def _first_kept(log: StreamLog, planned: Plan) -> EntryID | None:
    """The ID below which entries are to go; None where the segments have changed.

    It is that right behind the last entry before the place, so that it never covers one that is added meanwhile.
    """
    number, position = planned.place
    views = [view for view in [*log.segments.views(), log.native.active_view()] if view.number <= number]
    if not views:
        return None
    try:
        if views[-1].number == number and position:
            return positions.id_at(log, views[-1], position - 1).next()
        whole = [view for view in views if view.number < number]
        return whole[-1].last.next() if whole else None
    except SegmentGone:
        return None


@dataclass(frozen=True)
class _Search:
    """Entries that may hold some that no group needs: from the first that is needed on, below an ID."""

    version: int
    low: EntryID
    high: EntryID
    limit: int


def _search_step(log: StreamLog, rule: RetentionRule, search: _Search, memory: Memory) -> RetentionReport:
    """Removes what every group has acknowledged among some entries behind one that is not; goes on there next time."""
    low, last, limit = search.low, search.high.prev(), search.limit
    state = log.native.tail[2], search.high
    if last is None or low > last or memory.searched == state:
        return RetentionReport()  # nothing can be found before the log says something new
    if memory.cursor == MIN_ID:
        memory.began, memory.found = state, False
    start = max(low, memory.cursor)
    some = _places(log, start, last, limit)
    removed: int | None = 0
    if some:
        removed = _held(log, rule, search.version, lambda: remove_not_needed(log, some))
        if removed is None:
            return RetentionReport(more=True)
    if len(some) == limit and (following := max(some).next()) is not None:
        memory.cursor, memory.found = following, memory.found or bool(removed)
        return RetentionReport(removed or 0, more=True)
    if not (memory.found or removed):
        memory.searched = memory.began
    memory.cursor = MIN_ID
    return RetentionReport(removed or 0)


def _places(log: StreamLog, first: EntryID, last: EntryID, limit: int) -> dict[EntryID, tuple[int, int]]:
    """Segment and position of the first live entries of a range: they hold as long as the version does."""
    found: dict[EntryID, tuple[int, int]] = {}
    for number, block in reader.numbered_blocks(log, first, last, enough=limit):
        ids = [entry.id for entry in block.entries(False, limit - len(found))]
        found.update((entry_id, (number, position)) for entry_id, position in block.positions(ids))
        if len(found) >= limit:
            break
    return found


# --- beforehand -------------------------------------------------------------------------------------------------------


def preview(log: StreamLog, rule: RetentionRule, now: int | None = None) -> RetentionReport:
    """What a rule would remove now, whether it is set or not; nothing is changed.

    Raises:
        StreamMoved, CorruptionError: as `step`.
    """
    current = now_ms(log) if now is None else now
    planned = _planned(log, rule, current, {})
    if planned is None or not planned.entries:
        return RetentionReport(more=planned is None)
    if rule.ref != ACKED:
        return RetentionReport(planned.entries)
    bound = _first_kept(log, planned)
    last = None if bound is None else bound.prev()
    count = 0
    if last is not None:
        for block in reader.blocks(log, MIN_ID, last):
            ids = [entry.id for entry in block.entries()]
            count += looked(log, lambda log, ids=ids: len(not_needed(log, ids)))  # type: ignore[misc]
    return RetentionReport(count)
