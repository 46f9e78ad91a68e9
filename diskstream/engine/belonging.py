"""Whose a new file is: what root makes in a folder of another user is that user's.

Whoever is on call is often root, and the store belongs to the user of a service. A segment or a control page of root's
in it would shut that service out of its own stream.
"""

import contextlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

__all__ = ["give", "give_folder"]


def give(fd: int, path: Path) -> None:
    """Gives a file that this process has just made to the owner of its folder, where this is root and he is another.

    One that somebody else put there is left alone: it has bytes, or another name. Where the system does not allow it
    (a container without the right to) the file stays root's.
    """
    if os.geteuid() == 0:
        _give(fd, path, lambda status: stat.S_ISREG(status.st_mode) and status.st_size == 0 and status.st_nlink == 1)


def give_folder(path: Path) -> None:
    """The same for a folder; one that holds anything is left alone."""
    if os.geteuid() != 0:
        return
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _give(fd, path, lambda _: not os.listdir(fd))  # noqa: PTH208  # of a descriptor
        finally:
            os.close(fd)


def _give(fd: int, path: Path, is_new: Callable[[os.stat_result], bool]) -> None:
    with contextlib.suppress(OSError):
        folder, status = path.parent.stat(), os.fstat(fd)
        if folder.st_uid != 0 and status.st_uid == 0 and is_new(status):
            os.fchown(fd, folder.st_uid, folder.st_gid)
