"""Committing staged rows, once, whoever dies where.

::

    commits/<writer>/<version>.json      the manifest: what this version of the writer appends, in which order
    commits/<writer>/done.json           {"writer": name, "version": the last one that is complete, "by": whose it was}
    commits/<writer>/lock                who holds it (flock) is committing

`<writer>` is the SHA-256 of the writer's name. The protocol, under the lock:

1. A version that is done is done: the files of this attempt go. If somebody else did it (a query that has the writer's
   name from its option too, a write to another stream under the same `txnId`), this attempt's rows are not what was
   done: it is refused. So it is where somebody else decided (2).
2. The manifest is made under a temporary name, flushed, and linked to its name. One that is there already wins: it was
   decided before, by an attempt that died; the files of this attempt go.
3. Batch after batch is appended, each frame with a commit record (`Commit`: writer, version, part) in the same frame. A
   stream passes over parts that it has, so it does not matter where an earlier attempt died.
4. The streams are flushed, done.json is replaced, the manifest and the staged files go.

A manifest that its writer left behind is carried out by whoever commits next to this store.
"""

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from diskstream.checked_json import checked, with_check
from diskstream.commits import Commit
from diskstream.errors import ArgumentError, DiskstreamError, StorageError, storage_error
from diskstream.spark.merging import ordered
from diskstream.spark.names import as_bytes
from diskstream.spark.staging import (
    StagedBatch,
    StagedFile,
    check_staged,
    discard,
    flush_folder,
    make_folders,
    sweep,
)
from diskstream.store import Store
from diskstream.system_calls import open_regular, read_small, wrapped

__all__ = ["JOB", "Manifest", "abandon", "commit", "finish_left", "last_done"]

_log = logging.getLogger("diskstream.spark")

# What the names of writers begin with that write once.
JOB = "job:"
# Parts of one batch: `Stream.add_arrow` makes at most so many frames of it.
_PARTS = 4096
_MAX_DONE_BYTES = 1 << 20
_MAX_MANIFEST_BYTES = 256 << 20


@dataclass(frozen=True)
class Manifest:
    """What one version of a writer appends."""

    writer: str
    version: int
    given: bool
    files: tuple[StagedFile, ...]
    by: str = ""  # whose version it is, among those who may use the writer's name; empty: any of them

    def as_json(self) -> str:
        """The manifest as it stands on disk."""
        return json.dumps(with_check(asdict(self)))

    @property
    def again(self) -> bool:
        """Whether the writer may come again: with another version, or with this one."""
        return not self.writer.startswith(JOB)

    @classmethod
    def from_json(cls, text: str | bytes) -> "Manifest":
        """Reads one.

        Raises:
            ValueError, KeyError, TypeError: it is damaged.
        """
        found = checked(text)
        files = tuple(
            StagedFile(check_staged(each["path"]), each["partition"], tuple(_batch(batch) for batch in each["batches"]))
            for each in found["files"]
        )
        return cls(found["writer"], int(found["version"]), bool(found["given"]), files, _by(found))


def _by(found: dict[str, Any]) -> str:
    by = found.get("by", "")  # not there where it was written before this was noted
    if not isinstance(by, str):
        raise TypeError(f"{by!r} is nobody's name")
    return by


def _batch(found: dict[str, Any]) -> StagedBatch:
    ends = [None if found[name] is None else tuple(found[name]) for name in ("first", "last")]
    return StagedBatch(found["stream"], int(found["rows"]), *ends)


def _folder(store: Path, writer: str) -> Path:
    return store / "commits" / hashlib.sha256(writer.encode("utf-8", "surrogateescape")).hexdigest()


@contextlib.contextmanager
def _locked(folder: Path, *, wait: bool) -> Iterator[bool]:
    """Holds a writer's lock, which dies with its holder; False where it is taken and one is not to wait."""
    make_folders(folder)
    with wrapped(folder / "lock", "open"):
        file = os.fdopen(open_regular(folder / "lock", os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True


def _put(path: Path, text: str, *, exclusive: bool) -> bool:
    """Writes a file durably under its name; False where `exclusive` and there is one."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with os.fdopen(open_regular(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if exclusive:
            path.hardlink_to(temporary)
        else:
            temporary.replace(path)
        temporary.unlink(missing_ok=True)
        flush_folder(path.parent)
    except FileExistsError:
        return False
    except OSError as error:
        raise storage_error(str(path), "write", error.errno or 5, error.strerror or str(error)) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    return True


def _done(folder: Path) -> tuple[int, str]:
    """The last version that is complete, -1 where there is none, and whose it was, where that is known."""
    try:
        with wrapped(folder / "done.json", "read"):
            found = checked(read_small(folder / "done.json", _MAX_DONE_BYTES))
            return int(found["version"]), _by(found)
    except FileNotFoundError:
        return -1, ""
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise StorageError(str(folder / "done.json"), "read", 5, f"it is damaged ({error})") from error


def last_done(store: Store, writer: str) -> int:
    """The last version of a writer that is complete; -1 where there is none."""
    return _done(_folder(store.path, writer))[0]


def _read(path: Path) -> Manifest:
    try:
        with wrapped(path, "read"):
            return Manifest.from_json(read_small(path, _MAX_MANIFEST_BYTES))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise StorageError(str(path), "read", 5, f"the manifest is damaged ({error})") from error


def commit(store: Store, manifest: Manifest) -> bool:
    """Appends what the manifest lists, unless this version of its writer is complete.

    Returns:
        Whether this attempt's files were appended: False where an earlier attempt's were, or will have been.

    Raises:
        IDOrderError: given IDs do not follow those of their stream.
        ArgumentError: it is complete or decided, but it was another's.
        StorageError: the disk said no. The next attempt goes on where this one stopped.
    """
    finish_left(store, but=manifest.writer)
    folder = _folder(store.path, manifest.writer)
    with _locked(folder, wait=True):
        done, by = _done(folder)
        if done >= manifest.version:
            _check_same(manifest, by)
            discard(store.path, manifest.files)
            return False
        _finish_earlier(store, folder, manifest.version)
        path = folder / f"{manifest.version:020d}.json"
        if not path.exists():
            # Before it is decided: what cannot be appended must not stand in the way of all that comes.
            ordered(store, manifest.files, given=manifest.given, check=True)
        ours = _put(path, manifest.as_json(), exclusive=True)
        decided = manifest if ours else _read(path)
        if not ours:
            _check_same(manifest, decided.by)
            discard(store.path, set(manifest.files) - set(decided.files))
        _carry_out(store, folder, path, decided)
    if not manifest.again:
        shutil.rmtree(folder, ignore_errors=True)
    return ours


def _check_same(manifest: Manifest, by: str) -> None:
    if not by or not manifest.by or by == manifest.by:
        return
    kind, _, name = manifest.writer.partition(":")
    if kind == "txn":
        raise ArgumentError(
            f"txnId {name} was used by a write to {by}, and this is one to {manifest.by}: nothing was added; choose "
            "another txnId"
        )
    raise ArgumentError(
        f"batch {manifest.version} of the writer {name} was appended by {by}, and this is {manifest.by}: nothing was "
        "added; choose another writer, as each query needs its own, a new checkpoint too"
    )


def _finish_earlier(store: Store, folder: Path, version: int) -> None:
    """Carries out what this writer decided in earlier versions, and left behind: versions go in order."""
    for path in sorted(folder.glob("*.json")):
        if path.name == "done.json" or int(path.stem) >= version:
            continue
        found = _read(path)
        if _done(folder)[0] < found.version:
            _carry_out(store, folder, path, found)
        else:
            path.unlink(missing_ok=True)
            discard(store.path, found.files)


def abandon(store: Path, writer: str, version: int, files: tuple[StagedFile, ...]) -> None:
    """Removes what an attempt staged that failed, but for what a manifest lists: that will be appended.

    Spark says that an attempt is over also where its commit failed half way.
    """
    folder = _folder(store, writer)
    if folder.is_dir():
        with _locked(folder, wait=True):
            try:
                decided = _read(folder / f"{version:020d}.json").files
            except FileNotFoundError:
                decided = ()
            except StorageError:
                return  # what it lists is not known: all stays
            discard(store, set(files) - set(decided))
            if not decided and writer.startswith(JOB):
                shutil.rmtree(folder, ignore_errors=True)
    else:
        discard(store, files)


def _carry_out(store: Store, folder: Path, path: Path, manifest: Manifest) -> None:
    writer = f"spark:{manifest.writer}".encode("utf-8", "surrogateescape")
    record = hashlib.sha256(writer).digest() if len(writer) > 1024 else writer  # noqa: PLR2004  # of a name's limit
    touched = set()
    for stream, batches in ordered(store, manifest.files, given=manifest.given, check=False):
        target = store.stream(as_bytes(stream))
        done = target.committed(record)
        for number, batch in enumerate(batches):
            part = number * _PARTS
            if done is not None and done >= (manifest.version, part + _PARTS - 1):
                continue
            target.add_arrow(
                batch(), ids="columns" if manifest.given else "auto", commit=Commit(record, manifest.version, part)
            )
        touched.add(stream)
    store.sync()
    # A digit that a disk has changed would have versions passed over that were never appended.
    complete = {"writer": manifest.writer, "version": manifest.version}
    if by := manifest.by or _done(folder)[1]:  # a batch without tasks has nobody's name, and must not have it forgotten
        complete["by"] = by
    _put(folder / "done.json", json.dumps(with_check(complete)), exclusive=False)
    path.unlink(missing_ok=True)
    discard(store.path, manifest.files)


def _manifests(store: Path) -> Iterator[Path]:
    root = store / "commits"
    for folder in sorted(root.iterdir()) if root.is_dir() else []:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # who writes once removes it when done
            yield from sorted(path for path in list(folder.iterdir()) if path.suffix == ".json")


def finish_left(store: Store, *, but: str = "") -> list[str]:
    """Carries out the manifests that writers left behind when they died, and removes staged files that nobody needs.

    Returns the names of these writers. One that is at work at this moment is left alone, as is `but`.
    """
    finished = []
    listed: set[str] | None = set()
    for path in _manifests(store.path):
        if path.name == "done.json":
            continue
        with contextlib.suppress(FileNotFoundError), _locked(path.parent, wait=False) as mine:
            try:
                manifest = _read(path)
                if listed is not None:
                    listed.update(each.path for each in manifest.files)
                if not mine or manifest.writer == but:
                    continue
                if _done(path.parent)[0] < manifest.version:
                    _carry_out(store, path.parent, path, manifest)
                    finished.append(manifest.writer)
                path.unlink(missing_ok=True)
                if not manifest.again:
                    shutil.rmtree(path.parent, ignore_errors=True)
            except FileNotFoundError as error:
                if Path(error.filename or "") == path:
                    continue  # somebody else has carried it out, just now
                _log.warning("the manifest %s, which its writer left behind, lists what is gone: %s", path, error)
            except (DiskstreamError, OSError, ValueError) as error:
                # Its own writer meets the error when it tries again; here it must not stand in the way of others.
                if isinstance(error, StorageError) and error.filename == str(path):
                    listed = None  # what it lists is not known: nothing staged goes
                _log.warning("the manifest %s, which its writer left behind, cannot be carried out: %s", path, error)
    if listed is not None:
        sweep(store.path, listed)
    return finished
