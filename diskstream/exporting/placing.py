"""A file that is there whole or not at all: written beside its place, made durable, and only then given its name."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from diskstream.columnar import import_arrow
from diskstream.errors import ArgumentError, StorageError, storage_error
from diskstream.system_calls import followed, is_file, is_there, open_regular, tried_again

__all__ = ["check_outside", "create_whole", "failing_at", "sync_directory"]

# So often what was written is sent to the disk, so that little is left to wait for at the end.
_FLUSH_EVERY_S: Final = 0.005
# What a user has written for himself, where he says: as the umask has it, as with any other program.
_MODE: Final = 0o644
_MAX_NAME_BYTES: Final = 255  # of Linux's file systems
_T = TypeVar("_T")


def check_outside(store: Path, path: Path) -> None:
    """Makes sure that nothing is written into a store beside its own files, nor over one of them.

    Raises:
        ArgumentError: the path is within the store.
        StorageError: it leads nowhere.
    """
    with failing_at(path, "look at"):
        if followed(path).is_relative_to(followed(store)):
            raise ArgumentError(f"{path} is within the store {store}: name a place outside it")


@contextmanager
def failing_at(path: Path, action: str) -> Iterator[None]:
    """What the system says no to, in our words.

    Raises:
        StorageError: a system call failed.
    """
    try:
        yield
    except (StorageError, BrokenPipeError):
        raise
    except OSError as error:
        # pyarrow's errors carry the number, if not always the text.
        raise storage_error(str(path), action, error.errno or errno.EIO, _words(error)) from error


def _words(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)


def _partial_name(name: str) -> str:
    """The same each time, so that what was killed is found; and a name, however long that of the file is."""
    short = f".{name}.partial"
    if len(os.fsencode(short)) <= _MAX_NAME_BYTES:
        return short
    return f".{hashlib.sha256(os.fsencode(name)).hexdigest()}.partial"


def create_whole(path: Path, write: Callable[[Any], _T], *, replace: bool) -> _T:
    """What `write` puts into a sink of pyarrow becomes the file at `path` when it ends well, and nothing otherwise.

    Raises:
        ArgumentError: the file is there and `replace` is false; or another export is writing it.
        StorageError: the system said no.
    """
    with failing_at(path, "look at"):
        is_taken = is_there(path)
        if is_taken and not is_file(path):
            what = f"{path} is no file, and none is put in its place: take - and let the shell redirect it"
            raise ArgumentError(what)
    if is_taken and not replace:
        raise _taken(path)
    beside = path.with_name(_partial_name(path.name))
    with failing_at(path, "write"):
        claim = _Claim()
        # Ctrl-C may come at any instruction. A context manager made of a generator would hear of it too late where it
        # comes on the way into the block or out of it.
        try:
            descriptor = claim.take(beside)
            # The lock is on the descriptor that is kept, so what pyarrow opens and closes does not let it go.
            pa = import_arrow("an export")
            with _flushed_ahead(descriptor), tried_again(lambda: pa.OSFile(os.fsencode(beside), "wb")) as sink:
                result = write(sink)
            os.fsync(descriptor)
            _put(beside, path, replace=replace)
            try:
                sync_directory(path.parent)
            except StorageError:
                # Else it would be in the way of the next attempt. What somebody put there meanwhile stays.
                if not replace and os.path.samestat(os.fstat(descriptor), path.stat()):
                    path.unlink()
                raise
        except BaseException:
            claim.clear_away(beside)
            raise
        claim.let_go()
        return result


@contextmanager
def _flushed_ahead(descriptor: int) -> Iterator[None]:
    """Has what was written flushed all the while, so that the disk works beside the processor, and not after it.

    Raises:
        OSError: a flush failed. The system tells so only once: a later flush would claim that all was well.
    """
    enough, failed = threading.Event(), list[OSError]()

    def flush() -> None:
        try:
            while not enough.wait(_FLUSH_EVERY_S):
                os.fdatasync(descriptor)
        except OSError as error:
            failed.append(error)

    # Nobody waits for it where an interrupt kept it from being told.
    thread = threading.Thread(target=flush, name="diskstream-export-flush", daemon=True)
    try:
        thread.start()
        yield
    finally:
        enough.set()
        if thread.ident is not None:
            thread.join()
    if failed:
        raise failed[0]


class _Claim:
    """The file that is written first, held so that nobody else writes it; one that a killed export left is taken."""

    def __init__(self) -> None:
        self._descriptor: int | None = None

    def take(self, beside: Path) -> int:
        while True:
            # Kept before it is locked: whoever is interrupted lets go of it.
            self._descriptor = descriptor = open_regular(beside, os.O_RDWR | os.O_CREAT, _MODE)  # a lock needs one
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ArgumentError(f"another export is writing {beside}: wait for it, or name another file") from None
            with contextlib.suppress(FileNotFoundError):
                held = os.fstat(descriptor)
                if held.st_ino == beside.stat().st_ino:
                    if held.st_nlink == 1:
                        return descriptor
                    # A finished file, whose maker was killed in `_put` between the two steps: it is not written into.
                    # Nobody is between them now, nor does another remove the name: both do so under this lock.
                    beside.unlink()
            self.let_go()  # who held it before us has given it its name or removed it

    def clear_away(self, beside: Path) -> None:
        """Removes what nobody else holds, also where whoever made it was interrupted before he knew that he did."""
        with contextlib.suppress(OSError, StorageError):
            if self._descriptor is None:
                self._descriptor = open_regular(beside, os.O_RDWR, 0)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(self._descriptor).st_ino == beside.stat().st_ino:
                beside.unlink()
        self.let_go()

    def let_go(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _put(beside: Path, path: Path, *, replace: bool) -> None:
    if replace:
        beside.replace(path)
        return
    try:
        path.hardlink_to(beside)  # fails where somebody made the file meanwhile
    except FileExistsError:
        raise _taken(path) from None
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK):
            raise
        if is_there(path):  # a file system without hard links: nearly as good
            raise _taken(path) from None
        beside.replace(path)
        return
    beside.unlink()


def _taken(path: Path) -> ArgumentError:
    return ArgumentError(f"{path} is there already, and is replaced only when that is asked for (--force)")


def sync_directory(path: Path) -> None:
    """Makes names in a directory durable.

    Raises:
        StorageError: a system call failed.
    """
    with failing_at(path, "flush"):
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        descriptor = tried_again(lambda: os.open(path, flags))  # no Path method does it
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
