"""What stands in for a disk: it announces each step before it is taken, so that a test can let it fail or stop
there."""

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from diskstream._native import LogFile
from diskstream.engine.files import Files, LogFileLike, NewFile
from diskstream.errors import StorageError, storage_error

__all__ = ["FailingOnce", "IllDisk", "Step", "Watched", "failure", "say_nothing_of_errors", "unlisted"]

# Called with the name of a step and the file it is about, before the step is taken.
Step = Callable[[str, Path], None]


def failure(path: Path, action: str, code: int) -> StorageError:
    """The error that the real thing raises."""
    return storage_error(str(path), action, code, errno.errorcode[code])


def say_nothing_of_errors(patch: pytest.MonkeyPatch) -> None:
    """`Path.exists` and the like as from Python 3.14 on: whatever keeps them from looking, nothing is there."""

    def silent(look: Callable[..., bool]) -> Callable[..., bool]:
        def looked(path: Path, **named: Any) -> bool:
            try:
                return look(path, **named)
            except OSError:
                return False

        return looked

    for name in ("exists", "is_dir", "is_file", "is_symlink"):
        patch.setattr(Path, name, silent(getattr(Path, name)))


class _WatchedLog:
    def __init__(self, path: Path, log: LogFileLike, step: Step) -> None:
        self._path, self._log, self._step = path, log, step

    def store(self, offset: int, data: bytes) -> None:
        self._step("store", self._path)
        self._log.store(offset, data)

    def pwrite(self, offset: int, data: bytes) -> None:
        self._step("pwrite", self._path)
        self._log.pwrite(offset, data)

    def pwrite_sync(self, offset: int, data: bytes) -> None:
        self._step("pwrite_sync", self._path)
        self._log.pwrite_sync(offset, data)

    def extend(self, size_bytes: int) -> None:
        self._step("extend", self._path)
        self._log.extend(size_bytes)

    def flush(self) -> None:
        self._step("flush", self._path)
        self._log.flush()

    @property
    def size_bytes(self) -> int:
        return self._log.size_bytes

    @property
    def native(self) -> LogFile:
        return self._log.native

    def close(self) -> None:
        self._log.close()


class _WatchedNew(NewFile):
    def __init__(self, path: Path, step: Step) -> None:
        step("create", path)
        super().__init__(path)
        self._step = step

    def write(self, data: bytes) -> None:
        """Half of it gets there before a step that fails."""
        half = len(data) // 2
        super().write(data[:half])
        self._step("write", self.path)
        super().write(data[half:])

    def sync(self) -> None:
        self._step("sync", self.path)
        super().sync()


class Watched(Files):
    """The real file system, each step announced."""

    def __init__(self, step: Step) -> None:
        self.step = step

    def open_log(self, path: Path, *, writable: bool) -> LogFileLike:
        log = super().open_log(path, writable=writable)
        return _WatchedLog(path, log, self.step) if writable else log

    def create(self, path: Path) -> NewFile:
        return _WatchedNew(path, self.step)

    def rename(self, source: Path, target: Path) -> None:
        self.step("rename", target)
        super().rename(source, target)

    def link(self, source: Path, target: Path) -> None:
        self.step("link", target)
        super().link(source, target)

    def unlink(self, path: Path) -> None:
        self.step("unlink", path)
        super().unlink(path)

    def mkdir(self, path: Path) -> None:
        self.step("mkdir", path)
        super().mkdir(path)

    def rmdir(self, path: Path) -> None:
        self.step("rmdir", path)
        super().rmdir(path)

    def sync_dir(self, path: Path) -> None:
        self.step("sync_dir", path)
        super().sync_dir(path)


class FailingOnce:
    """Lets one step fail: the `nth` of those of the given kinds, counted from 1. After that the disk is well again."""

    def __init__(self, code: int, kinds: frozenset[str], nth: int = 0) -> None:
        self.code, self.kinds, self.nth = code, kinds, nth
        self.seen: list[tuple[str, str]] = []
        self.failed: tuple[str, str] | None = None

    def __call__(self, kind: str, path: Path) -> None:
        if kind not in self.kinds:
            return
        self.seen.append((kind, path.name))
        if len(self.seen) == self.nth:
            self.failed = (kind, path.name)
            raise failure(path, kind, self.code)


class IllDisk(Watched):
    """The real file system, whose flushes of logs fail as long as it is ill."""

    def __init__(self) -> None:
        super().__init__(self._step)
        self.ill = False

    def _step(self, kind: str, path: Path) -> None:
        if self.ill and kind == "flush":
            raise failure(path, kind, errno.EIO)


@contextlib.contextmanager
def unlisted(folder: Path | Callable[[Path], bool], code: int = errno.EIO) -> Iterator[None]:
    """A folder that cannot be listed, or those of which something holds."""
    which = folder.__eq__ if isinstance(folder, Path) else folder

    def failing(whole: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def list_it(place: Any = ".") -> Any:
            if not isinstance(place, int) and which(Path(place)):
                raise OSError(code, os.strerror(code), str(place))
            return whole(place)

        return list_it

    with pytest.MonkeyPatch.context() as patch:
        for name in ("listdir", "scandir"):  # which of them pathlib calls is another with each Python
            patch.setattr(os, name, failing(getattr(os, name)))
        yield
