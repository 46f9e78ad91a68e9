"""A lock on a directory tells who is at work in it from who died there: it goes with its process."""

import contextlib
import fcntl
import os
from pathlib import Path

from diskstream.engine.descriptors import opened
from diskstream.engine.locks import Locks
from diskstream.engine.moved import FORKS, ForkedError

__all__ = ["DirectoryLock", "is_taken"]


class DirectoryLock:
    """The lock of one opening of a directory. Where that cannot be opened, it is not there.

    An interrupt may come before anybody can close it: then it is closed with what held it, and so is the lock given up.
    """

    fd = -1  # also where it was interrupted as it began

    def __init__(self, directory: Path) -> None:
        self._made_at = FORKS.count
        with contextlib.suppress(OSError):
            self.fd = opened(directory, os.O_RDONLY | os.O_DIRECTORY)

    def take(self) -> None:
        """Takes it, with whoever has it too."""
        if self.fd >= 0:
            with contextlib.suppress(OSError):
                Locks(self.fd, self._made_at).record(fcntl.F_RDLCK)

    def is_taken_by_others(self) -> bool:
        """Whether another opening has it; False also where nobody can tell."""
        if self.fd >= 0:
            with contextlib.suppress(OSError):
                return Locks(self.fd, self._made_at).has_others_recorded()
        return False

    def close(self) -> None:
        """Gives it up, also where a child that was forked meanwhile has the same opening."""
        fd, self.fd = self.fd, -1
        if fd < 0:
            return
        try:
            with contextlib.suppress(OSError, ForkedError):
                Locks(fd, self._made_at).record(fcntl.F_UNLCK)
        finally:
            os.close(fd)

    __del__ = close


def is_taken(directory: Path) -> bool:
    """Whether another opening of a directory has its lock; False also where nobody can tell."""
    lock = DirectoryLock(directory)
    try:
        return lock.is_taken_by_others()
    finally:
        lock.close()
