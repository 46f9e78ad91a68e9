"""The names of a store's streams, listed again only when their directory has changed, and sorted only once."""

import time
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

from diskstream.store import Store
from diskstream.system_calls import wrapped
from diskstream.watching import SETTLED_NS

__all__ = ["Listing", "Order", "ordered", "some_after"]

Order = list[tuple[int, bytes]]
_T = TypeVar("_T", bytes, tuple[int, bytes])


def ordered(names: Iterable[bytes]) -> Order:
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


class _Seen(NamedTuple):
    """What one look has found; nothing of it changes any more."""

    stamp: int  # -1 where the directory may have changed since without a trace
    known: dict[str, bytes]
    names: list[bytes]
    order: Order | None


class _Among(Generic[_T]):
    """Streams with other keys among them, and without those that have ended: sorted anew only where one has changed."""

    def __init__(self, shown: Callable[[Iterable[bytes]], list[_T]]) -> None:
        self._shown: Callable[[Iterable[bytes]], list[_T]] = shown
        self._made: tuple[list[_T], set[bytes], set[bytes], list[_T]] | None = None

    def all(self, streams: list[_T], others: set[bytes], ended: set[bytes]) -> list[_T]:
        """All of them; not to be changed."""
        if not (others or ended):
            return streams
        made = self._made
        if made is None or made[0] is not streams or made[1] != others or made[2] != ended:
            found = _changed(streams, self._shown(others - ended), set(self._shown(others | ended)))
            made = self._made = streams, others, ended, found
        return made[3]


class Listing:
    """The names in one store."""

    def __init__(self, store: Store, hidden: bytes) -> None:
        self._store, self._hidden = store, hidden
        self._path = store.path / "streams"
        self._seen = _Seen(-1, {}, [], None)
        self._names, self._order = _Among[bytes](sorted), _Among(ordered)

    def names(self, others: set[bytes], ended: set[bytes]) -> list[bytes]:
        """All names in byte order, but those that begin as hidden ones do; not to be changed.

        Args:
            others: names of keys that are no streams.
            ended: those that are not shown, of either kind.
        """
        return self._names.all(self._look().names, others, ended)

    def order(self, others: set[bytes], ended: set[bytes]) -> Order:
        """The same in the order of SCAN."""
        seen = self._look()
        order = ordered(seen.names) if seen.order is None else seen.order
        if seen.order is None:
            self._seen = seen._replace(order=order)
        return self._order.all(order, others, ended)

    def _look(self) -> _Seen:
        """What is there now: of what was there before, all that was made of it is used again."""
        seen, now, stamp = self._seen, time.time_ns(), self._stamp_now()
        if stamp == seen.stamp:
            return seen
        known = self._store._look_again(seen.known)
        came = [known[folder] for folder in known.keys() - seen.known.keys()]
        came = [name for name in came if not name.startswith(self._hidden)]
        went = {seen.known[folder] for folder in seen.known.keys() - known.keys()}
        order = None if seen.order is None else _changed(seen.order, ordered(came), {*ordered(went)})
        names = _changed(seen.names, came, went)
        seen = self._seen = _Seen(stamp if now - stamp > SETTLED_NS else -1, known, names, order)
        return seen

    def _stamp_now(self) -> int:
        try:
            with wrapped(self._path, "look at"):
                return self._path.stat().st_mtime_ns
        except FileNotFoundError:
            self._store.streams()  # says that the store is gone
            raise


def _changed(before: list[_T], came: list[_T], went: set[_T]) -> list[_T]:
    """A sorted list with some more and some less. What is sorted already is passed over by a sort, once."""
    if not came and not went:
        return before
    return sorted([item for item in before if item not in went] + came if went else before + came)
