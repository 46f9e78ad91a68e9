"""Stores that a worker keeps open from task to task, a few: each is closed when others came after it, once unread."""

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import diskstream
from diskstream.errors import NotAStoreError
from diskstream.store import Store

__all__ = ["STORES", "KeptStores"]


@dataclass
class _Kept:
    store: Store
    readers: int = 0


class KeptStores:
    """Safe under threads. Each read names a lease of its own, so a worker that is reused sees ever new paths."""

    def __init__(self, most: int) -> None:
        """Keeps nothing yet.

        Args:
            most: how many stores that nobody reads stay open.
        """
        self._most, self._mutex = most, threading.Lock()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    @contextmanager
    def reading(self, path: str) -> Iterator[Store]:
        """The store at `path`, opened read-only; it stays open for the next task.

        Raises:
            NotAStoreError: the worker does not see it.
        """
        with self._mutex:
            kept = self._kept.get(path)
            if kept is None:
                kept = self._kept[path] = _Kept(diskstream.open(path, read_only=True))
            self._kept.move_to_end(path)
            kept.readers += 1
        failed = False
        try:
            yield kept.store
        except NotAStoreError:
            failed = True  # a lease that is gone: what is made at its path later is another store
            raise
        finally:
            with self._mutex:
                kept.readers -= 1
                if failed and self._kept.get(path) is kept:
                    del self._kept[path]
                if not kept.readers and self._kept.get(path) is not kept:
                    kept.store.close()
                self._drop(self._most)

    def let_go(self, path: str) -> None:
        """Has the next reader open the store at `path` anew; whoever reads it goes on."""
        with self._mutex:
            kept = self._kept.pop(path, None)
            if kept is not None and not kept.readers:
                kept.store.close()

    def forget(self) -> None:
        """Closes what nobody reads."""
        with self._mutex:
            self._drop(0)

    def _drop(self, most: int) -> None:
        unread = [path for path, kept in self._kept.items() if not kept.readers]
        for path in unread[: max(0, len(unread) - most)]:
            self._kept.pop(path).store.close()


# Spark's Python workers go from task to task: what one opened, and the nodes it has unpacked, serve the next.
STORES: Final = KeptStores(4)
