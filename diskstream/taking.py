"""The short way of a consumer: reading new entries, and acknowledging them, in one native call each.

It is gone where nothing else is to be done. Otherwise nothing was, and the caller goes the long way: `GroupCall` and
`Group.ack`, which have the same steps.
"""

import contextlib
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from diskstream._native import Delivery, EntryID, Turn
from diskstream.engine.log import StreamLog, StreamMoved
from diskstream.errors import DiskstreamError

if TYPE_CHECKING:
    from diskstream.group import Group

__all__ = ["finish", "relieve", "take"]

_MOST = 4096  # of one delivery: it holds up other threads
_LONGEST_S = sys.float_info.max  # an int that no float can hold is refused on the long way


def take(
    group: "Group", consumer: bytes, count: int | None, block: float | None, stop: threading.Event | None = None
) -> tuple[list[Delivery] | None, Turn | None]:
    """Reads new entries, and waits for one, as `Consumer.read`; `stop` ends the wait.

    Returns:
        What was given; None where the long way is to be gone, with the place in the queue that was reached.
    """
    if type(count) is not int or not 0 < count <= _MOST:
        return None, None
    if block is not None and not (type(block) in (int, float) and 0 <= block <= _LONGEST_S):
        return None, None
    log = _log_of(group)
    if log is None or (block is not None and log.options.clock is not None):
        return None, None  # a chosen clock may be another one after a wait
    most, now = log.pending.most_rows, log.now()
    known = log.first_seen
    try:
        entries, turn, is_over = log.native.take(group.name, consumer, count, block, group, known, most, now, stop)
    except StreamMoved:  # in a child that a signal handler forked as this waited: it waits at its own opening
        return None, None
    if is_over:
        relieve(log)
    return entries, turn


def finish(
    group: "Group", ids: list[EntryID], consumer: bytes | None = None, then: Callable[[StreamLog], object] | None = None
) -> int | None:
    """Acknowledges entries, as `Group.ack`; with `consumer`, what it still has.

    Args:
        then: does `relieve` where it is due, which may take milliseconds; None does it here.

    Returns:
        How many were pending; None where the long way is to be gone.
    """
    log = _log_of(group)
    if log is None:
        return None
    try:
        done = log.native.finish(group.name, ids, log.pending.most_rows, log.now(), consumer)
    except StreamMoved:
        return None
    if done is None:
        return None
    if done[1]:
        (then or relieve)(log)
    return done[0]


def _log_of(group: "Group") -> StreamLog | None:
    store = group.stream._store
    log = None if store.read_only else store._log(group.stream.name, create=False)
    return None if log is None or log.options.is_always else log


def relieve(log: StreamLog) -> None:
    """Writes to the view what the overlay has no room for."""
    # What was asked for is done, and stands in the log. What is wrong now, the next call meets and tells.
    with contextlib.suppress(StreamMoved, DiskstreamError), log.locked():
        log.prepare()
        log.pending.relieve()
