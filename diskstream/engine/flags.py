"""Flags between threads that an interrupt at any moment leaves whole, in the middle of being raised too."""

import threading
import time
from queue import Empty, SimpleQueue

__all__ = ["Flag"]


class Flag(threading.Event):
    """An event that may be set in a signal handler, and in the middle of being set.

    `threading.Event` takes a lock in Python code: a handler that raises there leaves it taken, and one that sets the
    same event waits for it for ever. A `SimpleQueue` is set and read in one native step.
    """

    def __init__(self) -> None:
        super().__init__()
        self._is_set = False
        self._told: SimpleQueue[None] = SimpleQueue()

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._is_set

    def set(self) -> None:
        """Sets it, and wakes who waits."""
        self._is_set = True
        self._told.put(None)

    def clear(self) -> None:
        """Waits wait again from now on."""
        self._is_set = False
        while not self._told.empty():
            self._told.get_nowait()

    def wait(self, timeout: float | None = None) -> bool:
        """Returns once it is set, or after so many seconds. Whether it is set."""
        ends = None if timeout is None else time.monotonic() + timeout
        while not self.is_set():
            try:
                self._told.get(timeout=None if ends is None else max(0.0, ends - time.monotonic()))
            except Empty:
                break
            if self.is_set():
                self._told.put(None)  # for the next one who waits
        return self._is_set
