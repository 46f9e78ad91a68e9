"""The reads of one store that tasks of asyncio wait in: one thread watches the streams for all of them.

A task first has its look in a thread of `asyncio.to_thread`, as what it asks for may lie on a disk. What has found
nothing stands at the end of its streams: the thread that watches looks again where a bell rings, which costs no more
than to unpack what was just appended, and tells the task.
"""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, TypeVar

from diskstream.aio_watching import Waiter, Watching
from diskstream.counts import check_block

if TYPE_CHECKING:
    from diskstream.store import Store

__all__ = ["Readers"]

_T = TypeVar("_T")


class Readers:
    """Who waits for entries of a store, whatever loop their tasks are in. The thread runs while there is anybody."""

    def __init__(self, store: "Store") -> None:
        self._store = store
        self._begin_empty()

    def _begin_empty(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._coming: list[Waiter] = []
        self._watching: Watching | None = None

    async def read(self, names: Collection[bytes], look: Callable[[Collection[bytes]], _T], block: float | None) -> _T:
        """What `look` finds as soon as it finds something, or raises; or what it finds when the time is up.

        Args:
            names: of the streams.
            look: called in a thread with these names, and with those of streams that have changed. It must not wait.
            block: how long to wait, in seconds; 0: for ever; None: not at all.
        """
        check_block(block)
        until = None if not block else time.monotonic() + block
        found = await asyncio.to_thread(look, names)
        if found or block is None or (until is not None and time.monotonic() >= until):
            return found
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[_T] = loop.create_future()
        self._hand_over(Waiter(list(names), look, found, until, loop, answer))
        return await answer

    def _hand_over(self, waiter: Waiter) -> None:
        if self._process != os.getpid():  # in a fork the thread is not there, and the lock may be taken
            self._begin_empty()
        with self._lock:
            if self._watching is None:
                watching = Watching(self._store)
                threading.Thread(target=self._run, args=(watching,), name="diskstream readers").start()
                self._watching = watching
            self._coming.append(waiter)
            self._watching.interrupt()

    def _run(self, watching: Watching) -> None:
        coming: list[Waiter] = []
        with watching:
            while True:
                try:
                    watching.turn(coming)
                except Exception as error:  # noqa: BLE001  # raised again in the tasks
                    watching.fail(error, coming)
                with self._lock:
                    coming, self._coming = self._coming, []
                    if not coming and watching.is_idle:
                        self._watching = None
                        return

    def interrupt(self) -> None:
        """Has the thread see at once that the store was closed."""
        if self._process == os.getpid():
            with self._lock:
                if self._watching is not None:
                    self._watching.interrupt()
