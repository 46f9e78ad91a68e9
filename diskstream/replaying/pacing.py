"""When an entry is due: as far behind the first one as it was, or so many times faster."""

import time
from collections.abc import Callable
from threading import Event
from typing import Final

from diskstream.errors import ArgumentError

__all__ = ["SLOWEST", "Pacer"]

SLOWEST: Final = 1e-6
"""A second in eleven days, or an entry: with less of a speed or rate the length of a replay is beyond any number."""

# Waiting is cut into pieces, so that no timeout is beyond what the system takes.
_LONGEST_S: Final = 3600.0
# The rate after a pause: so much of it is caught up.
_BURST_S: Final = 0.25


class Pacer:
    """Says how long to wait for an entry, by a clock that only goes forward; being late once is caught up.

    Attributes:
        stop: set it, and waiting ends.
    """

    def __init__(
        self,
        speed: float | None = None,
        *,
        rate: float | None = None,
        stop: Event | None = None,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        """`speed`: 1 is the original pace, 10 ten times that, None no pace at all; `rate`: entries a second at most.

        Raises:
            ArgumentError: one of them is below `SLOWEST`, or no number.
        """
        for what, value in (("speed", speed), ("rate", rate)):
            if value is not None and not SLOWEST <= value < float("inf"):
                raise ArgumentError(f"the {what} of a replay is a number from {SLOWEST:f} on, not {value}")
        self.stop = stop or Event()
        self._speed, self._rate, self._clock, self._wait = speed, rate, clock, wait or self.stop.wait
        self._first_ms = -1
        self._began = 0.0
        self._next = 0.0

    def due_in(self, ms: int) -> float:
        """Seconds until an entry whose ID has these milliseconds is due; 0 where it is, or was before."""
        now = self._clock()
        if self._first_ms < 0:
            self._first_ms, self._began = ms, now
        due = self._began
        if self._speed is not None:
            due += (ms - self._first_ms) / 1000 / self._speed
        if self._rate is not None:
            due = max(due, self._next)
        return max(0.0, due - now)

    def sent(self) -> None:
        """Takes note of an entry that counts for the rate."""
        if self._rate is not None:
            self._next = max(self._next, self._clock() - _BURST_S) + 1 / self._rate

    def wait(self, ms: int) -> bool:
        """Waits until such an entry is due. False where it was stopped before."""
        while not self.stop.is_set():
            left = self.due_in(ms)
            if left <= 0:
                return True
            self._wait(min(left, _LONGEST_S))
        return False
