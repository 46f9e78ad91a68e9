"""Counting live entries exactly: by counts of segments and the bitmaps of what is gone; at most two nodes are read."""

from collections.abc import Callable

from diskstream._native import EntryID, segment_at
from diskstream.engine.log import StreamLog
from diskstream.engine.positions import position_of
from diskstream.engine.segment import SegmentGone
from diskstream.ids import MAX_ID

__all__ = ["added_until", "count"]

# Counting looks at several numbers of the log one after another. Where it changed in between they do not belong
# together; where it changes all the time, it is held up for the few microseconds that this takes.
_PATIENCE = 16


def count(log: StreamLog, start: EntryID, end: EntryID) -> int:
    """Live entries from `start` to `end`, both included.

    Raises:
        CorruptionError: the index of a segment, or a node that an end lies in, cannot be read; or the range goes on
            behind where the log is damaged.
    """

    def once() -> int:
        if log.fault is not None and end > log.native.counters()[1]:
            raise log.fault  # nobody knows what followed
        if start > end:
            return 0
        low, high = _place(log, start), _behind(log, end)
        return max(0, log.native.live_before(*high) - log.native.live_before(*low))

    return _unchanged(log, once)


def added_until(log: StreamLog, entry_id: EntryID) -> int:
    """Entries ever added, less those that are live behind `entry_id`."""

    def once() -> int:
        return (
            log.native.counters()[2]
            - log.native.live_before(*_end(log))
            + log.native.live_before(*_behind(log, entry_id))
        )

    return _unchanged(log, once)


def _unchanged(log: StreamLog, look: Callable[[], int]) -> int:
    """What `look` finds while the log stays the same."""
    for _ in range(_PATIENCE):
        log.refresh()
        before = _moment(log)
        try:
            found = look()
        except SegmentGone:
            continue  # the list of segments has changed meanwhile
        if _moment(log) == before:
            return found
    while True:
        try:
            with log.locked():
                log.refresh()
                return look()
        except SegmentGone:
            continue


def _moment(log: StreamLog) -> tuple[int, int]:
    return log.native.version, log.native.tail[2]


def _place(log: StreamLog, least: EntryID) -> tuple[int, int]:
    """Segment and position of the first entry not below `least`."""
    number = log.native.tail[0]
    views = log.segments.views()
    low = segment_at(views, least)
    if low < len(views):
        view = views[low]
        return view.number, 0 if view.first >= least else position_of(log, view, least)
    position = log.native.seek(number, least)
    if position is None:
        raise SegmentGone
    return number, position


def _behind(log: StreamLog, greatest: EntryID) -> tuple[int, int]:
    """The place behind the last entry not above `greatest`."""
    following = greatest.next()
    return _end(log) if greatest == MAX_ID or following is None else _place(log, following)


def _end(log: StreamLog) -> tuple[int, int]:
    return log.native.tail[0], log.native.visible_entries()
