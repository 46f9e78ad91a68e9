"""One step of retention: what is beyond the limits of a stream's rule goes, a bounded part at a time.

What goes is planned without the append lock: files are read then. Under the lock the plan is carried out if nothing
that it rests on has changed: the rule is the same, and nothing was removed or rolled meanwhile. Entries that were added
since make a plan only more cautious, so nothing newer than what the rule keeps ever goes.
"""

import contextlib
import errno
import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from diskstream._native import EntryID
from diskstream.engine import limits, positions, reader
from diskstream.engine.limits import Sizes
from diskstream.engine.log import StreamLog
from diskstream.engine.segment import SegmentGone
from diskstream.errors import StorageError
from diskstream.ids import MAX_ID, MIN_ID
from diskstream.membership import looked, now_ms
from diskstream.references import ACKED, DELREF, acknowledged, end_references, not_needed, remove_not_needed
from diskstream.retention_rule import RetentionRule, rule_of

__all__ = ["DEFAULT_LIMIT", "Memory", "Plan", "RetentionReport", "memory_of", "plan", "preview", "step"]

# Entries of a step. It costs the same for any number of them, but for DELREF and ACKED, which look at each: these take
# some ten milliseconds for so many.
DEFAULT_LIMIT = 4096
_ATTEMPTS = 4  # to find a plan that still holds when the lock is had; then it is made under the lock
_INSIDE_LIMIT = 256  # entries of such a step: what is read for it is read under the lock

_T = TypeVar("_T")


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
os.register_at_fork(after_in_child=_MEMORIES.__init__)  # type: ignore[misc]  # nobody inherits from it


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


class _Changed(Exception):  # noqa: N818  # not an error: plan again
    """What a plan rests on has changed before the lock was had."""


def step(log: StreamLog, now: int | None = None, limit: int = DEFAULT_LIMIT) -> RetentionReport:
    """Removes some of what is beyond the limits of the rule; moves nothing.

    A step ends after `limit` entries, or, without a look at groups, with the segment in which that falls. Where others
    delete so often that no plan holds, a smaller one is planned and done under the lock.

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
    report = RetentionReport(more=True)
    with memory.mutex:
        for attempt in range(_ATTEMPTS + 1):
            inside = attempt == _ATTEMPTS
            with contextlib.suppress(_Changed, SegmentGone), log.locked() if inside else contextlib.nullcontext():
                if inside:
                    log.prepare()
                report = _attempt(log, now, min(limit, _INSIDE_LIMIT) if inside else limit, memory, inside=inside)
                break
    if log.options.is_always and (report.removed or report.references):
        log.flush()
    return report


def _attempt(log: StreamLog, now: int | None, limit: int, memory: Memory, *, inside: bool) -> RetentionReport:
    log.refresh()
    rule = rule_of(log)
    if rule is None or rule.to is not None:
        return RetentionReport()
    planned = plan(log, rule, now_ms(log) if now is None else now, memory.sizes)
    work = _Work(log, rule, planned, limit, memory, inside)
    return work.acknowledged() if rule.ref == ACKED else work.trimmed()


@dataclass(frozen=True)
class _Work:
    """A step that is planned; `inside` says that the append lock is held for all of it."""

    log: StreamLog
    rule: RetentionRule
    planned: Plan
    limit: int
    memory: Memory
    inside: bool

    def _held(self, action: Callable[[], _T]) -> _T:
        """Does something under the append lock.

        Raises:
            _Changed: what it rests on does not hold any more.
        """
        with contextlib.nullcontext() if self.inside else self.log.locked():
            if not self.inside:
                self.log.prepare()
            if self.log.native.version != self.planned.version or rule_of(self.log) != self.rule:
                raise _Changed
            done = action()
            self.log.pending.relieve()
            return done

    def _trim(self, place: tuple[int, int]) -> int:
        """Trims towards a place, by at most `limit` entries, or to the end of the segment where that falls."""
        native = self.log.native
        if native.live_before(*place) > self.limit:
            part = native.plan_trim(native.written_length() - self.limit, False, 0)
            if part is not None:
                ends = {view.number: view.entries for view in self.log.segments.views()}
                place = min(place, (part[0], ends.get(part[0], part[1])))
        gone = native.live_before(*place)
        if gone:
            self.log.retry(lambda: native.trim(*place), held=True)
        return gone

    # --- KEEPREF and DELREF -------------------------------------------------------------------------------------------

    def trimmed(self) -> RetentionReport:
        """Trims; with DELREF, ends what was pending of what trims took."""
        wanted = self.planned.entries
        removed = self._held(lambda: self._trim(self.planned.place)) if wanted else 0
        references = self._end_references() if self.rule.ref == DELREF else 0
        return RetentionReport(removed, references, more=removed < wanted or references >= self.limit)

    def _end_references(self) -> int:
        """Ends what is pending of entries that a trim took, a part of it. Returns how many there were.

        It does not matter which trim, or that a process died between both: it is done whenever a trim has come further
        than at the last look. What was deleted one by one stays pending until a trim has passed it.
        """
        log, memory = self.log, self.memory
        trimmed = reader.trimmed_to(log)
        if trimmed is None or trimmed == memory.referenced:
            return 0
        with contextlib.nullcontext() if self.inside else log.locked():
            if not self.inside:
                log.prepare()
            if rule_of(log) != self.rule:
                return 0
            ended = end_references(log, trimmed, self.limit)
            if ended < self.limit:
                memory.referenced = trimmed
            log.pending.relieve()
        return ended

    # --- ACKED --------------------------------------------------------------------------------------------------------

    def acknowledged(self) -> RetentionReport:
        """Trims what no group needs from the beginning; where nothing of that is left, searches what lies behind."""
        if not self.planned.entries:
            return RetentionReport()
        bound = _first_kept(self.log, self.planned)
        needed, given = self._held(lambda: acknowledged(self.log))
        least = min(bound, needed)
        place = limits.place_of(self.log, least)

        def trim() -> int:
            # Groups may need more than before: one was made, moved back, or was given an entry.
            return self._trim(place) if acknowledged(self.log)[0] >= least else 0

        removed = self._held(trim)
        if removed:
            self.memory.cursor = MIN_ID
            return RetentionReport(removed, more=True)
        return self._search(needed, min(bound, given))

    def _search(self, low: EntryID, high: EntryID) -> RetentionReport:
        """Removes what every group has acknowledged among some entries from `low` on, and goes on there next time."""
        log, memory = self.log, self.memory
        last, state = high.prev(), (log.native.tail[2], high)
        if last is None or low > last or memory.searched == state:
            return RetentionReport()  # nothing can be found before the log says something new
        if memory.cursor == MIN_ID:
            memory.began, memory.found = state, False
        some = _places(log, max(low, memory.cursor), last, self.limit)
        removed = self._held(lambda: remove_not_needed(log, some)) if some else 0
        if len(some) == self.limit and (following := max(some).next()) is not None:
            memory.cursor, memory.found = following, memory.found or bool(removed)
            return RetentionReport(removed, more=True)
        if not (memory.found or removed):
            memory.searched = memory.began
        memory.cursor = MIN_ID
        return RetentionReport(removed)


def _first_kept(log: StreamLog, planned: Plan) -> EntryID:
    """The ID below which entries are to go.

    It is that right behind the last entry before the place, so that it never covers one that is added meanwhile.

    Raises:
        SegmentGone: the segments have changed.
    """
    number, position = planned.place
    views = [view for view in positions.all_listed(log) if view.number <= number]
    if log.native.version != planned.version:
        raise SegmentGone  # a compaction may have given the place's number to fewer entries
    if views and views[-1].number == number and position:
        last = positions.id_at(log, views[-1], position - 1)
    else:
        whole = [view for view in views if view.number < number]
        if not whole:
            raise SegmentGone
        last = whole[-1].last
    return last.next() or MAX_ID


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


def preview(log: StreamLog, rule: RetentionRule) -> RetentionReport:
    """What a rule would remove now, whether it is set or not; nothing is changed.

    Raises:
        StreamMoved, CorruptionError: as `step`.
        StorageError: others change the stream all the time.
    """
    current = now_ms(log)
    for attempt in range(_ATTEMPTS + 1):
        with contextlib.suppress(SegmentGone), log.locked() if attempt == _ATTEMPTS else contextlib.nullcontext():
            planned = plan(log, rule, current, {})
            bound = _first_kept(log, planned) if planned.entries else None
            if log.native.version != planned.version:
                raise SegmentGone
            break
    else:
        raise StorageError(str(log.directory), "look at", errno.EAGAIN, "its segments change all the time: try again")
    if bound is None or rule.ref != ACKED:
        return RetentionReport(planned.entries)
    count = 0
    for block in reader.blocks(log, MIN_ID, bound.prev() or MIN_ID):
        ids = [entry.id for entry in block.entries()]
        count += looked(log, lambda log, ids=ids: len(not_needed(log, ids)))  # type: ignore[misc]  # bound now
    return RetentionReport(count)
