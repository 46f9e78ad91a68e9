"""Locks on an open file: they belong to its opening, which a forked child shares, and leaves alone."""

import contextlib
import fcntl
import io
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from diskstream.engine import forking
from diskstream.engine.files import open_regular, wrapped
from diskstream.engine.moved import FORKS, ForkedError

__all__ = ["CAN_TELL", "Locks", "exclusively", "is_held", "lock_now"]

CAN_TELL = hasattr(fcntl, "F_OFD_GETLK")  # whether others have a record locked: of Linux
_RECORD = "hhqqi4x"  # struct flock
_FLOCK, _RECORDED = "flock", "record"


class Locks:
    """The locks of one opening of a file.

    A forked child has the same opening: whatever it did with the locks, in a call that it goes on with or in closing a
    descriptor tidily, its parent would have done.
    """

    def __init__(self, fd: int, made_at: int) -> None:
        """`made_at` is what `FORKS.count` was before the file was opened."""
        self.fd, self._made_at = fd, made_at
        self._alone: dict[str, forking.Alone] = {}  # by the lock that this has, or tries to have, for itself alone

    def _begin(self, lock: str) -> None:
        self._alone[lock] = forking.Alone()

    def _end(self, lock: str) -> None:
        self._alone.pop(lock, None)

    def change(self, operation: int) -> None:
        """`fcntl.flock`.

        Raises:
            ForkedError: this process is a child of the one that opened it.
            OSError: as the call.
        """
        fd = self.fd
        if self._made_at != FORKS.count:
            raise ForkedError
        fcntl.flock(fd, operation)
        if not operation & fcntl.LOCK_EX:
            self._end(_FLOCK)

    def record(self, kind: int, *, wait: bool = False) -> bool:
        """A lock beside the `flock`: every opening has it shared, and it is made exclusive in one step, or not at all.

        A `flock` is not: where others hold it too, an attempt would give up what one has.
        """
        command: int | None = getattr(fcntl, "F_OFD_SETLKW" if wait else "F_OFD_SETLK", None)
        if command is None:
            return False  # not Linux: nobody can tell that there are no others
        lock, fd = struct.pack(_RECORD, kind, os.SEEK_SET, 0, 0, 0), self.fd
        is_alone = False
        if kind == fcntl.F_WRLCK:
            self._begin(_RECORDED)
        try:
            with contextlib.suppress(BlockingIOError):
                if self._made_at != FORKS.count:
                    raise ForkedError
                fcntl.fcntl(fd, command, lock)
                is_alone = kind == fcntl.F_WRLCK
                return True
            return False
        finally:
            if not is_alone:
                self._end(_RECORDED)

    def has_others_recorded(self) -> bool:
        """Whether another opening has that lock. It is only looked at: who tried it would have it for a moment.

        Raises:
            OSError: nobody can say.
        """
        return _is_recorded(self.fd)

    def taken(self, path: Path) -> bool:
        """Locks it for oneself alone, without waiting; False where others have it.

        Args:
            path: of the file, for an error.

        Raises:
            StorageError: it cannot be locked.
        """
        with wrapped(path, "lock"), contextlib.suppress(BlockingIOError):
            self.change(fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False

    def is_alone(self) -> bool:
        """Locks it for oneself alone, for a short time: a fork waits for that; where others have it, with them."""
        self._begin(_FLOCK)
        try:
            self.change(fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException as error:
            self._end(_FLOCK)  # before anything that others may keep waiting
            if not isinstance(error, BlockingIOError):
                raise
            self.change(fcntl.LOCK_SH)
            return False
        return True

    def give_up(self) -> None:
        """Gives them up explicitly: a mapping that somebody still holds, or a child, would keep them.

        Where the system says no, they go with the file.
        """
        try:
            with contextlib.suppress(ForkedError, OSError):
                self.record(fcntl.F_UNLCK)  # first, as at a death: who gets the other one looks at it
                self.change(fcntl.LOCK_UN)
        finally:
            self.forget()

    def forget(self) -> None:
        """Has no fork wait for them any more: they are given up, or will be by somebody else."""
        self._end(_FLOCK)
        self._end(_RECORDED)

    def close(self) -> None:
        """Gives them up, and closes the file."""
        try:
            self.give_up()
        finally:
            os.close(self.fd)


def lock_now(fd: int, path: Path, operation: int = fcntl.LOCK_EX) -> bool:
    """`fcntl.flock` of a file, without waiting; False where others have it.

    Args:
        fd: of the file, or the folder.
        path: of the same, for an error.
        operation: `fcntl.LOCK_EX` or `fcntl.LOCK_SH`.

    Raises:
        StorageError: it cannot be locked.
    """
    with wrapped(path, "lock"), contextlib.suppress(BlockingIOError):
        fcntl.flock(fd, operation | fcntl.LOCK_NB)
        return True
    return False


def is_held(path: Path) -> bool:
    """Whether some opening of a file has its record locked, as every opening of `Locks` has, and nothing is changed by
    the look. False also where nobody can tell."""
    with contextlib.suppress(OSError):
        fd = open_regular(path)
        try:
            return _is_recorded(fd)
        finally:
            os.close(fd)
    return False


def _is_recorded(fd: int) -> bool:
    """Whether another opening has the record lock; False where the system cannot tell."""
    command: int | None = getattr(fcntl, "F_OFD_GETLK", None)
    if command is None:
        return False
    asked = struct.pack(_RECORD, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind: int = struct.unpack(_RECORD, fcntl.fcntl(fd, command, asked))[0]
    return kind != fcntl.F_UNLCK


@contextlib.contextmanager
def exclusively(path: Path, flags: int = os.O_RDWR) -> Iterator[None]:
    """Waits for the `flock` of a file that is opened for that, and holds it.

    Nobody waits for a child that was forked meanwhile and goes on for long: the lock is given up, not only closed.

    Raises:
        FileNotFoundError: there is no such file, and `flags` make none.
        StorageError: it cannot be opened, or locked.
    """
    made_at = FORKS.count
    with wrapped(path, "open"):
        file = io.FileIO(open_regular(path, flags, 0o600), "r+")
    locks = Locks(file.fileno(), made_at)
    try:
        with wrapped(path, "lock"):
            locks.change(fcntl.LOCK_EX)
        yield
    finally:
        try:
            locks.give_up()
        finally:
            file.close()  # in one native step: an interrupt of a signal handler leaves no lock behind
