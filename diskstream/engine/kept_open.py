"""What the streams of a store keep open together: decoded nodes, and segments, the most recently used ones."""

import itertools
import threading
from collections import OrderedDict

from diskstream._native import NodeCache, RowSegment, SealedSegment
from diskstream.engine.cold_cache import ColdCache
from diskstream.engine.descriptors import offer, uses

__all__ = ["Key", "SharedCache"]

_MAX_OPEN = 512
# How long is waited for who looks something up: far longer than that takes.
_PATIENCE_S = 1.0

Key = tuple[int, int, int]  # the owner, the segment's number and its generation


class SharedCache:
    """What the streams of a store keep open together: decoded nodes, and segments, the most recently used ones."""

    def __init__(self, nodes_bytes: int, cold: ColdCache | None = None) -> None:
        self.nodes = NodeCache(nodes_bytes)
        self.cold = cold or ColdCache()
        self._open: OrderedDict[Key, SealedSegment | RowSegment] = OrderedDict()
        # Of these the ones fetched back, and their bytes: what the cache has removed takes room until it is closed.
        self._fetched: OrderedDict[Key, int] = OrderedDict()
        self._mutex = threading.Lock()
        self._numbers = itertools.count()
        self._owners: set[int] = set()  # those that are open: for others nobody would close a segment again
        offer(self._give_up)

    def new_owner(self) -> int:
        """A number for the keys of one opening of a stream."""
        owner = next(self._numbers)
        self._owners.add(owner)
        return owner

    def get(self, key: Key) -> SealedSegment | RowSegment | None:
        """The open segment, if it is open."""
        with self._mutex:
            found = self._open.get(key)
            if found is not None:
                self._open.move_to_end(key)
                if key in self._fetched:
                    self._fetched.move_to_end(key)
            return found

    def put(self, key: Key, opened: SealedSegment | RowSegment) -> None:
        """Keeps a segment open, and closes those that nobody has used for longest.

        Not for an opening of a stream that was closed: who reads it on has what it reads.
        """
        with self._mutex:
            if key[0] not in self._owners:
                return
            self._open[key] = opened
            self._fetched.pop(key, None)
            while len(self._open) > _MAX_OPEN:
                old, _ = self._open.popitem(last=False)
                self._fetched.pop(old, None)

    def put_fetched(self, key: Key, opened: SealedSegment) -> None:
        """The same for one that was fetched back, within the limit of these."""
        self.put(key, opened)
        with self._mutex:
            if key not in self._open:
                return
            self._fetched[key] = opened.file_bytes
            while len(self._fetched) > 1 and sum(self._fetched.values()) > self.cold.limit_bytes:
                old, _ = self._fetched.popitem(last=False)
                self._open.pop(old, None)

    def _give_up(self, count: int) -> int:
        """Closes up to so many that nobody uses, first those that nobody has used for longest. Returns how many."""
        if not self._mutex.acquire(timeout=_PATIENCE_S):  # this thread may have it, where a log is closed by chance
            return 0
        try:
            idle = (key for key in list(self._open) if uses([self._open[key]]) == 1)
            closed = [(key, self._open.pop(key)) for key in itertools.islice(idle, count)]
            for key, _ in closed:
                self._fetched.pop(key, None)
        finally:
            self._mutex.release()
        return len(closed)

    def drop(self, key: Key) -> None:
        """Closes a segment."""
        with self._mutex:
            self._open.pop(key, None)
            self._fetched.pop(key, None)

    def drop_owner(self, owner: int) -> None:
        """Closes all segments of one opening of a stream."""
        with self._mutex:
            for key in [key for key in self._open if key[0] == owner]:
                del self._open[key]
                self._fetched.pop(key, None)

    def end_owner(self, owner: int) -> None:
        """The same for good: what somebody opens for it from now on is not kept."""
        self._owners.discard(owner)
        self.drop_owner(owner)
