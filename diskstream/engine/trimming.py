"""Trims and deletes: planned by counts, written as one frame."""

from bisect import bisect_left

from diskstream._native import TRIM_GRANULE_ENTRIES, EntryID, SegmentView, segment_at
from diskstream.engine import reader
from diskstream.engine.log import StreamLog
from diskstream.engine.positions import all_listed, id_at
from diskstream.engine.segment import SegmentGone
from diskstream.ids import MAX_ID

__all__ = ["delete", "first_behind", "first_kept", "plan_below", "trim_below", "trim_to_length"]

# The default LIMIT of an approximate trim, as in Redis: so many times the entries of a node, and no more than that.
_LIMIT_RUNS, _MAX_LIMIT = 100, 1_000_000


def first_kept(log: StreamLog, keep: int) -> SegmentView | None:
    """The sealed segment that holds the first of the newest `keep` entries; None where the active one does, or none."""
    planned = log.native.plan_trim(keep, False, 0)
    if planned is None:
        return None
    segment, position, _ = planned
    views = log.segments.views()
    at = bisect_left(views, segment, key=lambda view: view.number)
    if at < len(views) and views[at].number == segment and position >= views[at].entries:
        at += 1
    return views[at] if at < len(views) else None


def trim_to_length(log: StreamLog, keep: int, *, approximate: bool, limit: int | None) -> int:
    """Keeps the newest `keep` entries; under the append lock. Returns how many went.

    With `approximate`, only whole runs of entries go (see `StreamLog.run_entries`), and at most `limit` entries; 0 is
    any number, None those of 100 runs.
    """
    planned = _plan_runs(log, keep, limit) if approximate else log.native.plan_trim(keep, False, 0)
    if planned is None:
        return 0
    segment, position, gone = planned
    log.retry(lambda: log.native.trim(segment, position), held=True)
    return gone


def _plan_runs(log: StreamLog, keep: int, limit: int | None) -> tuple[int, int, int] | None:
    run_entries = log.run_entries()
    if limit is None:
        limit = min(_LIMIT_RUNS * run_entries, _MAX_LIMIT)
    if run_entries == TRIM_GRANULE_ENTRIES:
        return log.native.plan_trim(keep, True, limit)
    length = log.native.written_length()
    planned = log.native.plan_trim(max(keep, length - limit) if limit else keep, False, 0)
    if planned is None or planned[2] == length:  # the last run is open, and goes when all that is in it may go
        return planned
    segment, position, gone = planned
    behind = -(-position // run_entries) * run_entries
    if log.native.live_before(segment, behind) == gone:
        return segment, behind, gone  # all that is live in the run may go
    position -= position % run_entries
    gone = log.native.live_before(segment, position)
    return (segment, position, gone) if gone else None


def trim_below(log: StreamLog, least: EntryID, *, approximate: bool, limit: int | None) -> int:
    """Removes entries below `least`; under the append lock. Returns how many went: see `trim_to_length`."""
    planned = plan_below(log, least, approximate=approximate)
    if planned is None:
        return 0
    segment, position, gone = planned
    if approximate:
        return trim_to_length(log, log.native.written_length() - gone, approximate=True, limit=limit)
    log.retry(lambda: log.native.trim(segment, position), held=True)
    return gone


def plan_below(log: StreamLog, least: EntryID, *, approximate: bool = False) -> tuple[int, int, int] | None:
    """Where a trim of what is below `least` ends, as segment and position, and how many go; None where none do."""
    segment, position = _place(log, least, approximate=approximate)
    gone = log.native.live_before(segment, position)
    return (segment, position, gone) if gone else None


def first_behind(log: StreamLog, segment: int, position: int) -> EntryID | None:
    """The ID of the first live entry from a place on, the greatest ID where there is none; None where it is away."""
    for view in all_listed(log):
        if view.number < segment:
            continue
        at = view.next_live(position if view.number == segment else 0)
        if at >= view.entries:
            continue
        try:
            return None if log.segments.is_away(view) else id_at(log, view, at)
        except SegmentGone:
            return None
    return MAX_ID


def _place(log: StreamLog, least: EntryID, *, approximate: bool) -> tuple[int, int]:
    """Where the first entry not below `least` stands; where it is about, nothing is fetched for it."""
    views = log.segments.views()
    low = segment_at(views, least)
    if low < len(views):
        if approximate and log.segments.is_away(views[low]):
            return views[low].number, 0
        position, _ = reader.position_in(log, views[low], least)
        return views[low].number, position
    number = log.native.tail[0]
    position_in_active = log.native.seek(number, least, True)
    return number, position_in_active or 0


def delete(log: StreamLog, ids: list[EntryID]) -> int:
    """Deletes entries; under the append lock. Returns how many there were."""
    found = reader.locate(log, ids)
    if not found:
        return 0
    greatest = max(entry_id for entry_id, _, _ in found)
    places = sorted((segment, position) for _, segment, position in found)
    log.retry(lambda: log.native.delete(greatest, places), held=True)
    return len(found)
