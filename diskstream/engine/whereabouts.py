"""Whether a stream's directory is still the one that was opened: it may be removed, renamed, and made anew."""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from diskstream.engine.descriptors import opened
from diskstream.engine.files import wrapped
from diskstream.engine.looks import status
from diskstream.engine.moved import StreamMoved
from diskstream.engine.page import FLAG_MOVED, Page
from diskstream.errors import CorruptionError, StorageError

__all__ = ["StreamMoved", "Whereabouts", "changed_ns", "gone_by_hand", "refuse_elsewhere"]

_GONE = "it was removed or moved while it was open, and another one may be there now; open the store where it is now"


def refuse_elsewhere(directory: Path, page: Page, action: str = "change") -> None:
    """Makes sure that what is made, named or removed by a path is so in the directory that was opened.

    Somebody may have moved the store by hand, and made another one in its place. What is open goes on, wherever it is;
    a segment would get among those of the other one, or what was dropped here would be removed there.

    Raises:
        StreamMoved: the stream was renamed or removed: who does that says so on the page first.
        StorageError: it is not, or nobody can say.
    """
    if page.is_elsewhere():
        if page.ctl.flags & FLAG_MOVED:
            raise StreamMoved
        raise gone_by_hand(directory, action)


def gone_by_hand(directory: Path, action: str) -> StorageError:
    """What is raised where somebody has removed or moved a stream's directory under who has it open."""
    return StorageError(str(directory), action, errno.ENOENT, _GONE)


def changed_ns(directory: Path, fd: int) -> int:
    """When an open directory last changed, its name or what is in it; 0 of none that is open.

    Raises:
        StorageError: nobody can say.
    """
    with wrapped(directory, "look at"):
        return 0 if fd < 0 else os.fstat(fd).st_ctime_ns


class _Descriptor:
    """One of a directory, closed by who lets go of it.

    An error that a signal handler raises in `__del__` is printed and lost. So this goes by itself, in `close`, and not
    with a whole log: what that frees natively takes long enough for a signal to come, which is heard at the next step
    of Python code.
    """

    fd = -1  # also where it was interrupted as it began

    def __init__(self, directory: Path) -> None:
        self.fd = opened(directory, os.O_PATH | os.O_DIRECTORY)

    def close(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


class Whereabouts:
    """The directory that a name stands for, held open: so long no other is taken for it, which may get its number.

    Raises:
        StreamMoved: there is none.
        StorageError: it cannot be opened.
    """

    _opened: _Descriptor | None = None

    def __init__(self, directory: Path, *, is_reader: bool) -> None:
        self._directory = directory
        self._is_reader = is_reader  # nothing in the directory is changed by it
        self._page: Page | None = None
        try:
            with wrapped(directory, "open"):
                self._opened = _Descriptor(directory)
                self._held = os.fstat(self._opened.fd)
        except FileNotFoundError:
            raise StreamMoved from None

    def check(self) -> None:
        """A reader without the shared page is told by nobody that its directory was moved.

        Raises:
            StreamMoved: another directory is of its name now, or none.
        """
        if self._page is not None:
            if self._page.ctl.flags & FLAG_MOVED:
                raise StreamMoved
            return
        try:
            found = status(self._directory)
        except FileNotFoundError:
            raise StreamMoved from None
        if (found.st_dev, found.st_ino) != (self._held.st_dev, self._held.st_ino):
            raise StreamMoved

    @contextlib.contextmanager
    def asked(self) -> Iterator[None]:
        """What is missing or foreign where one looks may be so because the directory went meanwhile.

        Raises:
            StreamMoved: it did; or, for a reader, it changed since it was opened: it may have gone and come back.
            StorageError: somebody moved it by hand, under who has it open.
        """
        try:
            yield
        except (FileNotFoundError, CorruptionError) as error:
            self.check()
            if self._page is not None:
                refuse_elsewhere(self._directory, self._page, "read")
            fd = -1 if self._opened is None else self._opened.fd
            has_changed = self._is_reader and changed_ns(self._directory, fd) != self._held.st_ctime_ns
            if has_changed and isinstance(error, FileNotFoundError):
                raise StreamMoved from None
            raise

    def leave_to(self, page: Page) -> None:
        """Lets go of the directory: from now on the shared page says whether the stream was moved."""
        self._page = page
        self.close()

    def close(self) -> None:
        """Lets go of the directory."""
        held, self._opened = self._opened, None
        if held is not None:
            held.close()
