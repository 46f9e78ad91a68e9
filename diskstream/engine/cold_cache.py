"""Segments fetched back from object storage: a folder of bounded size that all processes of a store share.

::

    cold-cache/<sha256>.seg       the bytes of an object, whole and checked when they got this name
    cold-cache/*.tmp              being fetched; goes after an hour

Nothing in it counts: each file is checked against the stub's SHA-256 whenever it is opened, and any may be removed at
any moment. Who has one open goes on reading it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from diskstream.engine.cold import DamagedObjectError, Stub
from diskstream.engine.descriptors import are_short, listing, opened
from diskstream.engine.files import Files, nameless_file, size_of, wrapped
from diskstream.errors import CorruptionError, DiskFullError, LostObjectError, RemoteError, storage_error
from diskstream.plurals import number_of

__all__ = ["MAX_IN_MEMORY_BYTES", "ColdCache", "Fetch"]

# Sends all bytes of a stub's object to a sink, or raises a RemoteError.
Fetch = Callable[[Stub, Callable[[bytes], object]], None]

_AT_ONCE = 1 << 20
_UNFINISHED_S = 3600
MAX_IN_MEMORY_BYTES = 256 << 20


def _no_storage(stub: Stub, _: Callable[[bytes], object]) -> None:
    raise RemoteError(stub.url, f"{stub.path} was moved there, and nothing here reads from object storage")


class ColdCache:
    """What a store's streams fetch cold segments with."""

    def __init__(
        self,
        folder: Callable[[], Path] | None = None,
        limit_bytes: int = 0,
        fetch: Fetch = _no_storage,
        files: Files | None = None,
        end: Callable[[], None] = lambda: None,
    ) -> None:
        """Nothing is made or fetched yet.

        Args:
            folder: says where the cache is, when it is first needed.
            limit_bytes: of all files in it together.
            fetch: what fetches.
            files: what it is written with.
            end: called by `close`.
        """
        self._folder, self.limit_bytes, self._fetch, self._files = folder, limit_bytes, fetch, files or Files()
        self._end = end
        self._mutex = threading.Lock()
        self._fetching: dict[bytes, threading.Lock] = {}

    def folder(self) -> Path:
        """The folder, which is made."""
        if self._folder is None:
            raise RemoteError("the cold cache", "there is none here, so nothing can be fetched")
        folder = self._folder()
        self._files.mkdir(folder)
        return folder

    def close(self) -> None:
        """Nothing is fetched any more."""
        self._end()

    @contextlib.contextmanager
    def _alone(self, stub: Stub) -> Iterator[None]:
        """Of the threads that want the same object one fetches it."""
        with self._mutex:
            lock = self._fetching.setdefault(stub.sha256, threading.Lock())
        try:
            with lock:
                yield
        finally:
            with self._mutex:
                self._fetching.pop(stub.sha256, None)

    def has(self, stub: Stub) -> bool:
        """Whether it could be opened without fetching, as it seems."""
        return self._folder is not None and size_of(self._path(stub)) == stub.size_bytes

    def _path(self, stub: Stub) -> Path:
        assert self._folder is not None
        return self._folder() / f"{stub.sha256.hex()}.seg"

    def open(self, stub: Stub) -> int:
        """A descriptor for reading the segment's bytes, fetched if need be; the caller closes it.

        Raises:
            LostObjectError: the storage says that there is none, or one of another size.
            RemoteError: the object cannot be fetched.
            CorruptionError: the object is not what was put there.
            StorageError: the cache cannot be written to.
        """
        with self._alone(stub):
            fd = self._kept(stub)
            if fd is None:
                self.make_room(stub.size_bytes)
                temporary, fd = self._fetched(stub, self._fetch)
                if stub.size_bytes > self.limit_bytes:
                    self._files.unlink(temporary)
                else:
                    with contextlib.suppress(FileNotFoundError):  # somebody has removed the folder: nothing is kept
                        self._files.rename(temporary, self._path(stub))
            return fd

    def open_fresh(self, stub: Stub, fetch: Fetch | None = None) -> int:
        """The same, fetched now, and kept nowhere: to see what the storage has.

        On a disk without room for it, it is read into memory: who moves a segment away makes room there.

        Raises:
            As `open`.
        """
        try:
            temporary, fd = self._fetched(stub, fetch or self._fetch)
        except DiskFullError:
            if stub.size_bytes > MAX_IN_MEMORY_BYTES:
                raise
            return _in_memory(stub, fetch or self._fetch)
        self._files.unlink(temporary)
        return fd

    def _kept(self, stub: Stub) -> int | None:
        if self._folder is None:
            return None  # as in a repair, which asks no storage: `folder` says so
        path = self._path(stub)
        try:
            fd = opened(path, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError as error:
            if are_short(error):
                raise storage_error(str(path), "open", error.errno or 0, error.strerror or "") from error
            return None
        is_whole = False
        try:
            with contextlib.suppress(OSError):  # what the disk does not give back is as good as damaged
                is_whole = _digest(fd, stub.size_bytes) == stub.sha256
                os.utime(path)  # the one used last goes last
        finally:
            if not is_whole:
                os.close(fd)
        if is_whole:
            return fd
        self._files.unlink(path)
        return None

    def _fetched(self, stub: Stub, fetch: Fetch) -> tuple[Path, int]:
        """The object's bytes under a temporary name. One that comes damaged, finds no room, or the folder of which is
        removed on the way, is fetched once more.
        """
        temporary = self.folder() / f"{stub.sha256.hex()}.{secrets.token_hex(8)}.tmp"
        try:
            try:
                return temporary, self._write(stub, temporary, fetch)
            except DiskFullError:
                self.make_room(self.limit_bytes)  # all that is kept goes before a read fails
            except (CorruptionError, FileNotFoundError):
                self.folder()  # perhaps it was damaged on its way, or somebody has removed the folder
            self._files.unlink(temporary)
            try:
                return temporary, self._write(stub, temporary, fetch)
            except FileNotFoundError:
                what = "somebody removes what is being fetched: let them stop, or wait"
                raise storage_error(str(temporary), "find", errno.ENOENT, what) from None
        except BaseException:
            self._files.unlink(temporary)
            raise

    def _write(self, stub: Stub, temporary: Path, fetch: Fetch) -> int:
        with self._files.create(temporary) as new:
            _receive(stub, fetch, new.write)
            new.sync()
        with wrapped(temporary, "open"):
            return opened(temporary, os.O_RDONLY)

    def make_room(self, size_bytes: int) -> None:
        """Removes those that nobody has used for longest, until so much more fits in."""
        kept: list[tuple[float, int, Path]] = []
        now = time.time()
        with wrapped(self.folder(), "list"), listing(self.folder()) as found:
            for each in found:
                with contextlib.suppress(FileNotFoundError):
                    status = each.stat(follow_symlinks=False)
                    if each.name.endswith(".seg"):
                        kept.append((status.st_mtime, status.st_size, Path(each.path)))
                    elif each.name.endswith(".tmp") and now - status.st_mtime > _UNFINISHED_S:
                        self._files.unlink(Path(each.path))
        held = sum(size for _, size, _ in kept)
        for _, size, path in sorted(kept):
            if held + size_bytes <= self.limit_bytes:
                break
            self._files.unlink(path)
            held -= size


def _receive(stub: Stub, fetch: Fetch, put: Callable[[bytes], object]) -> None:
    """Gives an object's bytes to `put`; raises where they are not those that the stub tells of."""
    digest, size = hashlib.sha256(), 0

    def sink(data: bytes) -> None:
        nonlocal size
        size += len(data)
        if size > stub.size_bytes:
            raise RemoteError(stub.url, f"{stub.path} goes on behind its {number_of(stub.size_bytes, 'byte')}")
        digest.update(data)
        put(data)

    ids = f"entries {stub.first} to {stub.last}"
    try:
        fetch(stub, sink)
    except FileNotFoundError:
        hint = "put it back there, or find a backup of the store"
        raise LostObjectError(stub.url, f"{stub.path} is not there any more: it holds {ids}", hint) from None
    except RemoteError as error:  # whoever reads has asked for entries, and knows nothing of objects
        raise type(error)(error.where, f"{error.what}; {stub.path} holds {ids}", error.hint) from error
    if size != stub.size_bytes or digest.digest() != stub.sha256:
        found = f"{number_of(size, 'byte')} with {digest.hexdigest()}"
        expected = f"{number_of(stub.size_bytes, 'byte')} with SHA-256 {stub.sha256.hex()}"
        raise DamagedObjectError(stub, expected, found)


def _in_memory(stub: Stub, fetch: Fetch) -> int:
    fd = nameless_file()
    try:
        with wrapped(Path(f"the memory for {stub.path}"), "write to"), os.fdopen(fd, "wb", closefd=False) as file:
            _receive(stub, fetch, file.write)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _digest(fd: int, size_bytes: int) -> bytes:
    """SHA-256 of a file of this size; nothing for any other."""
    if os.fstat(fd).st_size != size_bytes:
        return b""
    digest, at = hashlib.sha256(), 0
    while data := os.pread(fd, _AT_ONCE, at):
        digest.update(data)
        at += len(data)
    return digest.digest()
