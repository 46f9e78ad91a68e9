"""A clock that is not believed when it jumps ahead: by the age of entries, a wrong date would remove them all."""

import time
from collections.abc import Callable

__all__ = ["STEADY_MS", "STEP_MS", "SteadyClock"]

# Leap seconds, and what NTP corrects in one step (128 ms and more), are no jumps.
STEP_MS = 60_000
# Long enough for NTP to put right what is wrong after the start of a machine.
STEADY_MS = 600_000


def _boot_ms() -> int:
    """Milliseconds since the machine was started, sleep included: nobody can set this clock."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


class SteadyClock:
    """Holds a clock that can be set against the one that counts from the start of the machine.

    Where the former steps ahead of the latter, or steps back, it has to run on steadily for ten minutes before it is
    believed again; until then time goes on from what was believed before the step. A step back counts at once, since a
    smaller time removes less. In the first ten minutes nothing vouches for the clock but the newest entry.
    """

    def __init__(self, boot_ms: Callable[[], int] = _boot_ms) -> None:
        self._boot_ms = boot_ms
        self._anchor: tuple[int, int] | None = None  # both clocks when the present steadiness began
        self._believed: tuple[int, int] | None = None  # a time that was believed, and the boot clock then
        self._began = boot_ms()

    def believed(self, wall_ms: int, newest: tuple[int, int] | None = None) -> int:
        """The time that may be gone by.

        Args:
            wall_ms: what the clock says.
            newest: see `newest_at`.
        """
        boot = self._boot_ms()
        if self._anchor is None:
            self._anchor = wall_ms, boot
        expected = self._anchor[0] + boot - self._anchor[1]
        if abs(wall_ms - expected) > STEP_MS:
            if wall_ms > expected and self._believed is None:
                self._believed = expected, boot
            self._anchor = wall_ms, boot
        steady = boot - self._anchor[1] >= STEADY_MS
        if steady:
            self._believed = None
        limits = [wall_ms]
        if self._believed is not None:
            limits.append(self._believed[0] + boot - self._believed[1])
        if newest is not None and (boot - self._began < STEADY_MS or not steady):
            limits.append(newest[0] + boot - newest[1] + STEP_MS)
        return min(limits)

    def newest_at(self, last_ms: int) -> tuple[int, int]:
        """The milliseconds of a stream's last ID with the boot clock: to be kept from when it is first looked at."""
        return last_ms, self._boot_ms()
