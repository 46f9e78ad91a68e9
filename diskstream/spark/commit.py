"""Committing staged rows, once, whoever dies where.

::

    commits/<writer>/<version>.json      the manifest: what this version of the writer appends, in which order
    commits/<writer>/done.json           {"writer": name, "version": the last one that is complete, "by": whose it was},
                                         of a query's where its rows went ("to") and how many ("rows"), and of a
                                         version that was given up since its number, its batches, and why
    commits/<writer>/lock                who holds it (flock) is committing

`<writer>` is the SHA-256 of the writer's name. The protocol, under the lock:

1. A version that is done is done: the files of this attempt go. If somebody else did it (a query that has the writer's
   name from its option too, a write to another stream under the same `txnId`), this attempt's rows are not what was
   done: it is refused. So it is where somebody else decided (2), and where a query comes with an earlier batch than its
   last, or with more rows than it had, or to another stream: Spark repeats the last one alone, as it was, but of an
   older checkpoint, or of a copy, it makes batches of these numbers with other rows.
2. The manifest is made under a temporary name, flushed, and linked to its name. One that is there already wins: it was
   decided before, by an attempt that died; the files of this attempt go.
3. Batch after batch is appended, each frame with a commit record (`Commit`: writer, version, part) in the same frame. A
   stream passes over parts that it has, so it does not matter where an earlier attempt died.
4. The streams are flushed, done.json is replaced, the manifest and the staged files go.

A manifest that its writer left behind is carried out by whoever commits next to this store. It is looked for where
files are staged that are not of this attempt, as its own are: writers that are done stay known, and grow to be many.

One thing can make a manifest impossible: rows with given IDs, of which a stream has passed some, as others added to it
after step 1 or in the middle of step 3. Nobody can ever carry it out, so it is given up: done.json notes it, it goes
with its files, and the error says what is in and what is not. The version may come again, with rows that can follow.
Its batches are numbered on from those that were given up, for streams pass over numbers that they have.
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
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from diskstream.checked_json import checked, with_check
from diskstream.commits import Commit
from diskstream.errors import ArgumentError, DiskstreamError, IDOrderError, LimitError, StorageError, storage_error
from diskstream.ids import EntryID
from diskstream.plurals import number_of
from diskstream.spark.merging import Batches, ordered
from diskstream.spark.names import as_bytes
from diskstream.spark.packing import packed_ahead
from diskstream.spark.passed import PARTS, passed_before, what_is_missing
from diskstream.spark.staging import (
    StagedBatch,
    StagedFile,
    check_staged,
    discard,
    flush_folder,
    make_folders,
    staged_by_others,
    sweep,
)
from diskstream.store import Store
from diskstream.system_calls import is_folder, is_there, named, open_regular, read_small, wrapped

__all__ = ["JOB", "Manifest", "abandon", "commit", "finish_left", "last_done"]

_log = logging.getLogger("diskstream.spark")

# What the names of writers begin with that write once.
JOB = "job:"
_MAX_DONE_BYTES = 1 << 20
_MAX_MANIFEST_BYTES = 256 << 20
_OLDER = (
    "the checkpoint is an older one that was put back, has lost its last batch, or is a copy of one that another query "
    "goes on with too, or the query finds more in the same entries than it did, as by a join with a table that has "
    "grown; nothing was added: begin with a new checkpoint where the other one ended, or choose another writer, which "
    "appends all that this query reads, also what is there"
)
# Of one stream in one version: a part is a number of 32 bits, of which the greatest says that there are no more.
_MAX_BATCHES = (1 << 32) // PARTS - 1


@dataclass(frozen=True)
class Manifest:
    """What one version of a writer appends."""

    writer: str
    version: int
    given: bool
    files: tuple[StagedFile, ...]
    by: str = ""  # whose version it is, among those who may use the writer's name; empty: any of them
    after: int = 0  # batches of a stream that are numbered already: those of an attempt that was given up
    to: str = ""  # where a query's rows go, in words; empty: not known

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
            ValueError, KeyError, TypeError, AttributeError, OverflowError: it is damaged.
        """
        found = checked(text)
        version, given, after = int(found["version"]), bool(found["given"]), int(found.get("after", 0))
        files = tuple(
            StagedFile(
                check_staged(each["path"]), int(each["partition"]), tuple(_batch(b, given) for b in each["batches"])
            )
            for each in found["files"]
        )
        as_bytes(found["writer"])  # a name, as that of each stream
        if not (0 <= version < 1 << 64 and 0 <= after <= _MAX_BATCHES):
            raise ValueError(f"version {version}, batches from {after} on")
        return cls(found["writer"], version, given, files, _by(found), after, str(found.get("to", "")))

    @property
    def record(self) -> bytes:
        """The writer's name as streams remember it."""
        name = f"spark:{self.writer}".encode("utf-8", "surrogateescape")
        return hashlib.sha256(name).digest() if len(name) > 1024 else name  # noqa: PLR2004  # of a name's limit

    @property
    def rows(self) -> int:
        """How many it appends."""
        return sum(batch.rows for file in self.files for batch in file.batches)

    @property
    def begin(self) -> tuple[int, int]:
        """The version and the first part of it that is not of an attempt that was given up."""
        return self.version, self.after * PARTS


@dataclass(frozen=True)
class _Done:
    """What done.json says."""

    version: int = -1  # the last one that is complete
    by: str = ""
    to: str = ""
    rows: int = -1  # of a query's; -1: not known
    given_up: int = -1  # a version behind it that was given up
    after: int = 0  # no batch of that had this number, or a greater one
    why: str = ""

    @classmethod
    def of(cls, found: dict[str, Any]) -> "_Done":
        up = found.get("given_up", {})
        given_up, after, why = int(up.get("version", -1)), int(up.get("after", 0)), str(up.get("why", ""))
        to, rows = str(found.get("to", "")), int(found.get("rows", -1))
        return cls(int(found["version"]), _by(found), to, rows, given_up, after, why)

    def as_json(self, writer: str) -> str:
        # A digit that a disk has changed would have versions passed over that were never appended.
        said: dict[str, Any] = {"writer": writer, "version": self.version}
        if self.by:
            said["by"] = self.by
        if self.to:
            said |= {"to": self.to, "rows": self.rows}
        if self.given_up >= 0:
            said["given_up"] = {"version": self.given_up, "after": self.after, "why": self.why}
        return json.dumps(with_check(said))

    def gave_up(self, manifest: Manifest) -> bool:
        """Whether it was given up by somebody who died before it was gone."""
        return manifest.version == self.given_up and manifest.after < self.after


class _GivenUpError(ArgumentError):
    """A manifest cannot be carried out, by nobody and never: it is gone."""


def _by(found: dict[str, Any]) -> str:
    by = found.get("by", "")  # not there where it was written before this was noted
    if not isinstance(by, str):
        raise TypeError(f"{by!r} is nobody's name")
    return by


def _batch(found: dict[str, Any], given: bool) -> StagedBatch:
    as_bytes(found["stream"])
    ends = [None if found[name] is None else EntryID(*found[name]) for name in ("first", "last")]
    if given and None in ends:
        raise ValueError("rows with IDs, and not which")
    return StagedBatch(found["stream"], int(found["rows"]), *(at and (at.ms, at.seq) for at in ends))


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


def _done(folder: Path) -> _Done:
    try:
        with wrapped(folder / "done.json", "read"):
            return _Done.of(checked(read_small(folder / "done.json", _MAX_DONE_BYTES)))
    except FileNotFoundError:
        return _Done()
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise StorageError(str(folder / "done.json"), "read", 5, f"it is damaged ({error})") from error


def last_done(store: Store, writer: str) -> int:
    """The last version of a writer that is complete; -1 where there is none."""
    return _done(_folder(store.path, writer)).version


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
        ArgumentError: given IDs do not follow those of their stream, or did not when some of them were in, as others
            added to it; it is complete or decided, but it was another's; a query's is earlier than its last.
        StorageError: the disk said no. The next attempt goes on where this one stopped.
    """
    if staged_by_others(store.path, manifest.files):
        finish_left(store, but=manifest.writer)
    folder = _folder(store.path, manifest.writer)
    with _locked(folder, wait=True):
        done = _done(folder)
        if done.version >= manifest.version:
            _check_same(manifest, done.by)
            _check_again(manifest, done.version, done.to, done.rows)
            discard(store.path, manifest.files)
            return False
        _finish_earlier(store, folder, manifest.version)
        path = folder / f"{manifest.version:020d}.json"
        if is_there(path) and done.gave_up(found := _read(path)):
            _forget(store, path, found)
        if not is_there(path):
            manifest = _to_decide(store, manifest, done)
        ours = _put(path, manifest.as_json(), exclusive=True)
        decided = manifest if ours else _read(path)
        if not ours:
            _check_same(manifest, decided.by)
            _check_again(manifest, decided.version, decided.to, decided.rows)
            discard(store.path, set(manifest.files) - set(decided.files))
        try:
            _carry_out(store, folder, path, decided)
        except _GivenUpError as error:
            raise ArgumentError(str(error)) from error
    if not manifest.again:
        shutil.rmtree(folder, ignore_errors=True)
    return ours


def _to_decide(store: Store, manifest: Manifest, done: _Done) -> Manifest:
    """A manifest as it is decided. What cannot be appended must not be: it would stand in the way of all that comes.

    Raises:
        ArgumentError, LimitError: it cannot be appended.
        StorageError: what tasks staged is gone.
    """
    again = done.given_up == manifest.version
    try:
        streams = ordered(store, manifest.files, given=manifest.given, check=True)
    except ArgumentError as error:
        if again:
            raise ArgumentError(f"{error}. An attempt before this one was given up: {done.why}") from error
        raise
    decided = replace(manifest, after=done.after) if again else manifest
    batches = decided.after + max((len(each) for _, each in streams), default=0)
    for what, limit, found in (
        ("batches of a stream in one write", _MAX_BATCHES, batches),
        ("bytes of a manifest", _MAX_MANIFEST_BYTES, len(decided.as_json().encode())),
    ):
        if found > limit:
            raise LimitError(
                what, limit, found, "Nothing was added; choose a greater batchRows, or write in several parts"
            )
    return decided


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


def _check_again(manifest: Manifest, done: int, to: str, rows: int) -> None:
    """Looks whether a query's batch can be the one that was appended under its number, or decided on.

    Args:
        manifest: the batch, as it comes again.
        done: the last version that is complete, or decided.
        to: where that one's rows went, in words.
        rows: that it had.

    Raises:
        ArgumentError: it is another, of which rows were not appended.
    """
    if not manifest.by or not manifest.files:
        return
    found = ""
    if manifest.version < done:
        found = f"comes again, but {done} is done, and its rows need not be those that were appended"
    elif manifest.to and to and manifest.to != to:
        found = f"was appended to {to}, and comes again for {manifest.to}"
    elif to and manifest.rows > rows:  # fewer may be left of what it read
        found = f"was appended with {number_of(rows, 'row')}, and comes again with {manifest.rows:,}"
    if found:
        raise ArgumentError(f"batch {manifest.version} of {manifest.by} {found}: {_OLDER}")


def _finish_earlier(store: Store, folder: Path, version: int) -> None:
    """Carries out what this writer decided in earlier versions, and left behind: versions go in order."""
    for path in named(folder, ".json"):
        if not path.stem.isdecimal() or int(path.stem) >= version:
            continue
        found = _read(path)
        if _done(folder).version < found.version:
            try:
                _carry_out(store, folder, path, found)
            except _GivenUpError as error:  # it was said when it failed; here it must not stand in the way
                _log.warning("the manifest %s, an earlier one of this writer, is given up: %s", path, error)
        else:
            path.unlink(missing_ok=True)
            discard(store.path, found.files)


def abandon(store: Path, writer: str, version: int, files: tuple[StagedFile, ...]) -> None:
    """Removes what an attempt staged that failed, but for what a manifest lists: that will be appended.

    Spark says that an attempt is over also where its commit failed half way.
    """
    folder = _folder(store, writer)
    if is_folder(folder):
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
    done = _done(folder)
    if done.gave_up(manifest):
        _forget(store, path, manifest)
        raise _GivenUpError(done.why)
    streams = ordered(store, manifest.files, given=manifest.given, check=False)
    # Before any row of it, of whatever stream: where it is too late there need not be a half of it.
    passed = passed_before(store, manifest.files, manifest.record, manifest.begin) if manifest.given else None
    for stream, batches in streams if passed is None else []:
        try:
            _append(store, stream, batches, manifest)
        except IDOrderError:
            passed = stream
            break
    if passed is not None:
        why = what_is_missing(store, passed, streams, manifest.record, manifest.begin)
        if manifest.again:
            after = manifest.after + max(len(batches) for _, batches in streams)
            note = replace(done, given_up=manifest.version, after=after, why=why)
            _put(folder / "done.json", note.as_json(manifest.writer), exclusive=False)
        _forget(store, path, manifest)
        raise _GivenUpError(why)
    store.sync()
    # A batch without tasks has nobody's name, and must not have it forgotten.
    complete = _Done(manifest.version, manifest.by or done.by, manifest.to, manifest.rows)
    _put(folder / "done.json", complete.as_json(manifest.writer), exclusive=False)
    path.unlink(missing_ok=True)
    discard(store.path, manifest.files)


def _append(store: Store, stream: str, batches: Batches, manifest: Manifest) -> None:
    target = store.stream(as_bytes(stream))
    done = target.committed(manifest.record)
    numbered = [(number * PARTS, batch) for number, batch in enumerate(batches, manifest.after)]
    missing = [each for each in numbered if done is None or done < (manifest.version, each[0] + PARTS - 1)]
    with packed_ahead([batch for _, batch in missing], given=manifest.given) as packed:
        for (part, _), frames in zip(missing, packed, strict=True):
            target._add_packed(frames, commit=Commit(manifest.record, manifest.version, part))


def _forget(store: Store, path: Path, manifest: Manifest) -> None:
    """Removes a manifest that was given up, for good: it must not be there again when its files are gone."""
    path.unlink(missing_ok=True)
    flush_folder(path.parent)
    discard(store.path, manifest.files)
    if not manifest.again:
        shutil.rmtree(path.parent, ignore_errors=True)


def _manifests(store: Path) -> Iterator[Path]:
    for folder in named(store / "commits", ""):
        yield from named(folder, ".json")  # nothing where it is gone: who writes once removes it when done


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
                if _done(path.parent).version < manifest.version:
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
