"""Reading a stream: from its sealed segments into the active one, while others append, roll, seal and trim."""

import contextlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import TypeAlias, TypeVar

from diskstream._native import (
    Block,
    ColumnBatch,
    Entry,
    EntryID,
    ScanBatch,
    ScanLayout,
    SegmentView,
    segment_at,
)
from diskstream.engine.log import StreamLog
from diskstream.engine.positions import id_at, id_at_or_before
from diskstream.engine.segment import FEWEST_ROWS, ROWS_AT_ONCE, SegmentGone, at_once
from diskstream.errors import CorruptionError, LostObjectError
from diskstream.ids import MIN_ID

__all__ = [
    "blocks",
    "columns",
    "durable_id",
    "find",
    "find_many",
    "first_entry",
    "first_id",
    "first_known",
    "last_entry",
    "last_id",
    "length",
    "locate",
    "numbered_batches",
    "numbered_blocks",
    "position_in",
    "refuse_damaged",
    "trimmed_to",
    "written_to",
]

_Read = TypeVar("_Read", bound=Block | ScanBatch)
# What reads a segment that no longer changes, within two IDs.
_Closed: TypeAlias = Callable[[SegmentView, EntryID, EntryID], Iterator[_Read]]

_BYTES_AT_ONCE = 1 << 20
_FEW_BYTES = 4096
_BLOCKS_AT_ONCE = 256  # of one column batch
_LOCATED_AT_ONCE = 256  # rows of a row file: IDs that are asked for together stand together, most likely


class _Stale(Exception):  # noqa: N818  # not an error: the segments have changed, begin again from where we are
    """The list of segments changed under a reader."""


def blocks(
    log: StreamLog, start: EntryID, end: EntryID, *, reverse: bool = False, enough: int = ROWS_AT_ONCE
) -> Iterator[Block]:
    """The blocks within `start..end` as of now, in order; entries that come later are left out: see the next."""
    for _, block in numbered_blocks(log, start, end, reverse=reverse, enough=enough):
        yield block


def numbered_blocks(
    log: StreamLog, start: EntryID, end: EntryID, *, reverse: bool = False, enough: int = ROWS_AT_ONCE
) -> Iterator[tuple[int, Block]]:
    """The number of the segment, and a block of it, for all within `start..end` as of now.

    So many entries will be `enough`: at first no more of a row file is unpacked than is needed for that.

    Raises:
        CorruptionError: something within the range cannot be read. What came before it was right.
        StreamMoved: the stream is gone.
    """

    def closed(view: SegmentView, start: EntryID, end: EntryID) -> Iterator[Block]:
        return log.segments.blocks(view, start, end, reverse=reverse, enough=enough)

    return _numbered(log, start, end, closed, reverse=reverse, enough=enough)


def numbered_batches(
    log: StreamLog, start: EntryID, end: EntryID, layout: ScanLayout, *, rows: int, size_bytes: int
) -> Iterator[tuple[int, ScanBatch | Block]]:
    """The same as batches of columns; and as blocks where entries are in rows still.

    Args:
        log: of the stream.
        start, end: both included.
        layout: of the batches.
        rows, size_bytes: of a batch, at most; but it may be one node that holds more.

    Raises:
        ArgumentError: a name is repeated, where the layout takes none.
        CorruptionError, StreamMoved: as `numbered_blocks`.
    """

    def closed(view: SegmentView, start: EntryID, end: EntryID) -> Iterator[ScanBatch | Block]:
        return log.segments.batches(view, start, end, layout, rows=rows, size_bytes=size_bytes)

    return _numbered(log, start, end, closed, reverse=False, enough=ROWS_AT_ONCE)


def _numbered(
    log: StreamLog, start: EntryID, end: EntryID, closed: _Closed[_Read], *, reverse: bool, enough: int
) -> Iterator[tuple[int, _Read | Block]]:
    """See `numbered_blocks`; of a segment that no longer changes, what `closed` reads of it."""
    log.refresh()
    _, last, _, _ = log.native.counters()
    beyond_fault = log.is_damaged and end > last
    end = min(end, last)
    if reverse and beyond_fault and log.fault is not None:
        raise log.fault
    while start <= end:
        try:
            for number, found in _pass(log, start, end, closed, reverse=reverse, enough=enough):
                yield number, found
                if reverse:
                    end = _before(found)
                else:
                    start = _after(found)
                if start > end or (found.last_id == end and not reverse):  # the greatest ID has none behind it
                    break
            break
        except _Stale:
            log.refresh()
    if beyond_fault and not reverse and log.fault is not None:
        raise log.fault


def _after(found: Block | ScanBatch) -> EntryID:
    last = found.last_id
    return (None if last is None else last.next()) or EntryID(2**64 - 1, 2**64 - 1)


def _before(found: Block | ScanBatch) -> EntryID:
    first = found.id_at(0) if isinstance(found, Block) else None  # batches are read forwards
    return (None if first is None else first.prev()) or EntryID(0, 0)


def _pass(
    log: StreamLog, start: EntryID, end: EntryID, closed: _Closed[_Read], *, reverse: bool, enough: int
) -> Iterator[tuple[int, _Read | Block]]:
    """One pass over the segments as they are listed now."""
    active = log.native.tail[0]  # before the list: what is rolled in between is in it then, and never in neither
    views = log.segments.views()
    low = segment_at(views, start)
    if not reverse:
        for view in views[low:]:
            if view.first > end:
                return
            for found in _segment(log, view, start, end, closed):
                yield view.number, found
        for block in _active(log, active, start, end, enough=enough):
            yield active, block
        return
    for block in _active_backwards(log, active, start, end, enough=enough):
        yield active, block
    for view in reversed(views[low:]):
        if view.first <= end:
            for found in _segment(log, view, start, end, closed):
                yield view.number, found


def _segment(
    log: StreamLog, view: SegmentView, start: EntryID, end: EntryID, closed: _Closed[_Read]
) -> Iterator[_Read]:
    try:
        yield from closed(view, start, end)
    except SegmentGone:
        _explain_gone(log, view)


def _explain_gone(log: StreamLog, view: SegmentView) -> None:
    """A listed file is not there: the list may be old, else the file is missing."""
    log.segments.forget(view.number, view.generation)
    log.refresh()
    listed = {(each.number, each.generation) for each in log.segments.views()}
    if (view.number, view.generation) in listed:
        try:
            log.segments.get(view)  # sealed while we looked for its log file?
        except SegmentGone:
            log.segments.refuse_missing(view)
    raise _Stale


def _active(log: StreamLog, number: int, start: EntryID, end: EntryID, *, enough: int) -> Iterator[Block]:
    position = log.native.seek(number, start)
    if position is None:
        raise _Stale
    rows = at_once(enough)
    size = _BYTES_AT_ONCE if enough > FEWEST_ROWS else _FEW_BYTES
    view = log.native.active_view()
    while True:
        position = view.next_live(position)  # a queue's front may be gone, and long
        same, block = log.native.read(number, position, start, end, rows, size)
        if not same:
            raise _Stale
        if block is None or block.id_at(0) > end:
            return
        yield block
        position = block.end_position
        rows, size = ROWS_AT_ONCE, _BYTES_AT_ONCE


def _active_backwards(log: StreamLog, number: int, start: EntryID, end: EntryID, *, enough: int) -> Iterator[Block]:
    low = log.native.seek(number, start)
    beyond = end.next()
    high = log.native.visible_entries() if beyond is None else log.native.seek(number, beyond)
    rows, view = at_once(enough), log.native.active_view()
    if low is None or high is None or view.number != number:  # the bits of another segment say nothing of this one
        raise _Stale
    low = max(low, view.trimmed)
    while low < (high := view.live_end(high) if high <= view.entries else high):
        position = max(low, high - rows)
        same, block = log.native.read(number, position, start, end, high - position, 1 << 40)
        if not same:
            raise _Stale
        if block is None:
            return
        yield block
        high, rows = position, ROWS_AT_ONCE


def refuse_damaged(log: StreamLog) -> None:
    """Refuses what is asked of all of a log, counts and groups: what is known of them is that of before the damage.

    Raises:
        CorruptionError: it is damaged, and more may have followed.
    """
    if log.is_damaged and log.fault is not None:
        raise log.fault


def length(log: StreamLog) -> int:
    """Live entries, as of now.

    Raises:
        CorruptionError: the log is damaged.
    """
    log.refresh()
    refuse_damaged(log)
    return log.native.length()


def last_id(log: StreamLog) -> EntryID:
    """The last ID ever added, or set."""
    log.refresh()
    return log.native.counters()[1]


def written_to(log: StreamLog) -> EntryID:
    """The greatest ID that an entry is known to have had, gone or not; 0-0 where there was none.

    The last ID may have been set ahead of it, and may be set back to it.
    """
    while True:
        log.refresh()
        active = log.native.active_view()
        visible = log.native.visible_entries()
        views = log.segments.views()
        if log.native.tail[0] != active.number:
            continue  # they are the next segment's
        before = (view.last for view in reversed(views) if view.entries and view.number < active.number)
        stored = active.last if visible else next(before, EntryID(0, 0))
        _, last, _, deleted = log.native.counters()
        return min(last, max(stored, deleted, log.native.trimmed_to or EntryID(0, 0)))


def find(log: StreamLog, entry_id: EntryID) -> Entry | None:
    """The live entry with this ID: a bisection over segments, nodes and IDs."""
    log.refresh()
    views = log.segments.views()
    low = segment_at(views, entry_id)
    if low < len(views):
        try:
            return log.segments.find(views[low], entry_id)
        except SegmentGone:
            pass  # the general way finds out why
    for block in blocks(log, entry_id, entry_id, enough=1):
        return block.find(entry_id)
    return None


def _live(found: Iterator[Block], *, reverse: bool) -> Entry | None:
    for block in found:
        entries = block.entries(reverse, 1)
        if entries:
            return entries[0]
    return None


def first_entry(log: StreamLog) -> Entry | None:
    """The oldest live entry."""
    place = _near_first(log)
    if place is None:
        return None
    return _live(blocks(log, place, EntryID(2**64 - 1, 2**64 - 1), enough=1), reverse=False)


def first_id(log: StreamLog) -> EntryID:
    """The ID of the oldest live entry, 0-0 where there is none.

    Where the oldest segment was trimmed in part, and has been moved away, it is the first ID that was ever in it: no
    storage is asked for that.
    """
    return first_known(log)[0]


def first_known(log: StreamLog) -> tuple[EntryID, bool]:
    """The same, and whether it is that of a live entry: else its own entry is gone, and the oldest one is behind it."""
    found = log.native.first_id()
    if found is not None:
        return found, True
    version = log.native.version
    if log.first_seen is None or log.first_seen[0] != version:
        views = log.segments.views()
        if views and log.segments.is_away(views[0]):
            return views[0].first, False
        entry = first_entry(log)
        log.first_seen = (version, EntryID(0, 0) if entry is None else entry.id)
    return log.first_seen[1], True


def find_many(log: StreamLog, ids: list[EntryID]) -> dict[EntryID, Entry]:
    """Those of `ids` that are live entries."""
    found: dict[EntryID, Entry] = {}
    wanted = sorted(set(ids))
    at = 0
    enough = 1 if len(wanted) <= FEWEST_ROWS else len(wanted)  # neighbours are in one piece; others are few a piece
    while at < len(wanted):
        found_blocks = blocks(log, wanted[at], wanted[-1], enough=enough)
        # A node may end before the first ID that is wanted: the next one begins behind it.
        block = next((each for each in found_blocks if each.last_id >= wanted[at]), None)
        if block is None:
            break
        at = block.find_many(wanted, at, found)
        enough = 1 if len(wanted) - at <= FEWEST_ROWS else ROWS_AT_ONCE
    return found


def _near_first(log: StreamLog) -> EntryID | None:
    """An ID not above the first live entry, near it; None where the stream is empty."""
    log.refresh()
    if log.native.counters()[0] == 0:
        return None
    views = log.segments.views()
    return views[0].first if views else EntryID(0, 0)


def trimmed_to(log: StreamLog, behind: EntryID = MIN_ID, *, damaged: bool = False) -> EntryID | None:
    """The greatest ID of an entry that a trim took; None where nothing was trimmed.

    Where a trim took the first entries of a segment and deletes the rest, it is the last ID of that segment: the
    state knows places, and no ID of one between. Where a segment was compacted after part of it had been trimmed,
    the ID may be less than that. So it may be where nothing behind `behind` was trimmed: then no segment is read
    for it; and, with `damaged`, where it stands in a node that cannot be read.
    """
    while True:
        log.refresh()
        active = log.native.active_view()
        found = log.native.trimmed_to
        views = [*log.segments.views(), active]
        if not views[0].trimmed or (views[0].number < active.number and views[0].last <= behind):
            return found
        try:
            return _last_trimmed(log, views[0], damaged=damaged)
        except SegmentGone:
            log.segments.forget(views[0].number, views[0].generation)


def _last_trimmed(log: StreamLog, view: SegmentView, *, damaged: bool) -> EntryID:
    try:
        return id_at(log, view, view.trimmed - 1)
    except (CorruptionError, LostObjectError):
        if not damaged:
            raise
        return id_at_or_before(log, view, view.trimmed - 1)


def durable_id(log: StreamLog) -> EntryID:
    """The ID up to which all entries are known to be on disk, gone or not; 0-0 where none is.

    The log is not followed: what others added since is not known to be there. Nor is anything to who only reads.
    """
    while not log.read_only:
        active = log.native.active_view()
        views = [view for view in log.segments.views() if view.entries and view.number < active.number]
        entries = log.native.visible_entries(durable=True)
        if log.native.tail[0] != active.number:
            continue  # they are the next segment's
        if not entries:
            return views[-1].last if views else EntryID(0, 0)  # a segment is flushed before the next one is begun
        with contextlib.suppress(SegmentGone):
            return id_at(log, log.native.active_view(), entries - 1)
    return EntryID(0, 0)


def last_entry(log: StreamLog) -> Entry | None:
    """The newest live entry."""
    return _live(blocks(log, EntryID(0, 0), EntryID(2**64 - 1, 2**64 - 1), reverse=True, enough=1), reverse=True)


def position_in(log: StreamLog, view: SegmentView, entry_id: EntryID, rows: int = 1) -> tuple[int, Block | None]:
    """The position in a listed segment of the first entry not below `entry_id`, and a block; under the append lock.

    Raises:
        CorruptionError: its file is missing or damaged.
    """
    try:
        return log.segments.position_of(view, entry_id, rows)
    except SegmentGone:
        log.segments.refuse_missing(view)


def locate(log: StreamLog, ids: list[EntryID]) -> list[tuple[EntryID, int, int]]:
    """``(ID, segment, position)`` of those of `ids` that are live entries, in order; under the append lock."""
    found: list[tuple[EntryID, int, int]] = []
    views = log.segments.views()
    active = log.native.tail[0]
    rest = sorted(set(ids))
    while rest:
        low = segment_at(views, rest[0])
        if low < len(views):
            view = views[low]
            _, block = position_in(log, view, rest[0], _LOCATED_AT_ONCE)
            number = view.number
        else:
            position = log.native.seek(active, rest[0])
            _, block = log.native.read(active, position or 0, EntryID(0, 0), rest[-1], _LOCATED_AT_ONCE, 1 << 20)
            number = active
        if block is None or block.row_count == 0:
            break
        last = block.last_id
        here = rest[: bisect_right(rest, last)] or rest[:1]
        found += [(entry_id, number, position) for entry_id, position in block.positions(here)]
        rest = rest[len(here) :]
    return found


def columns(
    log: StreamLog, start: EntryID, end: EntryID, fields: list[bytes] | None, duplicates: str
) -> Iterator[ColumnBatch]:
    """The live entries within a range as columns, one segment after another.

    Raises:
        CorruptionError, StreamMoved: as `numbered_blocks`.
    """
    log.refresh()
    if not log.is_damaged:  # else the blocks at the end say that nobody knows what followed
        end = min(end, log.native.counters()[1])
    while start <= end:
        views = log.segments.views()
        low = segment_at(views, start)
        if low >= len(views):
            break
        view = views[low]
        if view.first > end:
            return
        try:
            yield from log.segments.columns(view, (start, min(end, view.last)), fields, duplicates)
        except SegmentGone:
            try:
                _explain_gone(log, view)
            except _Stale:
                continue
        following = view.last.next()
        if following is None:
            return
        start = following
    rest: list[Block] = []
    for block in blocks(log, start, end):
        rest.append(block)
        if len(rest) >= _BLOCKS_AT_ONCE:
            yield ColumnBatch.of_blocks(rest, fields, duplicates)
            rest = []
    if rest:
        yield ColumnBatch.of_blocks(rest, fields, duplicates)
