"""Reading what was moved to object storage: the fetcher that a store hands to its engine, and where its cache is.

A store that may be written to has its cache in ``cold-cache/``. One that is open for reading only, and so a lease or a
backup, changes nothing in its directory: its cache is in the folder for temporary files, one for each user and store,
or one for each opening where the store does not say which it is.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

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
        self._store, self._read_only = store, read_only
        self._mutex = threading.Lock()
        self._found: Path | None = None
        self._remove: weakref.finalize[..., _Folder] | None = None

    def __call__(self) -> Path:
        if not self._read_only:
            return self._store / "cold-cache"
        with self._mutex:
            if self._found is None or not self._found.is_dir():
                self._found = self._kept_folder() or self._folder_for_now()
            return self._found

    def _kept_folder(self) -> Path | None:
        try:
            return _own_folder(store_uuid(self._store))
        except NotAStoreError:  # what is damaged is read all the same, to be verified
            return None

    def _folder_for_now(self) -> Path:
        """A folder with a name that no later opening finds again: it goes with this one, or with the process."""
        folder = Path(tempfile.mkdtemp(prefix="diskstream-cold-"))
        self._remove = weakref.finalize(self, _remove, folder, os.getpid())
        return folder

    def close(self) -> None:
        """Removes what no later opening could find."""
        with self._mutex:
            if self._remove is not None:
                self._remove()
            self._remove = self._found = None


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


def _own_folder(name: str) -> Path | None:
    """A folder below that for temporary files which nobody else can write to; None where it is not ours alone."""
    folder = Path(tempfile.gettempdir()) / f"diskstream-cold-{os.getuid()}-{name}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return None
    is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022
    return folder if is_ours else None


def _remove(folder: Path, maker: int) -> None:
    if os.getpid() == maker:  # and not one that was forked off, whose parent goes on reading
        shutil.rmtree(folder, ignore_errors=True)
