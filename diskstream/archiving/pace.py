"""A limit on entries a second, shared by all who copy."""

from __future__ import annotations

import threading
import time

__all__ = ["Pace"]


class Pace:
    """Lets so many entries a second pass; None lets all pass."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._mutex = threading.Lock()
        self._free_at = time.monotonic()

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit."""
        return self._rate is not None

    def passed(self, entries: int, stop: threading.Event) -> None:
        """Waits until these entries are paid for, or `stop` is set."""
        if self._rate is None or not entries:
            return
        with self._mutex:
            now = time.monotonic()
            self._free_at = max(self._free_at, now) + entries / self._rate
            wait = self._free_at - now
        stop.wait(wait)
