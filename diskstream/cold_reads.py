"""Reading what was moved to object storage: the fetcher that a store hands to its engine, and where its cache is.

A store that may be written to has its cache in ``cold-cache/``. One that is open for reading only, and so a lease or a
backup, changes nothing in its directory: its cache is elsewhere, see `cold_folders`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from diskstream.cold_folders import ReadersFolder
from diskstream.engine.cold import Stub
from diskstream.engine.cold_cache import ColdCache
from diskstream.engine.directory import store_uuid
from diskstream.engine.files import Files
from diskstream.errors import ArgumentError, NotAStoreError, RemoteError
from diskstream.objects import Place
from diskstream.options import Options

__all__ = ["cold_cache"]


class _Folder:
    """Where the cache of one opening is: asked for when it is first needed."""

    def __init__(self, store: Path, *, read_only: bool) -> None:
        self._store, self._readers = store, ReadersFolder() if read_only else None

    def __call__(self) -> Path:
        if self._readers is None:
            return self._store / "cold-cache"
        return self._readers.path(self._identity)

    def _identity(self) -> str | None:
        try:
            return store_uuid(self._store)
        except NotAStoreError:  # what is damaged is read all the same, to be verified
            return None

    def close(self) -> None:
        if self._readers is not None:
            self._readers.close()


def cold_cache(store: Path, options: Options, files: Files, *, read_only: bool) -> ColdCache:
    """The cache of one opening of a store; nothing is made before something is fetched."""
    places: dict[str, Place] = {}
    mutex = threading.Lock()
    folder = _Folder(store, read_only=read_only)

    def fetch(stub: Stub, sink: Callable[[bytes], object]) -> None:
        try:
            with mutex:
                place = places.setdefault(stub.url, Place(stub.url)) if stub.url not in places else places[stub.url]
        except ArgumentError as error:
            raise RemoteError("the place of a stub", str(error)) from None
        place.fetch(stub.path, sink, stub.size_bytes)

    return ColdCache(folder, options.cold_cache_bytes, fetch, files, folder.close)
