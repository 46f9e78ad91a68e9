"""The reads of one store that tasks of asyncio wait in: one thread watches streams for all of them, another one stands
in the queues of groups.

A task has its looks in a thread of `asyncio.to_thread`, as what it asks for may lie on a disk. A read that has found
nothing stands at the end of its streams: the thread that watches looks again where a bell rings, which costs no more
than to unpack what was just appended, and tells the task. What a consumer is given is written to the log, and under
`always` flushed: its task looks again itself, once it is called.
"""

import asyncio
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, TypeVar

from diskstream._native import Delivery
from diskstream.aio_queueing import Called, Queueing
from diskstream.aio_waiter import WaitThread
from diskstream.aio_watching import Reader, Watching
from diskstream.counts import check_block
from diskstream.group_calls import GroupCall

if TYPE_CHECKING:
    from diskstream.store import Store

__all__ = ["Readers"]

_T = TypeVar("_T")


class Readers:
    """Who waits for entries of a store, whatever loop their tasks are in."""

    def __init__(self, store: "Store") -> None:
        self._watching: WaitThread[Reader] = WaitThread("diskstream readers", lambda: Watching(store))
        self._queueing: WaitThread[Called] = WaitThread("diskstream consumers", lambda: Queueing(store))

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
        reader = Reader(list(names), look, found, until)
        self._watching.hand_over(reader)
        answer: _T = await reader.answer
        return answer

    async def read_group(self, call: GroupCall) -> dict[bytes, list[Delivery]]:
        """What a call finds, as soon as it finds something, or when it is over. It is closed then.

        A task that is cancelled may have been given entries all the same: they are pending then.
        """
        with call:
            found = await asyncio.to_thread(call.look)
            while not found and not call.is_over:
                called = Called(call)
                self._queueing.hand_over(called)
                await called.answer
                found = await asyncio.to_thread(called.look)
            return found

    def interrupt(self) -> None:
        """Has the threads see at once that the store was closed."""
        self._watching.interrupt()
        self._queueing.interrupt()
