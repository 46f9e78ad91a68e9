"""Where what is open for reading only keeps what it fetched: below the folder for temporary files, while it is read.

::

    diskstream-cold-<user>-<store>     of all of a user's readers of a store; goes with the last of them
    diskstream-cold-<user>-<random>    of one reader, where the store does not say which it is

Each reader holds it: the last one removes its own, and what killed ones have left the next that fetches.
"""

import contextlib
import errno
import fcntl
import os
import tempfile
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

from diskstream.engine.held_folders import is_at, made, opened_alone, remove_left, remove_unheld
from diskstream.errors import storage_error

__all__ = ["ReadersFolder"]

_PREFIX = "diskstream-cold-"
# Each attempt that finds the folder gone again has met another reader that was the last of its time.
_ATTEMPTS = 100


class ReadersFolder:
    """The folder of one opening; nothing is made before it is asked for. Safe under threads."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._held: tuple[Path, int] | None = None
        self._leave: weakref.finalize[..., ReadersFolder] | None = None

    def path(self, identify: Callable[[], str | None]) -> Path:
        """The folder, which is made and held until `close`, or until this is gone, or the process ends.

        Args:
            identify: says what identifies the store, or None where nothing does; asked when the folder is made.

        Raises:
            StorageError: there is no room for a temporary folder, or nowhere to make one.
        """
        with self._mutex:
            if self._held is None or not is_at(*self._held):
                self._end()
                store, above = identify(), _above()
                remove_left(above, _PREFIX)
                of_all = None if store is None else _shared(above, store)
                self._held = of_all or made(above, f"{_PREFIX}{os.getuid()}-")
                self._leave = weakref.finalize(self, _left, *self._held, os.getpid())
            return self._held[0]

    def close(self) -> None:
        """Lets go of the folder, and removes it where nobody else has it."""
        with self._mutex:
            self._end()

    def _end(self) -> None:
        if self._leave is not None:
            self._leave()
        self._leave = self._held = None


def _above() -> Path:
    try:
        above = Path(tempfile.gettempdir())
        above.lstat()
    except OSError as error:
        code, why = error.errno or errno.ENOENT, error.strerror or str(error)
        where = error.filename or "the folder for temporary files"
        raise storage_error(where, "find", code, f"{why}; TMPDIR says where there is room") from None
    return above


def _shared(above: Path, store: str) -> tuple[Path, int] | None:
    """The folder that all readers of a store have, locked; None where it is not ours alone, or takes no lock."""
    folder = above / f"{_PREFIX}{os.getuid()}-{store}"
    for _ in range(_ATTEMPTS):
        try:
            with contextlib.suppress(FileExistsError):
                folder.mkdir(mode=0o700)
            fd = opened_alone(folder)
        except FileNotFoundError:
            continue
        except OSError:
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_SH)  # waits for one who is removing it
        except OSError:
            os.close(fd)
            return None
        if is_at(folder, fd):
            return folder, fd
        os.close(fd)
    return None


def _left(folder: Path, fd: int, maker: int) -> None:
    """A fork's descriptor shares its lock with the parent's, so it is closed and no more."""
    try:
        if os.getpid() == maker:
            remove_unheld(folder, fd)
    finally:
        os.close(fd)
