"""Several changes, one flush: under `always`, for who keeps all answers back until what they rest on is durable."""

import contextlib

from diskstream.engine.log import StreamMoved
from diskstream.store import Store

__all__ = ["put_off", "settle"]


def put_off(store: Store) -> None:
    """From now on changes of groups return before they are durable; `settle` must come before any answer is given.

    Adding, deleting and trimming flush as ever: what they change is seen by readers only once it is durable.
    """
    store._owed = set()
    for log in list(store._logs.values()):
        log.owed = store._owed


def settle(store: Store) -> None:
    """Returns when everything that was changed before is durable: one flush for each stream.

    Raises:
        StorageError: a flush failed; the stream takes no more writes until it is reopened.
    """
    owed = store._owed
    while owed:
        log = next(iter(owed))
        with contextlib.suppress(StreamMoved):  # whoever moved the stream, or closed it, has flushed it
            log.flush()
        owed.discard(log)  # not before: where this was interrupted, it is still owed
