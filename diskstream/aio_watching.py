"""What the thread does that watches a store for tasks of asyncio: looks where a bell rings, and tells who waits."""

import contextlib
import heapq
import itertools
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from diskstream.aio_waiter import SLICE_S, Waiter
from diskstream.errors import DiskstreamError
from diskstream.watching import Watch

if TYPE_CHECKING:
    from diskstream.store import Store

__all__ = ["Reader", "Watching"]

# So often the thread sees whether the streams are what they were: who replaced one may have died before its bell rang.
_LOOK_S = 1.0
# A store that is open for reading only hears no bell: it is looked at so often, or for a tenth of the time.
_POLL_S, _POLL_SHARE = 0.01, 9


@dataclass(eq=False, slots=True)
class Reader(Waiter):
    """A task that waits for a stream of one of these names, until a moment of `time.monotonic`.

    Attributes:
        names: of the streams.
        look: what finds entries in some of them, or nothing yet, or raises.
        nothing: what it finds where there is nothing.
        until: None: for ever.
    """

    names: list[bytes]
    look: Callable[[Collection[bytes]], Any]
    nothing: object
    until: float | None


class Watching:
    """The streams of one store that are waited for, and by whom. Of one thread, but for `interrupt`."""

    def __init__(self, store: "Store") -> None:
        self._store = store
        self._watch = Watch()
        self._waiters: dict[bytes, set[Reader]] = {}  # by each of their names
        self._ends: list[tuple[float, int, Reader]] = []
        self._numbers = itertools.count()
        self._swept_at = self._looked_at = self._busy_at = time.monotonic()
        self._pause_s = _POLL_S

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._watch.close()

    def interrupt(self) -> None:
        """Ends the wait of a turn, this one's or the next one's. Safe from any thread."""
        self._watch.interrupt()

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits, nor has for a while."""
        return not self._waiters and (self._store.closed or time.monotonic() - self._busy_at >= SLICE_S)

    def turn(self, coming: Iterable[Reader]) -> None:
        """Takes in who has come, waits once, and tells those for whom there is something."""
        for waiter in coming:
            self._begin(waiter)
        if self._waiters:
            self._busy_at = time.monotonic()
        self._watch.wait(self._patience_s())
        began = time.monotonic()
        for waiter, names in self._concerned(began).items():
            self._look(waiter, names)
        now = time.monotonic()
        self._pause_s = max(_POLL_S, _POLL_SHARE * (now - began))
        while self._ends and self._ends[0][0] <= now:
            self._end(heapq.heappop(self._ends)[2])
        if now - self._swept_at >= SLICE_S:
            self._swept_at = now
            self._sweep()

    def fail(self, error: Exception, coming: Iterable[Reader]) -> None:
        """Tells everybody what ended a turn."""
        for waiter in {*coming, *self._all()}:
            if not waiter.is_gone:
                waiter.tell(waiter.answer.set_exception, error)
        self._waiters.clear()
        self._ends.clear()
        self._watch.clear()

    def _all(self) -> set[Reader]:
        return {waiter for waiting in self._waiters.values() for waiter in waiting}

    def _begin(self, waiter: Reader) -> None:
        for name in waiter.names:
            self._waiters.setdefault(name, set()).add(waiter)
        if waiter.until is not None:
            heapq.heappush(self._ends, (waiter.until, next(self._numbers), waiter))
        for name in waiter.names:
            # One that cannot be opened has the look say so; where it could be meanwhile, the next look finds it.
            with contextlib.suppress(DiskstreamError, OSError):
                self._watch.add(self._store, name)
            self._look(waiter, [name])  # once it is watched, and is open: what came before that rings no more
            if waiter not in self._waiters.get(name, ()):
                return  # it was told, or has gone

    def _look(self, waiter: Reader, names: Collection[bytes]) -> None:
        if not waiter.is_gone:
            try:
                found = waiter.look(names)
            except Exception as error:  # noqa: BLE001  # raised again in the task that waits
                waiter.tell(waiter.answer.set_exception, error)
            else:
                if not found:
                    return
                waiter.tell(waiter.answer.set_result, found)
        self._forget(waiter)

    def _end(self, waiter: Reader) -> None:
        if not waiter.is_gone:
            waiter.tell(waiter.answer.set_result, waiter.nothing)
        self._forget(waiter)

    def _forget(self, waiter: Reader) -> None:
        for name in waiter.names:
            waiting = self._waiters.get(name, set())
            waiting.discard(waiter)
            if not waiting and self._waiters.pop(name, None) is not None:
                self._watch.remove(self._store, name)

    def _patience_s(self) -> float:
        most = self._pause_s if self._store.read_only and self._waiters else SLICE_S
        return most if not self._ends else max(0.0, min(most, self._ends[0][0] - time.monotonic()))

    def _concerned(self, now: float) -> Mapping[Reader, Collection[bytes]]:
        """For whom another look is worth it, and at what: each of the others would only be opened again."""
        places = self._watch.changed()
        if self._store.read_only:
            return {waiter: waiter.names for waiter in self._all()}
        if now - self._looked_at >= _LOOK_S:
            self._looked_at = now
            places += self._watch.stale()
        found: dict[Reader, list[bytes]] = {}
        for _, name in places:
            for waiter in self._waiters.get(name, ()):
                found.setdefault(waiter, []).append(name)
        return found

    def _sweep(self) -> None:
        """Lets go of who does not wait any more."""
        for waiter in self._all():
            if waiter.is_gone:
                self._forget(waiter)
        self._ends = [end for end in self._ends if not end[2].is_gone]
        heapq.heapify(self._ends)
