"""Folders among the temporary files that are somebody's while he holds them: what killed ones left goes with the next.

Who works in one has a shared lock (flock) on the folder itself, which ends with its process, however that ends. So what
can be locked alone is nobody's.
"""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from diskstream.engine.descriptors import listing, opened
from diskstream.engine.files import wrapped

__all__ = ["is_at", "made", "opened_alone", "remove_left", "remove_unheld", "scratch_folder"]


def made(above: Path, prefix: str) -> tuple[Path, int]:
    """A new folder, and the descriptor by which it is held.

    Raises:
        StorageError: there is no room for one.
    """
    with wrapped(above, "make a folder in"):
        while True:
            folder = Path(tempfile.mkdtemp(prefix=prefix, dir=above))
            with contextlib.suppress(FileNotFoundError):  # removed before it was held
                fd = opened_alone(folder)
                with contextlib.suppress(OSError):  # what takes no lock is taken from nobody either
                    fcntl.flock(fd, fcntl.LOCK_SH)
                if is_at(folder, fd):
                    return folder, fd
                os.close(fd)


def opened_alone(folder: Path) -> int:
    """A descriptor of a folder that nobody else can write to.

    Raises:
        OSError: it is not ours alone, or no folder.
    """
    fd = opened(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    status = os.fstat(fd)
    if status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o022:
        return fd
    os.close(fd)
    raise PermissionError(str(folder))


def is_at(folder: Path, fd: int) -> bool:
    """Whether the folder that is open is still the one at its path."""
    try:
        return os.path.samestat(folder.lstat(), os.fstat(fd))
    except OSError:
        return False


def remove_unheld(folder: Path, fd: int) -> None:
    """Removes a folder that nobody else holds, by the descriptor by which one does."""
    with contextlib.suppress(OSError):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if is_at(folder, fd):
            shutil.rmtree(folder, ignore_errors=True)


def remove_left(above: Path, prefix: str) -> None:
    """Removes the folders of this user's that were held by processes which were killed."""
    with contextlib.suppress(OSError), listing(above) as found:
        for each in found:
            if each.name.startswith(prefix):
                with contextlib.suppress(OSError):
                    fd = opened_alone(Path(each.path))
                    try:
                        remove_unheld(Path(each.path), fd)
                    finally:
                        os.close(fd)


@contextlib.contextmanager
def scratch_folder(prefix: str) -> Iterator[Path]:
    """A folder to work in, which goes when that is done; before, those go that killed ones of the prefix have left.

    Raises:
        StorageError: there is no room for one.
        FileNotFoundError: there is no folder for temporary files.
    """
    above = Path(tempfile.gettempdir())
    remove_left(above, prefix)
    folder, fd = made(above, prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(fd)
