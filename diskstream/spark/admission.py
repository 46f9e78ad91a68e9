"""How far a micro-batch goes: limits shared out by backlog, a least number of entries, and a longest wait."""

import time
from collections.abc import Mapping

from diskstream.ids import EntryID
from diskstream.spark.options import ReadOptions
from diskstream.store import Store

__all__ = ["Admission"]


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
        backlog = {name: _count(store, name, start[name], end) for name, end in latest.items() if start[name] < end}
        total = sum(backlog.values())
        if not total:
            return dict(latest)  # what lies between is deleted entries, or none
        if options.min_entries_per_trigger and total < options.min_entries_per_trigger and not draining:
            now = time.monotonic()
            self._waiting_since = self._waiting_since or now
            if now - self._waiting_since < options.max_trigger_delay:
                return dict(start)
        self._waiting_since = None
        allowed = total
        if options.max_entries_per_trigger:
            allowed = min(allowed, options.max_entries_per_trigger)
        if options.max_bytes_per_trigger:
            allowed = min(allowed, self._entries_within(store, start, backlog, options.max_bytes_per_trigger))
        if allowed >= total:
            return dict(latest)
        return _shared_out(store, start, latest, backlog, allowed)

    def _entries_within(
        self, store: Store, start: Mapping[bytes, EntryID], backlog: Mapping[bytes, int], limit_bytes: int
    ) -> int:
        """How many entries make so many bytes, about: by the mean size of what comes next in each stream."""
        size = 0.0
        for name, count in backlog.items():
            first = start[name].next()
            stream = store.stream(name)
            pieces = stream.splits(first or start[name], max_entries=4096, max_bytes=limit_bytes, damaged=True)[:1]
            each = pieces[0].size_bytes / max(1, pieces[0].entries) if pieces else 1.0
            size += each * count
        return max(1, int(sum(backlog.values()) * limit_bytes / max(size, 1.0)))


def _count(store: Store, name: bytes, start: EntryID, end: EntryID) -> int:
    stream = store.stream(name)
    first, beyond = start.next(), end.next()
    if first is None:
        return 0
    return stream.count_from(first) - (0 if beyond is None else stream.count_from(beyond))


def _shared_out(
    store: Store,
    start: Mapping[bytes, EntryID],
    latest: Mapping[bytes, EntryID],
    backlog: Mapping[bytes, int],
    allowed: int,
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
        reached = latest[name] if share >= backlog[name] else store.stream(name).id_further(first, share)
        end[name] = min(reached or latest[name], latest[name])
    return end
