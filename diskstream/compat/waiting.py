"""A command that waits, in a thread: looks again when one of its streams changes, until there is a reply."""

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from diskstream.commands.failures import failure_of
from diskstream.commands.keyspace import Keyspace
from diskstream.commands.replies import ErrorReply, Failure, Reply
from diskstream.commands.waiting import Waiting
from diskstream.errors import DiskstreamError

__all__ = ["wait"]

# The longest sleep: so soon notices a waiting thread that it was given up, and a change that rings no bell.
_SLICE_S = 0.05


def wait(
    keyspace: Keyspace,
    waiting: Waiting,
    turn: Callable[[], AbstractContextManager[None]],
    given_up: threading.Event | None = None,
) -> Reply:
    """The reply of a command that waits. Errors are replies.

    Args:
        keyspace: where its keys are.
        waiting: what the command returned.
        turn: held for each look.
        given_up: ends the wait early, with what it answers at the end of its time.
    """
    while given_up is None or not given_up.is_set():
        try:
            ends = _ends(keyspace, waiting)  # as of before the look: what is appended after it ends the sleep at once
            with turn():
                reply = waiting.again()
            if reply is not None:
                return reply
            left = _left(waiting)
            if left <= 0:
                break
            _sleep(keyspace, waiting, ends, min(left, _SLICE_S))
        except Failure as failure:
            return ErrorReply(failure.text)
        except DiskstreamError as error:
            return ErrorReply(failure_of(error, "wait").text)
    return waiting.otherwise


def _left(waiting: Waiting) -> float:
    return _SLICE_S if waiting.until is None else waiting.until - time.monotonic()


# --- until there is a watch over several streams ----------------------------------------------------------------------
# These two sleep in the store's own read of several streams: it ends with an append of any process. A group that is
# given entries back, or is gone, is noticed at the end of a slice.


def _ends(keyspace: Keyspace, waiting: Waiting) -> dict[bytes, str]:
    store = keyspace.store(waiting.database)
    return {key: str(store.stream(key).last_id()) for key in waiting.keys}


def _sleep(keyspace: Keyspace, waiting: Waiting, ends: dict[bytes, str], most_s: float) -> None:
    ripe_at = waiting.ripe_at()
    if ripe_at is not None:
        most_s = min(most_s, max(ripe_at - time.monotonic(), 0.0))
    if most_s > 0:
        keyspace.store(waiting.database).read(ends, count=1, block=most_s)
