"""One import at a time: of the same files, in the same way, into one stream.

Two that go on behind the same rows, in batches of different sizes, would both add what is behind them.

::

    imports/<sha256 of the stream's name and the key>.lock    locked (flock) by whoever imports, and says who
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import diskstream
from diskstream.errors import ChangedError
from diskstream.ingest.sources import shown
from diskstream.system_calls import give_folder, lock_now, open_regular, wrapped

__all__ = ["importing", "place_of"]


def place_of(store: diskstream.Store, stream: bytes, key: str, suffix: str) -> Path:
    """Where something stands of an import into a stream."""
    return store.path / "imports" / f"{hashlib.sha256(stream + b' ' + key.encode()).hexdigest()}{suffix}"


@contextlib.contextmanager
def importing(store: diskstream.Store, stream: bytes, key: str) -> Iterator[None]:
    """Keeps others from the same import; nothing where `key` is empty, as nobody can go on with that.

    Raises:
        ChangedError: somebody is at it; the message says who.
        StorageError: the disk said no.
    """
    if not key:
        yield
        return
    path = place_of(store, stream, key, ".lock")
    folder = path.parent
    with wrapped(folder, "make"):
        folder.mkdir(mode=0o750, exist_ok=True)
        give_folder(folder)
    fd = _locked(path, stream)
    try:
        with wrapped(path, "write"):
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        yield
    finally:
        with contextlib.suppress(OSError):  # what is left is locked by nobody
            path.unlink()
        os.close(fd)


def _locked(path: Path, stream: bytes) -> int:
    """The file of that name, locked: whoever had it removes it, and another may have made it anew."""
    while True:
        with wrapped(path, "open"):
            fd = open_regular(path, os.O_RDWR | os.O_CREAT)
        try:
            if not lock_now(fd, path):
                _refuse(fd, path, stream)
            with contextlib.suppress(FileNotFoundError), wrapped(path, "look at"):
                if os.path.samestat(os.fstat(fd), path.stat()):
                    return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)


def _refuse(fd: int, path: Path, stream: bytes) -> NoReturn:
    with wrapped(path, "read"):
        who = os.pread(fd, 256, 0).decode("utf-8", "replace").strip() or "another process"
    what = f"{who} imports the same into it just now"
    raise ChangedError(shown(stream), what, "wait for it to end; if it is stopped, let it go on or end it")
