"""Every byte that reaches a disk goes through here, mapped stores too.

`Files` is what the engine writes with. The crash simulator puts a recorder in its place, so whatever changes a disk
must be one of these methods. Reading needs no stand-in: a simulated file is a real one that was recorded.
"""

import contextlib
import copy
import errno
import io
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Protocol, Self

from diskstream._native import CTL_BYTES, Ctl, LogFile
from diskstream.engine.belonging import give, give_folder
from diskstream.engine.descriptors import opened, tried_again
from diskstream.engine.moved import FORKS, ForkedError
from diskstream.errors import CorruptionError, StorageError, storage_error
from diskstream.plurals import number_of

__all__ = [
    "MAX_LOG_BYTES",
    "Files",
    "LogFileLike",
    "NewFile",
    "name_anew",
    "nameless_file",
    "open_regular",
    "read_small",
    "reading",
    "size_of",
    "unless_done",
    "wrapped",
]

# What a store makes is for its owner, and to be read by the owner's group; the umask takes away more, and never less.
_FILE_MODE = 0o640
_DIRECTORY_MODE = 0o750
# A snapshot of 3 GiB, twice as much in frames before the log rolls, and what is zero-filled ahead. More is no log of
# ours, and filling the holes of a sparse one would fill the disk.
MAX_LOG_BYTES = 16 << 30


class LogFileLike(Protocol):
    """A log file open for reading and writing: `_native.LogFile`, or what stands in for it."""

    def store(self, offset: int, data: bytes, /) -> None:
        """Copies `data` into the mapping."""

    def pwrite(self, offset: int, data: bytes, /) -> None:
        """Writes `data` by system call."""

    def pwrite_sync(self, offset: int, data: bytes, /) -> None:
        """Writes `data`, which is durable on return; nothing else is promised."""

    def extend(self, size_bytes: int, /) -> None:
        """Writes zeros from the present end up to `size_bytes` and maps them."""

    def flush(self) -> None:
        """fdatasync: all that was written and stored, and a size that grew."""

    @property
    def size_bytes(self) -> int:
        """Bytes mapped: what is zero-filled."""

    @property
    def native(self) -> LogFile:
        """The file that is read from."""

    def close(self) -> None:
        """Closes the descriptor."""


class NewFile:
    """A file being written from its beginning; it did not exist before."""

    def __init__(self, path: Path) -> None:
        self.path, self._made_at = path, FORKS.count
        with wrapped(path, "create"):
            # It owns the descriptor, natively: one that an interrupt kept from being closed goes with it.
            self._file = io.FileIO(opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE), "wb")
        self._fd = self._file.fileno()
        give(self._fd, path)

    def write(self, data: bytes) -> None:
        """Appends all of `data`.

        Raises:
            StorageError: the system call failed; `DiskFullError` where there is no room.
        """
        rest = memoryview(data)
        with wrapped(self.path, "write"):
            while rest:
                if self._made_at != FORKS.count:  # the descriptor's place in the file is the parent's too
                    raise ForkedError
                rest = rest[os.write(self._fd, rest) :]

    def sync(self) -> None:
        """Makes what was written durable (fsync)."""
        with wrapped(self.path, "flush"):
            os.fsync(self._fd)

    def close(self) -> None:
        """Closes the file. What was not synced is not durable.

        Raises:
            StorageError: some file systems (of FUSE) tell only now of a write that failed.
        """
        self._fd = -1
        with wrapped(self.path, "close"):
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def nameless_file() -> int:
    """A descriptor of an empty file that has no name, and no other opening: in memory where the system has such.

    Raises:
        StorageError: there are too many open files, or no memory.
    """
    with wrapped(Path("a file without a name"), "create"):
        if hasattr(os, "memfd_create"):
            return tried_again(lambda: os.memfd_create("diskstream", os.MFD_CLOEXEC))
        made, path = tried_again(lambda: tempfile.mkstemp(prefix="diskstream-"))
        os.unlink(path)
        return made


def open_regular(path: Path, flags: int = os.O_RDONLY, mode: int = _FILE_MODE) -> int:
    """A descriptor of a file that is one: no pipe to wait at, no device; for writing no other name's file, either.

    Raises:
        FileNotFoundError, FileExistsError: as `os.open`.
        OSError: it is something else; see `wrapped`.
    """
    # Who may put a link into a directory may not choose by it which file of ours is written to.
    follows = 0 if flags & os.O_ACCMODE == os.O_RDONLY else os.O_NOFOLLOW
    fd = opened(path, flags | follows | os.O_NONBLOCK, mode)
    try:
        is_file = stat.S_ISREG(os.fstat(fd).st_mode)
        if is_file and flags & os.O_CREAT:
            give(fd, path)
    except BaseException:
        os.close(fd)
        raise
    if not is_file:
        os.close(fd)
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return fd


def reading(path: Path) -> BinaryIO:
    """A file that is one, for reading: see `open_regular`."""
    return io.BufferedReader(io.FileIO(open_regular(path), "rb"))  # native calls: no interrupt comes between


def read_small(path: Path, max_bytes: int) -> bytes:
    """All of a file that is one, and no larger than it may be: what its size says is not believed before.

    Raises:
        FileNotFoundError: there is none.
        OSError: it is something else, or too large; see `wrapped`.
    """
    with reading(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > max_bytes:
            raise OSError(errno.EFBIG, f"it has {number_of(size, 'byte')}, and not {max_bytes:,} at most", str(path))
        return file.read(size)


def size_of(path: Path) -> int:
    """Bytes of a file; 0 where it is gone, as another process may remove it at any moment."""
    with wrapped(path, "look at"), contextlib.suppress(FileNotFoundError):
        return path.stat().st_size
    return 0


class Files:
    """The real file system, as one process changes it.

    A forked child that goes on with a call of its parent's gets a ForkedError where that would change something.
    """

    _made_at: int  # in forks

    def __new__(cls, *_: object, **__: object) -> Self:
        """Whatever a stand-in begins with."""
        made = super().__new__(cls)
        made._made_at = FORKS.count
        return made

    def of_this_process(self) -> Self:
        """The same for a forked child. A call that was begun in its parent keeps the parent's, and gets no further."""
        made = copy.copy(self)
        made._made_at = FORKS.count
        return made

    def open_log(self, path: Path, *, writable: bool) -> LogFileLike:
        """Opens an existing log file and maps it."""
        fd = -1
        try:
            with wrapped(path, "open"):
                fd = open_regular(path, os.O_RDWR if writable else os.O_RDONLY)
            with wrapped(path, "look at"):
                size = os.fstat(fd).st_size
            if size > MAX_LOG_BYTES:
                most = f"at most {MAX_LOG_BYTES:,} bytes"
                raise CorruptionError(str(path), "log file", 0, most, number_of(size, "byte"))
            return tried_again(lambda: LogFile(fd, str(path), writable))
        finally:
            if fd >= 0:
                os.close(fd)

    def create(self, path: Path) -> NewFile:
        """Begins a file that must not exist."""
        if self._made_at != FORKS.count:
            raise ForkedError
        return NewFile(path)

    def rename(self, source: Path, target: Path) -> None:
        """Gives a file or directory another name, in one step."""
        old, new = str(source), str(target)  # no code runs between the look and the call
        with wrapped(source, "rename"):
            if self._made_at != FORKS.count:
                raise ForkedError
            os.rename(old, new)

    def link(self, source: Path, target: Path) -> None:
        """Gives a file a second name, which must not exist."""
        old, new = str(source), str(target)
        with wrapped(target, "create"):
            if self._made_at != FORKS.count:
                raise ForkedError
            os.link(old, new)

    def unlink(self, path: Path) -> None:
        """Removes a file; one that is gone already is fine."""
        name = str(path)
        with wrapped(path, "remove"), contextlib.suppress(FileNotFoundError):
            if self._made_at != FORKS.count:
                raise ForkedError
            os.unlink(name)

    def mkdir(self, path: Path) -> None:
        """Makes a directory; one that is there already is fine."""
        with wrapped(path, "create"):
            if self._made_at != FORKS.count:
                raise ForkedError
            path.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
            give_folder(path)

    def rmdir(self, path: Path) -> None:
        """Removes an empty directory; one that is gone already is fine."""
        name = str(path)
        with wrapped(path, "remove"), contextlib.suppress(FileNotFoundError):
            if self._made_at != FORKS.count:
                raise ForkedError
            os.rmdir(name)

    def sync_dir(self, path: Path) -> None:
        """Makes the names in a directory durable."""
        fd = -1
        try:
            with wrapped(path, "open"):
                fd = opened(path, os.O_RDONLY | os.O_DIRECTORY)
            with wrapped(path, "flush"):
                os.fsync(fd)
        finally:
            if fd >= 0:
                os.close(fd)

    def open_ctl(self, path: Path) -> tuple[int, Ctl]:
        """Opens (or makes) a control page: descriptor and mapping. It outlives no restart, so nothing is synced."""
        fd = -1
        try:
            with wrapped(path, "open"):
                fd = open_regular(path, os.O_RDWR | os.O_CREAT)
                if os.fstat(fd).st_size < CTL_BYTES:
                    # Blocks, not a hole: a store into a hole of a full disk would end in SIGBUS. And nothing is
                    # written: whoever came at the same time may have made the page since, and uses it.
                    os.posix_fallocate(fd, 0, CTL_BYTES)
                return fd, Ctl(fd, str(path))
        except BaseException:  # also of a signal handler, as the block above is left
            if fd >= 0:
                os.close(fd)
            raise


def name_anew(files: Files, path: Path) -> None:
    """Makes a name durable that somebody gave, and may have failed to flush: a second flush would prove nothing of it.

    Whoever looks meanwhile finds it missing; so it is, beside ``.tmp``, after a failure or a death.

    Raises:
        StorageError: the disk said no.
    """
    temporary = path.with_name(path.name + ".tmp")
    files.rename(path, temporary)
    files.rename(temporary, path)
    files.sync_dir(path.parent)


@contextlib.contextmanager
def unless_done(files: Files, temporary: Path) -> Iterator[None]:
    """Removes a temporary file where what it is for fails: nobody else knows its name, so it would stay for ever."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            files.unlink(temporary)
        raise


class wrapped(contextlib.AbstractContextManager[None]):  # noqa: N801  # reads as a verb, like contextlib's own
    """Turns an OSError on `path` into a `StorageError` that says what was being done.

    FileNotFoundError and FileExistsError pass: they are answers, not failures.
    """

    def __init__(self, path: Path, action: str) -> None:
        self.path, self.action = path, action

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        passes = isinstance(error, (StorageError, FileNotFoundError, FileExistsError))
        if isinstance(error, OSError) and not passes:
            raise storage_error(str(self.path), self.action, error.errno or 5, error.strerror or str(error)) from error
