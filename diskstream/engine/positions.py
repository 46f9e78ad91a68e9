"""Counting entries by position: how many follow an ID, and which ID stands so many entries further on.

Entries that were deleted one by one count, those that were trimmed do not: nothing but indexes, and one node, is read.
"""

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress

from diskstream._native import EntryID, RowSegment, SealedSegment, SegmentView, segment_at
from diskstream.engine.log import StreamLog
from diskstream.engine.segment import SegmentGone
from diskstream.errors import CorruptionError, LostObjectError
from diskstream.ids import MAX_ID, MIN_ID

__all__ = [
    "all_listed",
    "count_from",
    "id_at",
    "id_at_or_before",
    "id_further",
    "listed",
    "live_from",
    "opened",
    "position_of",
]


def count_from(log: StreamLog, start: EntryID) -> int:
    """Visible entries whose ID is not below `start`."""
    while True:
        log.refresh()
        try:
            return sum(high - low for _, low, high in _runs(log, start))
        except SegmentGone:
            continue  # the list of segments has changed meanwhile


def live_from(log: StreamLog, start: EntryID) -> int:
    """The same without those that are gone; under the append lock."""
    while True:
        log.refresh()
        try:
            view, low, _ = next(_runs(log, start))
        except SegmentGone:
            continue
        return max(0, log.native.counters()[0] - log.native.live_before(view.number, low))


def id_further(log: StreamLog, start: EntryID, count: int) -> EntryID | None:
    """The ID of the entry that is the `count`-th from `start` on, or the last one; None where none follows."""
    while True:
        log.refresh()
        try:
            found: EntryID | None = None
            for view, low, high in _runs(log, start):
                if high <= low:
                    continue
                if count <= high - low:
                    return id_at(log, view, low + count - 1)
                count -= high - low
                found = id_at(log, view, high - 1)
        except SegmentGone:
            continue
        return found


def _runs(log: StreamLog, start: EntryID) -> Iterator[tuple[SegmentView, int, int]]:
    """Each segment that holds entries from `start` on, with the positions of the first and behind the last of them."""
    for view, is_active in listed(log, start):
        if not is_active:
            first = 0 if view.first >= start else position_of(log, view, start)
            yield view, max(first, view.trimmed), view.entries
            continue
        at = log.native.seek(view.number, start)
        if at is None:
            raise SegmentGone
        entries = log.native.visible_entries()
        if log.native.tail[0] != view.number:
            raise SegmentGone  # they are the next segment's
        yield view, max(at, view.trimmed), entries


def all_listed(log: StreamLog) -> list[SegmentView]:
    """All segments, the active one last, as of one moment: see `listed`."""
    active = log.native.active_view()
    return [*(view for view in log.segments.views() if view.number < active.number), active]


def listed(log: StreamLog, start: EntryID) -> Iterator[tuple[SegmentView, bool]]:
    """The segments that reach `start` or further, and at last, with a true word, the active one.

    Another thread may follow a roll at any moment: where the list was taken before it and the active segment is asked
    for behind it, the segment that was rolled would be in neither.
    """
    while True:
        number = log.native.active_view().number
        views = log.segments.views()
        low = segment_at(views, start)
        for view in views[low:]:
            yield view, False
            start = max(start, view.last.next() or MAX_ID)
        active = log.native.active_view()
        if active.number == number:
            yield active, True
            return


def position_of(log: StreamLog, view: SegmentView, entry_id: EntryID) -> int:
    """The position in a listed segment of the first entry not below `entry_id`.

    Raises:
        SegmentGone: the segment is not listed any more: look the segments up again.
        CorruptionError: it cannot be read.
    """
    try:
        return log.segments.position_of(view, entry_id)[0]
    except SegmentGone:
        opened(log, view)
        return log.segments.position_of(view, entry_id)[0]


def opened(log: StreamLog, view: SegmentView) -> SealedSegment | RowSegment:
    """A segment that was listed, or was the active one.

    Raises:
        SegmentGone: it is not listed any more, or not so: look the segments up again.
        CorruptionError: it is, but its file is missing.
    """
    if not _is_listed(log, view):
        raise SegmentGone
    try:
        return log.segments.get(view)
    except SegmentGone:
        log.segments.forget(view.number, view.generation)
        log.refresh()
    if not _is_listed(log, view):
        raise SegmentGone
    try:
        return log.segments.get(view)  # sealed between two looks?
    except SegmentGone:
        log.segments.refuse_missing(view)


def _is_listed(log: StreamLog, view: SegmentView) -> bool:
    """Whether that is how the log lists the segment: the active one may have grown before it was rolled."""
    views = log.segments.views()
    at = bisect_left(views, view.number, key=lambda each: each.number)
    found = views[at] if at < len(views) else view
    return at < len(views) and (found.number, found.generation, found.entries) == (
        view.number,
        view.generation,
        view.entries,
    )


def id_at(log: StreamLog, view: SegmentView, position: int) -> EntryID:
    """The ID at a position of a segment, gone or not.

    Raises:
        SegmentGone: the segment is not what it was: look the segments up again.
    """
    if position >= view.entries:
        raise SegmentGone  # the position is of a generation that had more
    if view.number == log.native.tail[0]:
        _, block = log.native.read(view.number, position, MIN_ID, MAX_ID, 1, 1)
    else:
        segment = opened(log, view)
        if isinstance(segment, SealedSegment):
            node = segment.node_of_position(position)
            before = segment.node_row(node)[2]
            return segment.read_block(node, MIN_ID, MAX_ID, None).id_at(position - before)
        block = segment.read(position, MIN_ID, MAX_ID, 1, 1, None)
    if block is None:
        raise SegmentGone
    return block.id_at(0)


def id_at_or_before(log: StreamLog, view: SegmentView, position: int) -> EntryID:
    """The ID at a position of a segment of which that cannot be read, or of an entry before it that an index has.

    Raises:
        SegmentGone: the segment is not what it was: look the segments up again.
    """
    with suppress(CorruptionError, LostObjectError):
        segment = opened(log, view)
        if isinstance(segment, SealedSegment):
            return segment.node_row(segment.node_of_position(position))[4]
    return view.first
