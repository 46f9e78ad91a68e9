"""What time it is for a command: the same from its beginning to its end, and for all of an EXEC, as in Redis."""

import threading
from collections.abc import Callable

__all__ = ["UNREAD", "Moment", "MomentOfThread"]

UNREAD = -1


class Moment:
    """A moment, as long as it is held: between two looks at a key no time passes then.

    Attributes:
        at: None where time passes; while a command runs `UNREAD`, and from its first look at the clock on what it said.
    """

    at: int | None = None

    def now(self, clock: Callable[[], int]) -> int:
        """The time."""
        if self.at is None:
            return clock()
        if self.at == UNREAD:
            self.at = clock()
        return self.at


class MomentOfThread(threading.local, Moment):
    """One of each thread's own, for commands that several threads run side by side; it costs a little more."""
