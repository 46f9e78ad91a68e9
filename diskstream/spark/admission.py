"""How far a micro-batch goes: limits shared out by backlog, a least number of entries, and a longest wait."""

import time
from collections.abc import Callable, Mapping
from typing import Final

from diskstream.ids import EntryID
from diskstream.spark.losses import UNREADABLE
from diskstream.spark.options import ReadOptions
from diskstream.store import Store
from diskstream.stream import Stream

__all__ = ["Admission"]

_FIRST_LOOK: Final = 4096
_NEAR: Final = 0.9  # of the limit: sizes are known about
_WHOLE: Final = 1 << 62


class Admission:
    """Decides, between where a query stands and where the streams end, where the next micro-batch ends."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._waiting_since: float | None = None

    def end(
        self, store: Store, start: Mapping[bytes, EntryID], latest: Mapping[bytes, EntryID], *, draining: bool
    ) -> dict[bytes, EntryID]:
        """The end of the next batch: not behind `latest`; `start` itself where it is to wait for more.

        With `draining` (AvailableNow) it never waits: what there is must be read to the end.
        """
        options = self._options
        limited = options.max_entries_per_trigger or options.max_bytes_per_trigger
        if not limited and not options.min_entries_per_trigger:
            return dict(latest)
        skip = options.on_corruption == "skip"
        backlog = {
            name: _count(store.stream(name), start[name], end, skip=skip)
            for name, end in latest.items()
            if start[name] < end
        }
        total = sum(backlog.values())
        if not total:
            return dict(latest)  # what lies between is deleted entries, or none
        if options.min_entries_per_trigger and total < options.min_entries_per_trigger and not draining:
            now = time.monotonic()
            self._waiting_since = self._waiting_since or now
            if now - self._waiting_since < options.max_trigger_delay:
                return dict(start)
        self._waiting_since = None
        allowed = min(total, options.max_entries_per_trigger or total)

        def ends(entries: int) -> dict[bytes, EntryID]:
            return dict(latest) if entries >= total else _shared_out(store, start, latest, backlog, entries, skip=skip)

        if limit_bytes := options.max_bytes_per_trigger:
            allowed = _most_within(
                lambda entries: _size_bytes(store, start, ends(entries), skip=skip), allowed, limit_bytes
            )
        return ends(allowed)


def _count(stream: Stream, start: EntryID, end: EntryID, *, skip: bool) -> int:
    """Entries between two IDs; where damage is skipped and one of them is in it, about."""
    first, beyond = start.next(), end.next()
    if first is None:
        return 0
    try:
        return stream.count_from(first) - (0 if beyond is None else stream.count_from(beyond))
    except UNREADABLE:
        if not skip:
            raise
        return sum(piece.entries for piece in stream.splits(first, end, damaged=True))


def _id_further(stream: Stream, first: EntryID, entries: int, last: EntryID, *, skip: bool) -> EntryID | None:
    """The ID of the last one of so many entries; where damage is skipped and that is in it, an end that is at hand."""
    try:
        return stream.id_further(first, entries)
    except UNREADABLE:
        if not skip:
            raise
        # Before the damaged node, or behind it: pieces are cut between nodes.
        pieces = stream.splits(first, last, max_entries=entries, max_bytes=_WHOLE, damaged=True)
        return pieces[0].last if pieces else None


def _size_bytes(store: Store, start: Mapping[bytes, EntryID], end: Mapping[bytes, EntryID], *, skip: bool) -> int:
    """Bytes of what lies between, about: by the mean size of the entries of each segment."""
    size = 0
    for name, last in end.items():
        first = start[name].next()
        if first is None or first > last:
            continue
        # Whole nodes, and of segments that are away the whole of them: so they are counted by their share.
        stream = store.stream(name)
        pieces = stream.splits(first, last, max_entries=_WHOLE, max_bytes=_WHOLE, damaged=True)
        entries = sum(piece.entries for piece in pieces)
        if entries:
            size += sum(piece.size_bytes for piece in pieces) * _count(stream, start[name], last, skip=skip) // entries
    return size


def _most_within(size_of: Callable[[int], int], allowed: int, limit_bytes: int) -> int:
    """The most entries, of `allowed`, that are within so many bytes, about; one at least.

    It looks at twice as many each time, so that of a long backlog no more is looked at than twice what is taken.
    """
    fits, held = 0, 0
    tried = min(allowed, _FIRST_LOOK)
    while (size := size_of(tried)) <= limit_bytes:
        if tried == allowed:
            return allowed
        fits, held, tried = tried, size, min(allowed, 2 * tried)
    # Entries are mostly of one size, so the first guess is mostly right; where it is not, the gap is halved.
    middle = fits + (tried - fits) * (limit_bytes - held) // (size - held)
    while tried - fits > 1 and held < limit_bytes * _NEAR:
        middle = min(max(middle, fits + 1), tried - 1)
        if (size := size_of(middle)) <= limit_bytes:
            fits, held = middle, size
        else:
            tried = middle
        middle = (fits + tried) // 2
    return max(1, fits)


def _shared_out(
    store: Store,
    start: Mapping[bytes, EntryID],
    latest: Mapping[bytes, EntryID],
    backlog: Mapping[bytes, int],
    allowed: int,
    *,
    skip: bool,
) -> dict[bytes, EntryID]:
    """Each stream's share of `allowed` entries, in proportion to its backlog; what rounding leaves goes to those whose
    next entries are the oldest, one each, so that a short backlog does not wait for the long ones to end."""
    total = sum(backlog.values())
    shares = {name: allowed * count // total for name, count in backlog.items()}
    left = allowed - sum(shares.values())
    for name in sorted(backlog, key=lambda name: (start[name], name))[:left]:
        shares[name] += 1
    end = dict(start)
    end.update({name: at for name, at in latest.items() if name not in backlog})
    for name, share in shares.items():
        first = start[name].next()
        if share < 1 or first is None:
            continue
        reached = None
        if share < backlog[name]:
            reached = _id_further(store.stream(name), first, share, latest[name], skip=skip)
        end[name] = min(reached or latest[name], latest[name])
    return end
