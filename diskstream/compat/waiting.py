"""A command that waits, in a thread: looks again when one of its streams changes, until there is a reply."""

import math
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from itertools import islice

from diskstream.commands.failures import failure_of
from diskstream.commands.keyspace import Keyspace
from diskstream.commands.replies import ErrorReply, Failure, Reply
from diskstream.commands.waiting import Waiting
from diskstream.errors import DiskstreamError
from diskstream.store import Store
from diskstream.watching import Watch

__all__ = ["wait"]

# The longest sleep: so soon a thread notices that a group changed though no bell rang. Who changed it was killed.
_SLICE_S = 0.05
# So often it is seen whether one of more streams than may be open has another page.
_STALE_S = 1.0
# The shortest: what is ripe but locked by another process is not asked for in circles.
_SHORTEST_S = 0.001


def wait(
    keyspace: Keyspace,
    waiting: Waiting,
    turn: Callable[[], AbstractContextManager[None]],
) -> Reply:
    """The reply of a command that waits. Errors are replies.

    Args:
        keyspace: where its keys are.
        waiting: what the command returned.
        turn: held for each look.
    """
    try:
        with Watch() as watch:
            store = keyspace.store(waiting.database)
            # Of more than may be open a look opens each, and closes others of them.
            is_many = waiting.rings and len(waiting.keys) > store.options.max_open_streams
            only = waiting.only if is_many else None
            reply = _begin(watch, store, waiting.keys, only, turn)
            if reply is not None:
                return reply
            ripe_at = -math.inf if only is None else _ripe_at(waiting)
            stale_at = time.monotonic() + _STALE_S
            while True:
                changed = watch.changed()  # before the look: what is appended after it ends the sleep at once
                if time.monotonic() >= stale_at and only is not None:
                    changed, stale_at = [*changed, *watch.stale()], time.monotonic() + _STALE_S
                is_ripe = ripe_at <= time.monotonic()
                if changed or only is None or is_ripe:
                    with turn():
                        reply = waiting.again() if only is None or is_ripe else only({name for _, name in changed})
                    if reply is not None:
                        return reply
                    ripe_at = _ripe_at(waiting)
                if (left := _left(waiting, ripe_at)) <= 0:
                    break
                watch.wait(left)
    except Failure as failure:
        return ErrorReply(failure.text)
    except DiskstreamError as error:
        return ErrorReply(failure_of(error, "wait").text)
    return waiting.otherwise


def _begin(
    watch: Watch,
    store: Store,
    keys: Sequence[bytes],
    only: Callable[[Collection[bytes]], Reply | None] | None,
    turn: Callable[[], AbstractContextManager[None]],
) -> Reply | None:
    """Watches the keys, as many at a time as may be open; where they are more, looks at these before the next."""
    left = iter(keys)
    while part := list(islice(left, store.options.max_open_streams)):
        for key in part:
            watch.add(store, key)
        if only is not None:
            with turn():
                reply = only(part)
            if reply is not None:
                return reply
    return None


def _ripe_at(waiting: Waiting) -> float:
    ripe = waiting.ripe_at()
    return math.inf if ripe is None else ripe


def _left(waiting: Waiting, ripe_at: float) -> float:
    """Seconds to the next look that no bell calls for; 0 or less at the end of the time."""
    now = time.monotonic()
    if waiting.until is not None and waiting.until <= now:
        return 0
    due = (when for when in (waiting.until, ripe_at, now + _SLICE_S) if when is not None)
    return max(min(due) - now, _SHORTEST_S)
