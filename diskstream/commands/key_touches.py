"""When each key was last touched: what WATCH goes by, which is not to miss a change that was undone."""

import itertools
import threading
from typing import Final

__all__ = ["Key", "Touches"]

# A place, or the number of a database, and a name.
Key = tuple[int, bytes]

_AT_HAND: Final = 8192
# Of the process: what a store that is opened anew counts is never what it counted before.
_MOMENTS = itertools.count(1)


class Touches:
    """When each key was touched last, by the number of its database. Of those that are forgotten the last time is kept.

    As some are forgotten all of those seem touched: a WATCH of one of them was for nothing then, and is tried again.
    Safe under threads.
    """

    def __init__(self) -> None:
        self._last: dict[Key, int] = {}
        self._floor = next(_MOMENTS)
        self._mutex = threading.Lock()

    def note(self, key: Key) -> None:
        """A key is touched now."""
        with self._mutex:
            self._last.pop(key, None)  # so that who was touched first is first
            self._last[key] = next(_MOMENTS)
            if len(self._last) > _AT_HAND:
                for old in list(self._last)[: _AT_HAND // 2]:
                    self._floor = self._last.pop(old)

    def note_all(self) -> None:
        """Every key is touched now, those that are not there as well."""
        with self._mutex:
            self._last.clear()
            self._floor = next(_MOMENTS)

    def of(self, key: Key) -> int:
        """Another one after each touch of the key."""
        return self._last.get(key, self._floor)

    def after_fork(self) -> None:
        """In a forked child: the threads that held the lock are the parent's."""
        self._mutex = threading.Lock()
