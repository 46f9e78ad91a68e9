"""A second opening of the same store, as another process has it, which takes turns with the first.

Whole operations take turns; and in the middle of one that a caller sees nothing of (sealing, compacting, moving), the
other opening may do some of its own, at any call of `Files` at which it would not have to wait for a lock. So a seed
gives the same order again, with no thread. Nobody dies and no disk fails where two have the store open.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from diskstream import Store
from diskstream.engine.log import StreamMoved
from diskstream.engine.page import APPEND, FLUSH

if TYPE_CHECKING:
    from tests.crash.workload import Workload

__all__ = ["Beside"]


class Beside:
    """The opening whose turn it is not."""

    def __init__(self, work: Workload, store: Store, among: list[Callable[[Workload], None]]) -> None:
        """Takes another opening, and the operations that it may do in the middle of one of the first."""
        self._work, self.store, self._among, self._busy = work, store, among, False

    def turn(self) -> None:
        """The other one goes on."""
        self._work.store, self.store = self.store, self._work.store

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
    def meanwhile(self) -> Iterator[None]:
        """Lets the other one do things until the end of the block."""
        if self._busy:
            yield
            return
        self._work.files.between = self._perhaps
        try:
            yield
        finally:
            self._work.files.between = None

    def _perhaps(self) -> None:
        work = self._work
        if self._busy or work.rng.random() > 0.25 or not self._is_free():
            return
        self._busy = True
        self.turn()
        try:
            work.counts["operations in the middle of another process's"] += 1
            work.note("meanwhile:")
            work.rng.choice(self._among)(work)
        finally:
            self.turn()
            self._busy = False

    def _is_free(self) -> bool:
        """Whether nobody holds a lock that these operations take, or is alone with a page that they may open."""
        path = self.store.path
        if not all(map(self._is_open_to_all, [path / "ctl", *path.glob("streams/*/ctl")])):
            return False
        guards = [self.store._page.ctl.locked(APPEND, False)]
        for log in (*self.store._logs.values(), *self._work.store._logs.values()):
            if not log.closed:
                guards += [log.ctl.locked(APPEND, False), log.ctl.locked(FLUSH, False)]
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
