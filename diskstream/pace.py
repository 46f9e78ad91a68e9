"""A bound on what passes in a second, bytes or entries: waited for by whoever moves them."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from diskstream.errors import ArgumentError

__all__ = ["Pace", "check_pace"]

# Waits shorter than this are put off: the system would make them longer than they are.
_LEAST_WAIT_S = 0.005
# Who was slower for a while catches up so much of it, not all.
_BURST_S = 0.25
# Waits are cut into pieces, so that no timeout is beyond what the system takes.
_LONGEST_WAIT_S = 30.0


def check_pace(name: str, given: object) -> None:
    """Refuses what is no bound; None is none.

    Raises:
        ArgumentError: it is not above 0, or infinite.
    """
    if given is not None and (
        not isinstance(given, int | float) or isinstance(given, bool) or not math.isfinite(given) or given <= 0
    ):
        raise ArgumentError(f"{name} must be a number above 0, not {given!r}")


class Pace:
    """Lets so much a second pass, for all threads together; None lets all pass.

    Attributes:
        is_limited: whether there is a bound.
    """

    def __init__(self, per_s: float | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s, self._clock = per_s, clock
        self._mutex = threading.Lock()
        self._due = -math.inf  # when what has passed was due
        self.is_limited = per_s is not None

    def passed(self, amount: int, wait: Callable[[float], object] = time.sleep) -> None:
        """Waits until what has just passed is due.

        Args:
            amount: how much that was.
            wait: waits so many seconds, 30 at most. Where it says true, as `Event.wait` does, there is no more waiting.
        """
        if self._per_s is None or not amount:
            return
        with self._mutex:
            now = self._clock()
            began = now if self._due == -math.inf else max(self._due, now - _BURST_S)
            self._due = began + amount / self._per_s
            left = self._due - now
        while left > _LEAST_WAIT_S and not wait(min(left, _LONGEST_WAIT_S)):
            left -= _LONGEST_WAIT_S
