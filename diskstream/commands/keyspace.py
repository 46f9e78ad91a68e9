"""The databases of a directory: streams, and what else a key can be."""

import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from diskstream import store as _store
from diskstream.commands.failures import WRONG_TYPE
from diskstream.commands.replies import Failure
from diskstream.store import Store
from diskstream.stream import Stream

__all__ = ["DATABASES", "Keyspace"]

DATABASES = 16


class Keyspace:
    """The databases of a directory, opened as they are used. Safe under threads.

    Args:
        path: the directory; database 0 is the store in it.
        options: how stores are opened: see `diskstream.open`.
    """

    def __init__(self, path: str | os.PathLike[str], **options: Any) -> None:
        self.path = Path(path)
        self.options = options
        self._mutex = threading.Lock()
        self._stores: dict[int, Store] = {}
        self._others: dict[tuple[int, bytes], object] = {}
        self.store(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def store(self, database: int) -> Store:
        """The store of a database.

        Raises:
            DiskstreamError: it cannot be opened.
        """
        with self._mutex:
            found = self._stores.get(database)
            if found is None:
                path = self.path / f"db{database}" if database else self.path
                found = self._stores[database] = _store.open(path, **self.options)
            return found

    def stream(self, database: int, key: bytes) -> Stream:
        """The stream of that name, whether there is one or not.

        Raises:
            Failure: the key is of another type.
        """
        if self.is_other(database, key):
            raise Failure(WRONG_TYPE)
        return self.store(database).stream(key)

    def is_other(self, database: int, key: bytes) -> bool:
        """Whether the key holds something else than a stream."""
        return (database, key) in self._others

    def close(self) -> None:
        """Closes all stores."""
        with self._mutex:
            stores, self._stores = self._stores, {}
        for store in stores.values():
            store.close()
