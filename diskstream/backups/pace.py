"""Not faster than so many bytes a second."""

import time
from collections.abc import Callable

__all__ = ["Pace"]

# Waits shorter than this are put off: the system would make them longer than they are.
_LEAST_WAIT_S = 0.005
# After a pause so much is caught up, not all of it.
_BURST_S = 0.25
_LONGEST_WAIT_S = 30.0


class Pace:
    """Called with the bytes just handled; waits where that was too fast.

    Attributes:
        done_bytes: all of them so far.
    """

    def __init__(
        self,
        bytes_per_s: int | None,
        *,
        on_bytes: Callable[[int], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self.done_bytes = 0
        self._rate, self._on_bytes, self._clock, self._wait = bytes_per_s, on_bytes, clock, wait
        self._due = clock()

    def __call__(self, size_bytes: int) -> None:
        """Takes note of bytes that were handled."""
        self.done_bytes += size_bytes
        if self._on_bytes is not None:
            self._on_bytes(size_bytes)
        if self._rate is None:
            return
        now = self._clock()
        self._due = max(self._due, now - _BURST_S) + size_bytes / self._rate
        left = self._due - now
        while left > _LEAST_WAIT_S:
            self._wait(min(left, _LONGEST_WAIT_S))
            left -= _LONGEST_WAIT_S
            if self._on_bytes is not None:
                self._on_bytes(0)  # whoever keeps something alive meanwhile
