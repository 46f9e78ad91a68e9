"""Files in object storage, below one place: put, read back, listed, removed; each failure a `RemoteError`.

What a storage says is not believed where it matters: whoever puts a file reads it back before relying on it.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from diskstream.engine import forking
from diskstream.engine.threads import begun
from diskstream.errors import LostObjectError, RemoteError
from diskstream.object_address import Address, file_systems
from diskstream.object_on_disk import HALF, Source, make_folders, put_file
from diskstream.plurals import number_of

if TYPE_CHECKING:
    from pyarrow import fs

__all__ = ["MAX_PATH_CHARS", "Object", "Place", "Source"]

MAX_PATH_CHARS = 512
_PATH = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
_AT_ONCE = 1 << 20
_ATTEMPTS = 3
_PAUSE_S = 0.1
_PATIENCE_S = 20.0  # after so long nothing is tried again
# One call moves a MiB at most: at 10 KB/s it would take this long.
_CALL_S = 100.0
_T = TypeVar("_T")

_NOT_OURS = "find out who changed it; diskstream verify --cold names the entries in it"
_MOUNT = "check the URL, and whether the disk is mounted; if the folder is to begin anew, make it"
_RUN_AGAIN = "run this again: it goes on where it stopped"
_NO_BUCKET = "there is no such bucket: make it, or correct the URL"
_CREDENTIALS = "check the credentials in the environment"
_ALLOWED = f"{_CREDENTIALS}, and what they allow"
_EXPIRED = f"{_CREDENTIALS}: they have expired, or are of somewhere else"
_CLOCK = f"{_CREDENTIALS}, and the clock of this machine"
_REGION = "the bucket is in another region: name that in the URL, as in s3://bucket/prefix?region=eu-west-1"
# Of what is looked at or read the SDK tells the status alone.
_STATUS_400 = f"{_CREDENTIALS}, whether they have expired, and the region in the URL"
# To look at an object takes the same right as to read it, and that was given.
_ARCHIVED = "it may be in an archive class, as Glacier: restore it there first; else see what the credentials allow"
# Words of the storages, and what to do about them; the first that is found counts.
_HINTS = (
    ("NO_SUCH_BUCKET", _NO_BUCKET),
    ("bucket does not exist", _NO_BUCKET),
    ("ExpiredToken", _EXPIRED),
    ("InvalidToken", _EXPIRED),
    ("REQUEST_TIME_TOO_SKEWED", _CLOCK),
    ("SIGNATURE", _CLOCK),
    ("AuthorizationHeaderMalformed", _REGION),
    ("(HTTP status 301)", _REGION),
    ("(HTTP status 400) during HeadObject", _STATUS_400),
    ("(HTTP status 400) during GetObject", _STATUS_400),
    ("ACCESS_DENIED during GetObject", _ARCHIVED),
    ("] during GetObject", _ARCHIVED),  # as [code 136]: where the SDK has read the answer, for which it has no name
    ("ACCESS_DENIED", _ALLOWED),
    ("INVALID_ACCESS_KEY_ID", _CREDENTIALS),
    ("Permission denied", "check who may read and write there"),
    ("No space left", "make room there"),
    ("StorageFull", "make room there"),
    ("QuotaExceeded", "make room there"),
    ("(HTTP status 403)", _ALLOWED),
    ("HTTP response code 403", _ALLOWED),
    ("pip install", "install that where this runs, and run it again"),
)
_SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID", "AZURE_STORAGE_KEY")
_SHORTEST_SECRET = 4  # what is shorter would be replaced in the middle of words


@dataclass(frozen=True)
class Object:
    """A file that a storage lists.

    Attributes:
        path: below the place.
        size_bytes: its size.
        changed_ms: when it was put there, in milliseconds since 1970, by the clock there; 0 where that is not said.
    """

    path: str
    size_bytes: int
    changed_ms: int


class Place:
    """A folder in object storage, or on a disk; safe under threads. A forked process makes its own."""

    def __init__(self, url: str) -> None:
        """Names the place; nothing is looked at yet.

        Raises:
            ArgumentError: no address of a place, or one with a secret in it.
        """
        self.address = Address.parse(url)
        self._opened: tuple[int, fs.FileSystem] | None = None
        self._mutex = threading.Lock()

    def __repr__(self) -> str:
        return f"<diskstream.objects.Place {self.url!r}>"

    @property
    def url(self) -> str:
        """The address, without any secret: may be stored and shown."""
        return self.address.url

    @property
    def _files(self) -> fs.FileSystem:
        with self._mutex:
            if self._opened is None or self._opened[0] != os.getpid():
                self._opened = os.getpid(), self.address.open()
            return self._opened[1]

    def _kinds(self) -> Any:
        with self._telling("open it"):
            return file_systems()

    def _full(self, path: str) -> str:
        if len(path) > MAX_PATH_CHARS or not _PATH.fullmatch(path):
            raise RemoteError(self.url, f"{path[:80]!r} is no path of an object of ours")
        if self.address.scheme == "file":
            self._refuse_links(path)
        return f"{self.address.root}/{path}"

    def _refuse_links(self, path: str) -> None:
        """What is below a place stays there: who may write to one folder of it does not choose what is removed."""
        here = Path(self.address.root)
        for part in path.split("/"):
            here /= part
            with self._telling(f"look at {path}"):
                if here.is_symlink():
                    raise RemoteError(self.url, f"{here} is a symbolic link, and no part of this place", _NOT_OURS)

    @contextmanager
    def _telling(self, doing: str) -> Iterator[None]:
        """Turns what a storage refuses into a `RemoteError`. A file that is not there passes: it is an answer."""
        try:
            yield
        except FileNotFoundError:
            raise
        except (OSError, ValueError, NotImplementedError) as error:  # pyarrow's own are kinds of these
            said = _without_secrets(str(error) or type(error).__name__)
            hint = next((hint for words, hint in _HINTS if words in said), _RUN_AGAIN)
            raise RemoteError(self.url, f"could not {doing}: {said}", hint) from None

    def _call(self, call: Callable[[], _T]) -> _T:
        """Does something at the storage. One that trickles on for ever is left behind after a time."""
        if self.address.scheme == "file":
            return call()
        answers: list[_T] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                answers.append(call())
            except BaseException as error:  # noqa: BLE001  # raised again in the thread that waits
                errors.append(error)

        thread = threading.Thread(target=work, name="diskstream-object", daemon=True)
        forking.begin(thread)
        try:
            try:
                begun(thread)
            except RuntimeError as error:
                raise OSError(f"could not start a thread: {error}") from error
            thread.join(_CALL_S)
        finally:
            forking.end(thread)
        if errors:
            raise errors[0]
        if not answers:
            raise TimeoutError(f"no answer for {_CALL_S:.0f} s")
        return answers[0]

    def _again(self, doing: str, attempt: Callable[[], _T]) -> _T:
        """Tries a few times, with a pause that doubles; who is refused for good, or silent, is not asked again."""
        until = time.monotonic() + _PATIENCE_S
        for left in range(_ATTEMPTS - 1, -1, -1):
            try:
                with self._telling(doing):
                    return attempt()
            except RemoteError as error:
                is_final = error.hint != _RUN_AGAIN or self.address.scheme == "file"
                if not left or is_final or time.monotonic() > until:
                    raise
                time.sleep(_PAUSE_S * 2 ** (_ATTEMPTS - 1 - left))
        raise AssertionError  # the last attempt returns or raises

    # --- looking ------------------------------------------------------------------------------------------------------

    def size(self, path: str) -> int | None:
        """Bytes of an object; None where there is none.

        Raises:
            RemoteError: the storage does not answer, or refuses.
        """
        fs = self._kinds()
        full = self._full(path)
        info = self._again(f"look at {path}", lambda: self._call(lambda: self._files.get_file_info(full)))
        if info.type == fs.FileType.NotFound:
            return None
        if info.type != fs.FileType.File:
            raise RemoteError(self.url, f"{path} is no file")
        return int(info.size)

    def changed_ms(self, path: str) -> int:
        """When an object was put, in milliseconds since 1970, by the clock there; 0 where that is not said.

        Raises:
            RemoteError: the storage does not answer, or refuses.
        """
        full = self._full(path)
        info = self._again(f"look at {path}", lambda: self._call(lambda: self._files.get_file_info(full)))
        return (info.mtime_ns or 0) // 1_000_000

    def check_folder(self, name: str) -> None:
        """Makes sure that a folder of a place on a disk is there: without it the disk may not be mounted.

        Of object storage it is not known: a prefix exists when it has objects.

        Raises:
            RemoteError: there is no such folder, or the disk does not say.
        """
        if self.address.scheme != "file":
            return
        folder = Path(self._full(name))
        with self._telling(f"look for the folder {folder}"):
            is_there = folder.is_dir()
        if not is_there:
            what = f"there is no folder {folder}: a disk may be missing, or nothing of this store was put there"
            raise RemoteError(self.url, what, _MOUNT)

    def make_folder(self, name: str) -> None:
        """Makes a folder of a place on a disk, and the place, where they are missing. It is durable on return.

        Raises:
            RemoteError: the disk refuses.
        """
        if self.address.scheme == "file":
            with self._telling(f"make the folder {name}"):
                make_folders(Path(self._full(name)))

    def objects(self, folder: str) -> list[Object]:
        """The objects below a folder, in order of paths; none where there is no such folder.

        A storage may list what it was given only later.

        Raises:
            RemoteError: the storage does not answer, or refuses; or there is no such bucket.
        """
        fs = self._kinds()
        selector = fs.FileSelector(self._full(folder), allow_not_found=True, recursive=True)
        found = self._again(f"list {folder}", lambda: self._call(lambda: self._files.get_file_info(selector)))
        if not found:
            self._check_bucket()
        cut = len(self.address.root) + 1
        kept = [
            Object(each.path[cut:], int(each.size), (each.mtime_ns or 0) // 1_000_000)
            for each in found
            if each.type == fs.FileType.File and _PATH.fullmatch(each.path[cut:])
        ]
        return sorted(kept, key=lambda each: each.path)

    def folders(self, folder: str) -> list[str]:
        """The names of the folders in a folder, in order; none where there is no such folder.

        Raises:
            RemoteError: the storage does not answer, or refuses; or there is no such bucket.
        """
        fs = self._kinds()
        selector = fs.FileSelector(self._full(folder), allow_not_found=True, recursive=False)
        found = self._again(f"list {folder}", lambda: self._call(lambda: self._files.get_file_info(selector)))
        if not found:
            self._check_bucket()
        return sorted(each.base_name for each in found if each.type == fs.FileType.Directory)

    def _check_bucket(self) -> None:
        """Of a bucket that is not there nothing is listed either, as of a new place."""
        if self.address.scheme == "file":
            return
        fs, bucket = self._kinds(), self.address.root.partition("/")[0]
        try:
            with self._telling(f"look at {bucket}"):
                info = self._call(lambda: self._files.get_file_info(bucket))
        except RemoteError:
            return  # who has rights below a prefix alone may list that, as was done
        if info.type == fs.FileType.NotFound:
            raise RemoteError(self.url, f"there is no bucket {bucket}", _NO_BUCKET)

    def halves(self, folder: str) -> list[Object]:
        """What puts left in a folder on a disk that were killed, or are still writing; elsewhere none is to be seen.

        Raises:
            RemoteError: the disk refuses.
        """
        if self.address.scheme != "file":
            return []
        found = []
        with self._telling(f"list {folder}"), suppress(FileNotFoundError):
            for each in sorted(Path(self._full(folder)).iterdir()):
                if HALF.fullmatch(each.name) and each.is_file() and not each.is_symlink():
                    with suppress(FileNotFoundError):  # it has its name now
                        status = each.lstat()
                        found.append(Object(f"{folder}/{each.name}", status.st_size, status.st_mtime_ns // 1_000_000))
        return found

    # --- reading ------------------------------------------------------------------------------------------------------

    def read(self, path: str, max_bytes: int) -> bytes | None:
        """All bytes of a small object; None where there is none.

        Raises:
            RemoteError: it is larger than `max_bytes`, or the storage does not answer, or refuses.
        """
        parts: list[bytes] = []
        try:
            with self._opened_file(path) as (source, size):
                if size > max_bytes:
                    raise RemoteError(self.url, f"{path} has {number_of(size, 'byte')}, and not {max_bytes:,} at most")
                self._read(path, source, parts.append, size)
        except FileNotFoundError:
            return None
        return b"".join(parts)

    def fetch(self, path: str, sink: Callable[[bytes], object], size_bytes: int) -> None:
        """Reads an object, once, from beginning to end.

        Args:
            path: below the place.
            sink: what each part is given to, as it comes.
            size_bytes: how many there must be; more are never read.

        Raises:
            FileNotFoundError: there is none.
            LostObjectError: it has another size.
            RemoteError: the storage does not answer, refuses, or breaks off; a disk is not mounted, or there is no
                such bucket.
        """
        try:
            with self._opened_file(path) as (source, found):
                if found != size_bytes:
                    what = f"{path} has {number_of(found, 'byte')}, where {size_bytes:,} were put"
                    raise LostObjectError(self.url, what, _NOT_OURS)
                self._read(path, source, sink, size_bytes)
        except FileNotFoundError:
            self.check_folder(path.partition("/")[0])
            self._check_bucket()
            raise

    @contextmanager
    def _opened_file(self, path: str) -> Iterator[tuple[Any, int]]:
        """A file of the storage, and what it says of its size."""
        full = self._full(path)
        if self.address.scheme == "file" and self.size(path) is None:
            raise FileNotFoundError(path)  # and what is no file, but waits for a writer, was refused
        source = self._again(f"read {path}", lambda: self._call(lambda: self._files.open_input_file(full)))
        try:
            with self._telling(f"read {path}"):
                size = int(self._call(source.size))
            yield source, size
        finally:
            _leave(source)

    def _read(self, path: str, source: Any, sink: Callable[[bytes], object], size_bytes: int) -> None:
        left = size_bytes
        while left:
            read = partial(source.read, min(left, _AT_ONCE))
            with self._telling(f"read {path}"):
                data = bytes(self._call(read))
            if not data:
                raise RemoteError(self.url, f"{path} broke off {number_of(left, 'byte')} before its end", _RUN_AGAIN)
            left -= len(data)
            sink(data)

    # --- changing -----------------------------------------------------------------------------------------------------

    def put(self, path: str, source: Source) -> None:
        """Writes a small object from the beginning of a file. Nothing that is there may be told from what is not whole.

        On a disk the file is durable afterwards, and one that is there is never replaced. Elsewhere that one put ends
        before the next begins is up to who calls.

        Raises:
            RemoteError: the storage does not answer, or refuses; or there is such a file already.
        """
        self._again(f"write {path}", lambda: self._put(path, source))

    def put_new(self, name: Callable[[], str], source: Source) -> str:
        """The same for an object of any size, under a path that nobody else ever writes to. Returns the path.

        No stream of pyarrow can be given up: whatever ends one publishes what was written so far. What is broken off
        may so come cut short, late, over whatever has its name by then. So each attempt has a name of its own, and
        nothing that is relied on has a name under which something is still on its way.

        Args:
            name: makes a path that was never used before; asked for each attempt.
            source: what is written.

        Raises:
            RemoteError: the storage does not answer, or refuses.
        """

        def attempt() -> str:
            path = name()
            with self._telling(f"write {path}"):
                self._put(path, source, is_alone=True)
            return path

        return self._again("write an object", attempt)

    def _put(self, path: str, source: Source, *, is_alone: bool = False) -> None:
        full = self._full(path)
        source.seek(0)
        if self.address.scheme == "file":
            self._put_file(Path(full), path, source)
            return
        sink = self._call(lambda: self._files.open_output_stream(full))
        try:
            while data := source.read(_AT_ONCE):
                self._call(partial(sink.write, data))
        except BaseException:
            # What closing publishes is removed where nobody else can have put anything under this name.
            _leave(sink, partial(self._files.delete_file, full) if is_alone else None)
            raise
        self._call(sink.close)

    def _put_file(self, target: Path, path: str, source: Source) -> None:
        # Only what is below the folder that was made for all of them: see `check_folder`.
        home = path.partition("/")[0]
        self.check_folder(home)
        with self._telling(f"write {path}"):
            try:
                put_file(target, source, below=Path(self.address.root) / home)
            except FileExistsError:
                raise RemoteError(self.url, f"{path} is there already", _RUN_AGAIN) from None
            except FileNotFoundError:
                raise RemoteError(self.url, f"the folder of {path} went while it was written", _MOUNT) from None

    def remove(self, path: str) -> None:
        """Removes an object; one that is gone already is fine.

        Raises:
            RemoteError: the storage does not answer, or refuses.
        """
        with suppress(FileNotFoundError):
            self._again(f"remove {path}", lambda: self._call(lambda: self._files.delete_file(self._full(path))))

    def remove_half(self, path: str) -> None:
        """Removes what a put left that was killed; one that is gone already is fine.

        Raises:
            RemoteError: the disk refuses, or this is something else.
        """
        folder, _, name = path.rpartition("/")
        if self.address.scheme != "file" or not HALF.fullmatch(name):
            raise RemoteError(self.url, f"{path[:80]!r} is not what a put left")
        with self._telling(f"remove {path}"):
            Path(self._full(folder), name).unlink(missing_ok=True)


def _leave(file: Any, afterwards: Callable[[], object] | None = None) -> None:
    """Closes a stream behind which nobody may answer any more, and does something when it is closed."""

    def close() -> None:
        with suppress(OSError, ValueError):
            file.close()
        if afterwards is not None:
            with suppress(OSError, ValueError):
                afterwards()

    try:
        begun(threading.Thread(target=close, name="diskstream-object", daemon=True))
    except RuntimeError:  # there are too many threads
        close()


def _without_secrets(text: str) -> str:
    for name in _SECRETS:
        value = os.environ.get(name, "")
        if len(value) >= _SHORTEST_SECRET:
            for spelled in (value, quote(value, safe=""), quote(value)):  # as it is, and as a URL has it
                text = text.replace(spelled, f"<{name}>")
    return text
