"""A task of asyncio that waits to be told by a thread, and the thread: one for all tasks, while there are any."""

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from diskstream.engine.threads import begun, too_many

__all__ = ["SLICE_S", "WaitThread", "Waiter", "tell_all"]

# So often a thread sees whether anybody is still there to hear of what comes: a program that ends waits for it. As long
# it waits for somebody else before it ends.
SLICE_S = 0.25


@dataclass(eq=False, slots=True, kw_only=True)
class Waiter:
    """A task that waits.

    Attributes:
        loop: where the task is.
        answer: what it awaits.
        told: whether it was answered.
        thread: that of the loop, where it is made.
    """

    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    answer: "asyncio.Future[Any]" = field(init=False)
    told: bool = field(default=False, init=False)
    thread: threading.Thread = field(default_factory=threading.current_thread)

    def __post_init__(self) -> None:
        """Nothing was answered yet."""
        self.answer = self.loop.create_future()

    @property
    def is_gone(self) -> bool:
        """Whether nobody waits any more: it was answered, the task was cancelled, or its loop will not go on."""
        if self.told or self.answer.done() or self.loop.is_closed():
            return True
        # A program that ends waits for the thread that watches, and for no loop in a daemon.
        is_ending = not threading.main_thread().is_alive()
        return is_ending and (self.thread.daemon or not self.thread.is_alive())

    def tell(self, say: Callable[[Any], None], what: object) -> None:
        """Answers, with `set_result` or `set_exception` of its future."""

        def unless_cancelled() -> None:
            if not self.answer.done():
                say(what)

        self.told = True
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens
            self.loop.call_soon_threadsafe(unless_cancelled)


def tell_all(waiters: Iterable[Waiter]) -> None:
    """Answers all of them with None. Each loop is woken once: thousands may be told together."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Waiter]] = {}
    for waiter in waiters:
        waiter.told = True
        by_loop.setdefault(waiter.loop, []).append(waiter)
    for loop, told in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens
            loop.call_soon_threadsafe(_answer_all, told)


def _answer_all(waiters: Iterable[Waiter]) -> None:
    for waiter in waiters:
        if not waiter.answer.done():
            waiter.answer.set_result(None)


_W = TypeVar("_W", bound=Waiter)
_W_contra = TypeVar("_W_contra", bound=Waiter, contravariant=True)


class Watcher(AbstractContextManager[Any], Protocol[_W_contra]):
    """What the thread does. All of it is called in the thread, but for `interrupt`."""

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits, nor has for a while."""
        ...

    def turn(self, coming: Iterable[_W_contra]) -> None:
        """Takes in who has come, waits once, and tells those for whom there is something."""
        ...

    def fail(self, error: Exception, coming: Iterable[_W_contra]) -> None:
        """Tells everybody what ended a turn."""
        ...

    def interrupt(self) -> None:
        """Ends the wait of a turn, this one's or the next one's. Safe from any thread."""
        ...


class _OfProcess(Generic[_W]):
    """Who waits in one process.

    Attributes:
        lock: of the others.
        coming: who has come since the thread looked.
        watcher: what the thread does; None where there is none.
        thread: the one that was begun last.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.coming: list[_W] = []
        self.watcher: Watcher[_W] | None = None
        self.thread: threading.Thread | None = None


class WaitThread(Generic[_W]):
    """Those who wait, whatever loop their tasks are in. The thread runs while there is anybody."""

    def __init__(self, name: str, begin: Callable[[], Watcher[_W]]) -> None:
        """Nobody waits yet.

        Args:
            name: of the thread.
            begin: makes what it does, each time that somebody comes and nobody is there.
        """
        self._name, self._begin = name, begin
        # In a forked child the thread is not there, and the parent's lock may be taken.
        self._by_process: dict[int, _OfProcess[_W]] = {}

    @property
    def here(self) -> _OfProcess[_W]:
        """Those of this process."""
        process = os.getpid()
        found = self._by_process.get(process)
        if found is None:
            # One step: of two threads of a forked child that come at once, one would wait where nobody looks.
            found = self._by_process.setdefault(process, _OfProcess())
            for other in [each for each in list(self._by_process) if each != process]:
                self._by_process.pop(other, None)
        return found

    def hand_over(self, waiter: _W) -> None:
        """Has the thread wait for it.

        Raises:
            StorageError: there are too many threads.
        """
        here = self.here
        with here.lock:
            # A thread that a signal kept from beginning, or that there was no room for, is not there.
            if here.watcher is None or here.thread is None or not here.thread.is_alive():
                here.watcher = self._begin()
                here.thread = threading.Thread(target=self._run, args=(here, here.watcher), name=self._name)
                try:
                    begun(here.thread)
                except RuntimeError as error:
                    raise too_many(self._name, error) from error
            here.coming.append(waiter)
            here.watcher.interrupt()

    @staticmethod
    def _run(here: _OfProcess[_W], watcher: Watcher[_W]) -> None:
        coming: list[_W] = []
        with watcher:
            while True:
                try:
                    watcher.turn(coming)
                except Exception as error:  # noqa: BLE001  # raised again in the tasks
                    watcher.fail(error, coming)
                with here.lock:
                    coming, here.coming = here.coming, []
                    if not coming and watcher.is_idle:
                        if here.watcher is watcher:
                            here.watcher = None
                        return

    def interrupt(self) -> None:
        """Has the thread see at once that the store was closed."""
        here = self.here
        with here.lock:
            if here.watcher is not None:
                here.watcher.interrupt()
