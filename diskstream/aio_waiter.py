"""A task of asyncio that waits to be told by a thread, and the thread: one for all tasks, while there are any."""

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

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


class WaitThread(Generic[_W]):
    """Those who wait, whatever loop their tasks are in. The thread runs while there is anybody."""

    def __init__(self, name: str, begin: Callable[[], Watcher[_W]]) -> None:
        """Nobody waits yet.

        Args:
            name: of the thread.
            begin: makes what it does, each time that somebody comes and nobody is there.
        """
        self._name, self._begin = name, begin
        self._begin_empty()

    def _begin_empty(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._coming: list[_W] = []
        self._watcher: Watcher[_W] | None = None

    def hand_over(self, waiter: _W) -> None:
        """Has the thread wait for it."""
        if self._process != os.getpid():  # in a fork the thread is not there, and the lock may be taken
            self._begin_empty()
        with self._lock:
            if self._watcher is None:
                watcher = self._begin()
                threading.Thread(target=self._run, args=(watcher,), name=self._name).start()
                self._watcher = watcher
            self._coming.append(waiter)
            self._watcher.interrupt()

    def _run(self, watcher: Watcher[_W]) -> None:
        coming: list[_W] = []
        with watcher:
            while True:
                try:
                    watcher.turn(coming)
                except Exception as error:  # noqa: BLE001  # raised again in the tasks
                    watcher.fail(error, coming)
                with self._lock:
                    coming, self._coming = self._coming, []
                    if not coming and watcher.is_idle:
                        self._watcher = None
                        return

    def interrupt(self) -> None:
        """Has the thread see at once that the store was closed."""
        if self._process == os.getpid():
            with self._lock:
                if self._watcher is not None:
                    self._watcher.interrupt()
