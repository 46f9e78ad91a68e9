"""What work on a whole store remembers beside its streams: small JSON files below ``archives/``, and a lock.

::

    archives/<sha256 of the stream's name>.json     one object; written under a temporary name, flushed, renamed
    archives/lock                                   locked (flock) by whoever archives into the store; says who
"""

import contextlib
import errno
import hashlib
import json
import os
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from diskstream.checked_json import with_check
from diskstream.engine.files import open_regular, reading, wrapped
from diskstream.engine.locks import lock_now
from diskstream.engine.looks import children, is_folder
from diskstream.errors import ChangedError, ReadOnlyError, StorageError
from diskstream.store import Store
from diskstream.store_files import store_uuid

__all__ = ["Checkpoints"]

_MAX_BYTES = 1 << 20


class Checkpoints:
    """The checkpoints of a store, each of one stream."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._folder = store.path / "archives"
        self._is_durable = False  # its name; one that is there may be of somebody who was killed before he flushed it

    def path(self, stream: bytes) -> Path:
        """The file of a stream's checkpoint."""
        return self._folder / f"{hashlib.sha256(stream).hexdigest()}.json"

    def has(self, stream: bytes) -> bool:
        """Whether a stream has a checkpoint, be it one that can be read or not."""
        return os.path.lexists(self.path(stream))

    def read(self, stream: bytes) -> dict[str, Any] | None:
        """A stream's checkpoint; None where there is none.

        Raises:
            ChangedError: the file is no checkpoint.
            StorageError: it cannot be read.
        """
        path = self.path(stream)
        with wrapped(path, "read"):
            try:
                with reading(path) as file:
                    data = file.read(_MAX_BYTES)
            except FileNotFoundError:
                return None
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise _damaged(path, str(error)) from None
        if not isinstance(found, dict):
            raise _damaged(path, "it holds no object")
        return found

    def write(self, stream: bytes, facts: dict[str, Any]) -> None:
        """Replaces a stream's checkpoint; it is durable on return.

        Raises:
            StorageError: the disk said no; the one before is still there.
        """
        files = self._store._files  # checkpoints are part of their store
        path = self.path(stream)
        temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}.tmp")
        try:
            self._make_folder()
            with files.create(temporary) as new:
                new.write(json.dumps(with_check(facts), indent=2).encode() + b"\n")
                new.sync()
            files.rename(temporary, path)
        except FileNotFoundError as error:
            gone = StorageError(str(path), "write", errno.ENOENT, "its folder is gone")
            gone.hint = "the store was removed or moved by hand while it was open: run this again where it is now"
            raise gone from error
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        files.sync_dir(self._folder)

    def remove(self, stream: bytes) -> None:
        """Forgets a stream's checkpoint; one that is not there is fine."""
        self._store._files.unlink(self.path(stream))

    def _make_folder(self) -> None:
        if self._store.read_only:
            raise ReadOnlyError(str(self._store.path))
        if not (self._is_durable and is_folder(self._folder)):
            self._store._files.mkdir(self._folder)
            self._store._files.sync_dir(self._store.path)
            self._is_durable = True

    @contextlib.contextmanager
    def locked(self) -> Iterator[str]:
        """Keeps others from archiving into this store. Gives the store's identity, and where it is.

        A copy of the store, which has the same identity, is somewhere else: on another machine, or in another file.

        Raises:
            ChangedError: somebody does; the message says who.
            StorageError: the disk or the system said no.
        """
        self._make_folder()
        path = self._folder / "lock"
        with wrapped(path, "open"):
            fd = open_regular(path, os.O_RDWR | os.O_CREAT)
        try:
            if not lock_now(fd, path):
                with wrapped(path, "read"):
                    who = os.pread(fd, 256, 0).decode("utf-8", "replace").strip() or "another process"
                raise ChangedError(
                    str(self._store.path), f"{who} archives into it", "wait for it to end, or choose another directory"
                )
            with wrapped(path, "write"):
                os.ftruncate(fd, 0)
                os.pwrite(fd, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
            self._sweep()
            with wrapped(path, "look at"):
                about = os.fstat(fd)
            where = f"{socket.gethostname()} {about.st_dev} {about.st_ino}".encode()
            yield f"{store_uuid(self._store.path)}@{hashlib.sha256(where).hexdigest()[:16]}"
        finally:
            os.close(fd)

    def _sweep(self) -> None:
        """Removes what was killed while it wrote."""
        for left in children(self._folder):
            if left.suffix == ".tmp":
                self._store._files.unlink(left)


def _damaged(path: Path, why: str) -> ChangedError:
    return ChangedError(
        str(path), f"this checkpoint cannot be read ({why})", "restore it from a backup, or archive to a new directory"
    )
