"""Several changes, one flush: under `always`, for who keeps all answers back until what they rest on is durable."""

from diskstream.engine.log import StreamMoved
from diskstream.errors import DiskstreamError
from diskstream.store import Store

__all__ = ["owes", "put_off", "settle"]


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
        StorageError: a flush failed; the stream takes no more writes until it is reopened. It is owed no more: whoever
            hears of it gives none of the answers that rest on it.
    """
    owed = store._owed
    while owed:
        log = next(iter(owed))
        try:
            log.flush()
        except StreamMoved:
            pass  # whoever moved the stream, or closed it, has flushed it
        except (DiskstreamError, OSError):
            owed.discard(log)
            raise
        owed.discard(log)  # not before: where this was interrupted, it is still owed


def owes(store: Store) -> bool:
    """Whether answers are kept back that rest on what is not durable, or was not when it was closed."""
    return bool(store._owed)
