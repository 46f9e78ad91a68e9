"""Cutting a range of a stream into contiguous pieces, along segments and nodes, by what the indexes say."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from diskstream._native import EntryID, RowSegment, SealedSegment, SegmentView
from diskstream.engine.log import StreamLog
from diskstream.engine.positions import listed, opened
from diskstream.engine.segment import SegmentGone
from diskstream.errors import CorruptionError, LostObjectError
from diskstream.ids import MAX_ID, MIN_ID

__all__ = ["Piece", "pieces"]


@dataclass(frozen=True)
class Piece:
    """A part of one segment.

    Attributes:
        segment: the segment's number.
        sealed: whether it is packed, and so as quick to read as it gets.
        first, last: the IDs between which its entries lie, both included.
        entries: at most so many, but for a cold segment, which is one piece; those that are gone are counted.
        size_bytes: bytes of names and values, about.
    """

    segment: int
    sealed: bool
    first: EntryID
    last: EntryID
    entries: int
    size_bytes: int


def pieces(
    log: StreamLog, start: EntryID, end: EntryID, *, max_entries: int, max_bytes: int, tail: bool, damaged: bool
) -> Iterator[Piece]:
    """The pieces of ``start..end`` as of now, in order; with `tail`, of the active segment too.

    With `damaged` a segment whose index cannot be read, or that cold storage has lost, is one piece: reading it fails.

    Raises:
        CorruptionError: a segment's index cannot be read, or its file is missing.
        StreamMoved: the stream is gone.
    """
    while True:
        log.refresh()
        last = log.native.counters()[1]
        try:
            if log.fault is not None and end > last and not damaged:
                raise log.fault  # nobody knows what followed
            high = min(end, last)
            found = (
                list(_pass(log, start, high, (max_entries, max_bytes), tail=tail, damaged=damaged))
                if start <= high
                else []
            )
        except SegmentGone:
            continue  # the list of segments has changed meanwhile
        yield from found
        return


def _pass(
    log: StreamLog, start: EntryID, end: EntryID, limits: tuple[int, int], *, tail: bool, damaged: bool
) -> Iterator[Piece]:
    for view, is_active in listed(log, start):
        if not (view.entries and view.live) or view.last < start:
            continue
        if view.first > end:
            return
        if is_active:
            if tail:
                within = max(start, view.first), min(end, view.last)
                yield from _of_rows(view, within, limits, *_active(log, view))
            return
        within = max(start, view.first), min(end, view.last)
        try:
            found = list(_of_view(log, view, within, limits))
        except (CorruptionError, LostObjectError):
            if not damaged:
                raise
            found = [Piece(view.number, True, *within, view.entries, view.size_bytes)]
        yield from found
        start = max(start, view.last.next() or MAX_ID)


def _of_view(
    log: StreamLog, view: SegmentView, within: tuple[EntryID, EntryID], limits: tuple[int, int]
) -> Iterator[Piece]:
    if log.segments.is_away(view):  # its index is not here: nothing is fetched to plan with
        return iter([Piece(view.number, True, *within, view.entries, view.size_bytes)])
    segment = opened(log, view)
    if isinstance(segment, SealedSegment):
        return _of_nodes(segment, view, within, limits)
    return _of_rows(view, within, limits, *_rows(segment, view))


def _of_nodes(
    segment: SealedSegment, view: SegmentView, within: tuple[EntryID, EntryID], limits: tuple[int, int]
) -> Iterator[Piece]:
    each_bytes = segment.raw_bytes / max(1, segment.entries)
    first, last = segment.node_of_id(within[0]), segment.node_of_id(within[1])
    begin, entries = within[0], 0
    for node in range(first, last + 1):
        _, _, _, count, node_first = segment.node_row(node)
        full = entries + count > limits[0] or (entries + count) * each_bytes > limits[1]
        if full and entries:
            yield Piece(view.number, True, begin, node_first.prev() or MIN_ID, entries, round(entries * each_bytes))
            begin, entries = node_first, 0
        entries += count
    if entries:
        yield Piece(view.number, True, begin, within[1], entries, round(entries * each_bytes))


_Seek = Callable[[EntryID], int]
_IDAt = Callable[[int], EntryID]


def _rows(segment: RowSegment, view: SegmentView) -> tuple[_Seek, _IDAt]:
    def id_at(position: int) -> EntryID:
        block = segment.read(position, MIN_ID, MAX_ID, 1, 1, None)
        return view.last if block is None else block.id_at(0)

    return segment.seek, id_at


def _active(log: StreamLog, view: SegmentView) -> tuple[_Seek, _IDAt]:
    def seek(entry_id: EntryID) -> int:
        found = log.native.seek(view.number, entry_id)
        return _gone_position() if found is None else found

    def id_at(position: int) -> EntryID:
        same, block = log.native.read(view.number, position, MIN_ID, MAX_ID, 1, 1)
        if not same or block is None:
            raise SegmentGone
        return block.id_at(0)

    return seek, id_at


def _gone_position() -> int:
    raise SegmentGone


def _of_rows(
    view: SegmentView, within: tuple[EntryID, EntryID], limits: tuple[int, int], seek: _Seek, id_at: _IDAt
) -> Iterator[Piece]:
    each_bytes = view.size_bytes / max(1, view.entries)
    low = max(seek(within[0]), view.trimmed)
    beyond = within[1].next()
    high = view.entries if beyond is None or within[1] >= view.last else seek(beyond)
    step = max(1, min(limits[0], int(limits[1] / max(1.0, each_bytes))))
    begin = within[0]
    for position in range(low, high, step):
        stop = min(high, position + step)
        following = within[1] if stop >= high else id_at(stop).prev() or MIN_ID
        yield Piece(view.number, False, begin, following, stop - position, round((stop - position) * each_bytes))
        begin = following.next() or MAX_ID
