"""What time it is for a command: the same from its beginning to its end, and for all of an EXEC, as in Redis."""

import threading
from collections.abc import Callable

__all__ = ["UNREAD", "Moment"]

UNREAD = -1


class Moment(threading.local):
    """A moment of each thread's own, as long as it is held: between two looks at a key no time passes then.

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
