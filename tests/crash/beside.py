"""A second opening of the same store, as another process has it, which takes turns with the first.

Whole operations take turns; and in the middle of one that a caller sees nothing of (sealing, compacting, moving,
flushing), the other opening may do some of its own, at any call of `Files` at which it would not have to wait for a
lock. So a seed gives the same order again, with no thread. (An append holds the append lock from its first byte to its
last: there is no middle of it that another append could be in.) Either may die; the other one lives on, and another
comes. The disk may fail for either; what is poisoned then is so for both, until one opens it anew. (Where the disk may
fail, operations are whole.)
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from diskstream import ArgumentError, Store
from diskstream.engine.log import StreamMoved
from diskstream.engine.page import APPEND, FLUSH, POISONED
from diskstream.membership import locked
from tests.crash.view import leave_view

if TYPE_CHECKING:
    from tests.crash.workload import Workload

__all__ = ["Beside"]

# What a thread is told that asks for a lock of its own.
_WOULD_WAIT = "this thread is changing the stream already"


class Beside:
    """The opening whose turn it is not."""

    def __init__(
        self,
        work: Workload,
        among: list[Callable[[Workload], None]],
        in_flush: list[Callable[[Workload], None]],
    ) -> None:
        """Opens the store again. It may do `among` in the middle of the first one's work, `in_flush` beside a flush."""
        self._work, self._among, self._in_flush, self._busy = work, among, in_flush, False
        work.files.pages.owner ^= 1
        self.store = work.begin()
        work.files.pages.owner ^= 1

    def turn(self) -> None:
        """The other one goes on."""
        self._work.store, self.store = self.store, self._work.store
        self._work.files.pages.owner ^= 1

    def used(self) -> list[bytes]:
        """The streams that the opening whose turn it is has open: it makes no others durable."""
        names = []
        for name, log in list(self._work.store._logs.items()):
            with contextlib.suppress(StreamMoved):
                if not log.closed:
                    log.refresh()
                    names.append(name)
        return sorted(set(names) & set(self._work.promises.now))

    @contextlib.contextmanager
    def meanwhile(self, *, flushing: bool = False) -> Iterator[None]:
        """Lets the other one do things until the end of the block; with `flushing`, only behind a flush."""
        if self._busy or self._work.faults:
            yield
            return
        files = self._work.files
        files.between = None if flushing else self._perhaps
        # Under `always` each append waits for a flush of its own, which begins when this one has ended.
        files.in_flush = None if self._work.always else self._perhaps_in_flush
        try:
            yield
        finally:
            files.between = files.in_flush = None

    def _perhaps(self) -> None:
        if not self._busy and self._work.rng.random() < 0.25 and self._is_free(APPEND, FLUSH):
            self._act(self._among, "operations in the middle of another process's")

    def _perhaps_in_flush(self) -> None:
        if not self._busy and self._work.rng.random() < 0.5 and self._is_free(APPEND):
            self._work.may_flush = False
            try:
                self._act(self._in_flush, "operations between a flush and what it made durable")
            except ArgumentError as error:
                if _WOULD_WAIT not in str(error):
                    raise
                self._work.note("it waits")  # for this flush to end: a roll begins with one of its own
            finally:
                self._work.may_flush = True

    def _act(self, among: list[Callable[[Workload], None]], what: str) -> None:
        work, pages = self._work, self._work.files.pages
        self._busy, pages.lent = True, pages.held()
        self.turn()
        try:
            work.counts[what] += 1
            work.note("meanwhile:")
            work.rng.choice(among)(work)
        finally:
            self.turn()
            self._busy, pages.lent = False, frozenset()

    # --- a death ------------------------------------------------------------------------------------------------------

    def bury(self) -> None:
        """Whose turn it is has died: the other one goes on with what it left, or another that comes does."""
        work, dead = self._work, self._work.store
        work.note("killed beside the other process")
        work.counts["processes killed beside another"] += 1
        for log in list(dead._logs.values()):
            log.abandon(waits=False)
        dead._page.close()
        work.files.revive()
        if work.rng.random() < 0.7:
            self.turn()
            self._put_right(work.store)
            self.turn()
        work.store = work.opened()
        self._put_right(work.store)

    def _put_right(self, store: Store) -> None:
        """As the next append to each stream does: what the dead one left whole is there from now on."""
        for name in store.streams(unfinished=True):
            with self._work.excusing():
                store.stream(name)._use(lambda log: locked(log, lambda _: None), None)

    # --- a disk that fails --------------------------------------------------------------------------------------------

    def must_refuse(self, name: bytes, refuses: Callable[[], None]) -> None:
        """What one found poisoned is so for the other, if it has it open: whoever opens it puts it right."""
        log = self.store._logs.get(name)
        if log is None or log.closed or not log.ctl.flags & POISONED:
            return
        self.turn()
        try:
            refuses()
        finally:
            self.turn()

    def anew(self) -> None:
        """Both close the store and open it again, as the error says."""
        work = self._work
        for _ in range(2):
            with work.excusing():
                work.store.close()
            self.turn()
        if work.rng.random() < 0.7:
            leave_view(work.view, cleanly=work.rng.random() < 0.7)
        work.go_next()
        self.turn()
        work.store = work.opened()
        self.turn()

    # --- locks --------------------------------------------------------------------------------------------------------

    def _is_free(self, *locks: int) -> bool:
        """Whether nobody holds a lock that these operations take, or is alone with a page that they may open."""
        path = self.store.path
        if not all(map(self._is_open_to_all, [path / "ctl", *path.glob("streams/*/ctl")])):
            return False
        guards = [self.store._page.ctl.locked(APPEND, False)]
        for log in (*self.store._logs.values(), *self._work.store._logs.values()):
            if not log.closed:
                guards += [log.ctl.locked(lock, False) for lock in locks]
        return all(map(self._try, guards))

    @staticmethod
    def _is_open_to_all(page: Path) -> bool:
        with contextlib.suppress(FileNotFoundError), page.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:  # somebody recovers what it is the page of
                return False
            fcntl.flock(file, fcntl.LOCK_UN)
        return True

    @staticmethod
    def _try(guard: contextlib.AbstractContextManager[bool]) -> bool:
        with guard as is_held:
            return is_held
