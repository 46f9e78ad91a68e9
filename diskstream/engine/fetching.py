"""Nobody's append waits for a storage: what is cold is fetched before, or again without, the append lock."""

import contextlib
from collections.abc import Callable, Iterable
from typing import TypeVar

from diskstream._native import EntryID, segment_at
from diskstream.engine.log import StreamLog
from diskstream.engine.segment import Away, SegmentGone

__all__ = ["fetch_ahead", "fetching_outside"]

# Segments fetched for one action. One that needs more fetches the others under the lock, and ends for sure.
_FETCHES = 16
_T = TypeVar("_T")


def fetch_ahead(log: StreamLog, ids: Iterable[EntryID]) -> None:
    """Opens the cold segments that hold these IDs, or would; the caller holds no lock.

    Raises:
        RemoteError: a storage does not answer, or has an object no more.
    """
    views = log.segments.views()
    for entry_id in ids:
        if not views or entry_id > views[-1].last:
            continue
        low = segment_at(views, entry_id)
        # What went meanwhile is for the action itself to meet.
        with contextlib.suppress(SegmentGone):
            if not log.segments.is_here(views[low]):
                log.segments.get(views[low])


def fetching_outside(log: StreamLog, locked: Callable[[], _T]) -> _T:
    """Does something under the append lock; where it needs what is away, that is fetched and all of it done again.

    Args:
        log: the stream.
        locked: takes and releases the lock. Where it raises `Away`, it has changed nothing.

    Raises:
        RemoteError: a storage does not answer, or has an object no more: nothing was changed.
    """
    held = log.segments.held
    for _ in range(_FETCHES):
        held.nearby = True
        try:
            return locked()
        except Away as found:
            away = found
        finally:
            held.nearby = False
        away.fetch()
    return locked()
