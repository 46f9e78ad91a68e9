"""One import at a time: of the same files, in the same way, into one stream.

Two that go on behind the same rows, in batches of different sizes, would both add what is behind them.

::

    imports/<sha256 of the stream's name and the key>.lock    locked (flock) by whoever imports, and says who
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import diskstream
from diskstream.errors import ChangedError
from diskstream.ingest.sources import shown
from diskstream.system_calls import open_regular, wrapped

__all__ = ["importing"]


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
    folder = store.path / "imports"
    path = folder / f"{hashlib.sha256(stream + b' ' + key.encode()).hexdigest()}.lock"
    with wrapped(folder, "make"):
        folder.mkdir(mode=0o750, exist_ok=True)
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
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(fd), path.stat()):
                    return fd
        except BlockingIOError:
            who = os.pread(fd, 256, 0).decode("utf-8", "replace").strip() or "another process"
            os.close(fd)
            what = f"{who} imports the same into it just now"
            raise ChangedError(
                shown(stream), what, "wait for it to end; if it is stopped, let it go on or end it"
            ) from None
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
