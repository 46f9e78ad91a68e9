"""Where an archive is: a file system of pyarrow and a folder in it. All I/O of the archive goes through here.

So far the folder is one of this machine (or mounted on it): what makes a commit exclusive and durable differs from one
object store to the next, and is decided here alone.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from diskstream.errors import StorageError, storage_error
from diskstream.spark.jobs.landing import make_landing
from diskstream.spark.options import on_this_machine

if TYPE_CHECKING:
    from pyarrow import fs

__all__ = ["Found", "Place"]

_TRIES = 16


@dataclass(frozen=True)
class Found:
    """A file that is there.

    Attributes:
        path: below the archive, with ``/``.
        size_bytes: its size.
        changed_s: when it was last changed, in seconds since 1970.
    """

    path: str
    size_bytes: int
    changed_s: float


def _refused(error: OSError, path: str, doing: str) -> StorageError:
    return storage_error(path, doing, error.errno or 0, error.strerror or str(error))


@contextmanager
def _told(path: str, doing: str) -> Iterator[None]:
    """Says of what the system refuses which file it was about."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        raise _refused(error, path, doing) from error


class Place:
    """A folder of an archive. Small, and pickled into tasks as its path."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Names the folder; nothing is made or looked at.

        Raises:
            ArgumentError: no path of this machine.
        """
        self.root = str(Path(on_this_machine(os.fspath(path), "an archive")).absolute())

    def __repr__(self) -> str:
        return f"Place({self.root!r})"

    @property
    def files(self) -> "fs.FileSystem":
        """What reads and writes it."""
        from pyarrow import fs  # optional, as is all of Spark

        return fs.LocalFileSystem()

    def full(self, path: str) -> str:
        """The path for `files` of one below the archive."""
        return f"{self.root}/{path}"

    def list(self, folder: str = "") -> list[Found]:
        """The files below a folder, in order of paths; none where the folder is missing."""
        from pyarrow import fs

        with _told(self.full(folder), "list"):
            found = self.files.get_file_info(fs.FileSelector(self.full(folder), allow_not_found=True, recursive=True))
        kept = [
            Found(each.path[len(self.root) + 1 :].lstrip("/"), each.size, each.mtime_ns / 1e9)
            for each in found
            if each.type == fs.FileType.File
        ]
        return sorted(kept, key=lambda each: each.path)

    def read(self, path: str) -> bytes:
        """All bytes of a small file.

        Raises:
            FileNotFoundError: it is not there.
            StorageError: it cannot be read.
        """
        try:
            with self.files.open_input_stream(self.full(path)) as file:
                return bytes(file.read())
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _refused(error, self.full(path), "read") from error

    @contextmanager
    def writing(self, path: str) -> Iterator[Any]:
        """A new file to write to; its folder is made. The file is not durable before `flush`.

        Raises:
            StorageError: the disk says no.
        """
        with _told(self.full(path), "write"), self._opened(self.full(path)) as sink:
            yield sink

    def _opened(self, full: str) -> Any:
        for left in reversed(range(_TRIES)):
            try:
                if not self.there():
                    make_landing(Path(self.root))  # and what it lies in, whose names `flush` leaves alone
                self.files.create_dir(str(PurePosixPath(full).parent), recursive=True)
                return self.files.open_output_stream(full)
            except FileNotFoundError:  # a job that ended took the folder away, empty, in between
                if not left:
                    raise
        raise AssertionError

    def there(self) -> bool:
        """Whether the folder is there."""
        return Path(self.root).is_dir()

    def prune(self, folder: str = "") -> None:
        """Removes a folder and those in it, as far as they are empty."""
        for each, _, _ in os.walk(self.full(folder), topdown=False):
            with suppress(OSError):  # it holds something
                Path(each).rmdir()

    def telling(self, path: str, doing: str) -> AbstractContextManager[None]:
        """Turns what the system refuses within into a `StorageError` that names the file."""
        return _told(path if path.startswith(self.root) else self.full(path), doing)

    def size(self, path: str) -> int:
        """The size of a file in bytes."""
        with _told(self.full(path), "look at"):
            return int(self.files.get_file_info(self.full(path)).size)

    def holds(self, path: str, size_bytes: int) -> bool:
        """Whether a file of that size is there."""
        with _told(self.full(path), "look at"):
            return bool(self.files.get_file_info(self.full(path)).size == size_bytes)

    def move(self, old: str, new: str) -> None:
        """Gives a file its name."""
        with _told(self.full(old), "rename"):
            self.files.move(self.full(old), self.full(new))

    def remove(self, path: str) -> None:
        """Removes a file, if it is there."""
        with _told(self.full(path), "remove"), suppress(FileNotFoundError):
            self.files.delete_file(self.full(path))

    def flush(self, path: str) -> None:
        """Makes a file durable, and its name in all folders up to the archive's own."""
        with _told(self.full(path), "flush"):
            _sync(self.full(path))
            folder = PurePosixPath(path).parent
            for each in (folder, *folder.parents):
                _sync(self.full(str(each)))
            make_landing(Path(self.root))  # its own name: who made it may have been killed before that was flushed

    def create(self, path: str, data: bytes, unique: str) -> bool:
        """Makes a file whole and durable, unless there is one: then nothing is changed, and the answer is false.

        Args:
            path: the file.
            data: its contents.
            unique: what no other caller ever uses as part of a name.
        """
        fresh = f"{path}.{unique}.tmp"
        with self.writing(fresh) as sink:
            sink.write(data)
        try:
            with _told(self.full(path), "create"):
                _sync(self.full(fresh))
                try:
                    os.link(self.full(fresh), self.full(path))  # it refuses where there is one; a rename does not
                except FileExistsError:
                    # Over a network the answer may be lost, and the same link asked for again: then it is there by us.
                    if not Path(self.full(fresh)).samefile(self.full(path)):
                        return False
        finally:
            self.remove(fresh)
        self.flush(path)
        return True

    def touch(self, path: str) -> None:
        """Says that a file is in use.

        Raises:
            StorageError: it is not there, or the disk says no.
        """
        with _told(self.full(path), "touch"):
            os.utime(self.full(path))


def _sync(path: str) -> None:
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    finally:
        os.close(number)
