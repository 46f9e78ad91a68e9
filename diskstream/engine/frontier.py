"""The reservation of automatic IDs: two slots in the active log's header, each durable before it is relied on.

No automatic ID above the frontier is issued before a slot that says so is on disk, so after a power cut the next one
lies beyond it, whatever was lost and whatever the clock says. The slot also carries how far the log was durable.
"""

import contextlib

from diskstream._native import Ctl, Log
from diskstream.engine.files import LogFileLike
from diskstream.engine.page import Page
from diskstream.errors import StorageError

__all__ = ["raise_floor", "reserve", "retract", "retract_moved"]

_WINDOW_MS = 10_000
_LAST_MS = 2**64 - 1


def reserve(native: Log, file: LogFileLike, ctl: Ctl, now_ms: int | None) -> None:
    """Moves the frontier on; the caller holds the append lock.

    Raises:
        StorageError: the slot could not be written; the stream takes no more writes.
    """
    frontier, floor = native.read_frontier()
    wanted = native.next_auto_ms(now_ms)
    if wanted + _WINDOW_MS // 2 <= frontier:
        return
    offset, slot = native.frontier_slot(min(wanted + _WINDOW_MS, _LAST_MS), floor)
    try:
        file.pwrite_sync(offset, slot)
    except StorageError as error:
        ctl.poison(f"the reservation of IDs failed: {error}")
        raise
    native.read_frontier()


def retract(native: Log, file: LogFileLike, page: Page) -> None:
    """Takes the frontier back where all is durable: the next opening need not skip what was reserved and not used.

    Only for who is the last to have the stream open: others issue IDs below the frontier that they know of.
    """
    try:
        if not native.catch_up() and native.is_durable and page.becomes_last():
            _take_back(native, file)
    finally:
        page.lets_others()  # who comes from now on reads what was just written


def retract_moved(native: Log, file: LogFileLike) -> None:
    """The same for a stream that was just moved away, under the append lock: nobody issues an ID here any more.

    A disk that says no costs IDs only.
    """
    if native.is_durable:
        with contextlib.suppress(StorageError):
            _take_back(native, file)


def _take_back(native: Log, file: LogFileLike) -> None:
    frontier, floor = native.read_frontier()
    # Just below the last ID: the next opening goes on right behind it, but must reserve before it issues anything.
    below = max(native.counters()[1].ms - 1, floor)
    # The slot also says how far the log was durable: one that ends before that has lost something.
    file.pwrite_sync(*native.frontier_slot(min(below, frontier), floor))
    native.read_frontier()


def raise_floor(native: Log, file: LogFileLike) -> None:
    """After a possible power cut: IDs up to the frontier may have been issued and lost, so none of them comes again."""
    frontier, floor = native.read_frontier()
    if frontier > floor:
        file.pwrite_sync(*native.frontier_slot(frontier, frontier))
        native.read_frontier()
