"""Opening a store in a thread, for a task that may be cancelled meanwhile."""

import asyncio
import threading
from collections.abc import Callable

from diskstream.store import Store

__all__ = ["opened"]


class _Opening:
    """A store on its way from the thread that opens it to a task. What the task gives up does not stay open."""

    def __init__(self, open_store: Callable[[], Store]) -> None:
        self._open = open_store
        self._handing = threading.Lock()
        self._given_up = False
        self._store: Store | None = None

    def run(self) -> Store:
        """In the thread: opens it."""
        store = self._open()
        with self._handing:
            self._store = store
            given_up = self._given_up
        if given_up:
            store.close()
        return store

    def give_up(self) -> None:
        """In the task, which was cancelled: whoever comes second closes it."""
        with self._handing:
            self._given_up = True
            store = self._store
        if store is not None:
            store.close()  # at once: nothing was written to it


async def opened(open_store: Callable[[], Store]) -> Store:
    """The store that is opened, in a thread. A task that is cancelled leaves none open that nobody holds."""
    opening = _Opening(open_store)
    try:
        return await asyncio.to_thread(opening.run)
    except asyncio.CancelledError:
        opening.give_up()
        raise
