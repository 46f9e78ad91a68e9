"""The names of a store's streams, read from the disk again only when the directory has changed."""

import time
import zlib
from bisect import bisect_right

from diskstream.store import Store
from diskstream.system_calls import wrapped
from diskstream.watching import SETTLED_NS

__all__ = ["Listing", "ordered", "some_after"]

Order = list[tuple[int, bytes]]


def ordered(names: list[bytes]) -> Order:
    """Names in the order of SCAN, that of a checksum: it says nothing, but does not change as keys come and go."""
    return sorted((zlib.crc32(name) + 1, name) for name in names)


def some_after(order: Order, place: int, count: int) -> tuple[list[bytes], int]:
    """At least `count` names behind a place, and the place of the last one; 0 where there are no more.

    Names in one place come together, so that a place says where to go on.
    """
    first = bisect_right(order, place, key=lambda item: item[0])
    end = min(first + count, len(order))
    while first < end < len(order) and order[end][0] == order[end - 1][0]:
        end += 1
    return [name for _, name in order[first:end]], order[end - 1][0] if end < len(order) else 0


class Listing:
    """The names in one store."""

    def __init__(self, store: Store, hidden: bytes) -> None:
        self._store, self._hidden = store, hidden
        self._path = store.path / "streams"
        self._stamp = -1
        self._names: list[bytes] = []
        self._order: Order | None = None

    def names(self) -> list[bytes]:
        """All names in byte order, but those that begin as hidden ones do; not to be changed."""
        now, stamp = time.time_ns(), self._stamp_now()
        if stamp != self._stamp:
            found = [name for name in self._store.streams() if not name.startswith(self._hidden)]
            self._names, self._order = found, None
            self._stamp = stamp if now - stamp > SETTLED_NS else -1
        return self._names

    def _stamp_now(self) -> int:
        try:
            with wrapped(self._path, "look at"):
                return self._path.stat().st_mtime_ns
        except FileNotFoundError:
            self._store.streams()  # says that the store is gone
            raise

    def order(self) -> Order:
        """The same in the order of SCAN."""
        names = self.names()
        if self._order is None:
            self._order = ordered(names)
        return self._order
