"""Where what is open for reading only keeps what it fetched: below the folder for temporary files, while it is read.

::

    diskstream-cold-<user>-<store>     of all of a user's readers of a store; goes with the last of them
    diskstream-cold-<user>-<random>    of one reader, where the store does not say which it is

Each reader has a shared lock (flock) on the folder itself, which ends with its process, however that ends. So what can
be locked alone is nobody's: the last reader removes its own, and what killed ones have left the next that fetches.
"""

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import tempfile
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

from diskstream.engine.descriptors import listing, opened
from diskstream.engine.files import wrapped
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
            if self._held is None or not _is_at(*self._held):
                self._end()
                store, above = identify(), _above()
                _remove_left(above)
                self._held = (None if store is None else _shared(above, store)) or _of_one(above)
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
            fd = _opened(folder)
        except FileNotFoundError:
            continue
        except OSError:
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_SH)  # waits for one who is removing it
        except OSError:
            os.close(fd)
            return None
        if _is_at(folder, fd):
            return folder, fd
        os.close(fd)
    return None


def _of_one(above: Path) -> tuple[Path, int]:
    with wrapped(above, "make a folder in"):
        while True:
            folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getuid()}-", dir=above))
            with contextlib.suppress(FileNotFoundError):  # removed before it was held
                fd = _opened(folder)
                with contextlib.suppress(OSError):  # what takes no lock is taken from nobody either
                    fcntl.flock(fd, fcntl.LOCK_SH)
                if _is_at(folder, fd):
                    return folder, fd
                os.close(fd)


def _opened(folder: Path) -> int:
    """A descriptor of a folder that nobody else can write to.

    Raises:
        OSError: it is not ours alone, or no folder.
    """
    fd = opened(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    status = os.fstat(fd)
    if status.st_uid == os.getuid() and not stat.S_IMODE(status.st_mode) & 0o022:
        return fd
    os.close(fd)
    raise PermissionError(str(folder))


def _is_at(folder: Path, fd: int) -> bool:
    """Whether the folder that is open is still the one at its path."""
    try:
        return os.path.samestat(folder.lstat(), os.fstat(fd))
    except OSError:
        return False


def _left(folder: Path, fd: int, maker: int) -> None:
    """A fork's descriptor shares its lock with the parent's, so it is closed and no more."""
    try:
        if os.getpid() == maker:
            _remove_unheld(folder, fd)
    finally:
        os.close(fd)


def _remove_unheld(folder: Path, fd: int) -> None:
    with contextlib.suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_at(folder, fd):
            shutil.rmtree(folder, ignore_errors=True)


def _remove_left(above: Path) -> None:
    """Removes what readers that were killed have left."""
    with contextlib.suppress(OSError), listing(above) as found:
        for each in found:
            if each.name.startswith(_PREFIX):
                with contextlib.suppress(OSError):
                    fd = _opened(Path(each.path))
                    try:
                        _remove_unheld(Path(each.path), fd)
                    finally:
                        os.close(fd)
