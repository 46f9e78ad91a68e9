"""Staged rows: what tasks were given, as files that a commit will append, or nobody.

::

    staging/<job>/<uuid>.packed      frames of the log (see `staged_file`); each of its batches belongs to one stream,
                                     in order of IDs where these are given
    staging/<job>/<uuid>.arrow       of earlier versions: an Arrow IPC file, the same batches by columns

So rows are packed in tasks, of which there are many, and a commit, of which there is one, only appends. A file is
flushed before its name is sent, and read only if a manifest lists it.
"""

import contextlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from diskstream.arrow_rows import PackedRows, pack
from diskstream.errors import ArgumentError, LimitError, NotAStoreError, storage_error
from diskstream.ids import EntryID
from diskstream.spark.names import as_text
from diskstream.spark.rows import Target, by_stream
from diskstream.spark.staged_file import put_batch
from diskstream.store_files import Files
from diskstream.system_calls import is_folder, is_there, named, open_regular, refuse_link

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "StagedBatch",
    "StagedFile",
    "check_staged",
    "discard",
    "flush_folder",
    "make_folders",
    "stage",
    "staged_by_others",
    "sweep",
]

# What a job left behind that died before its commit goes after a day.
_LEFT_S = 24 * 3600.0
# A batch of this size makes one frame, however long its values are, or a few.
_BATCH_BYTES = 16 << 20
_NUMBERED = re.compile(r"^row \d+ ")


@dataclass(frozen=True)
class StagedBatch:
    """A batch of a staged file: its stream, its rows, and its IDs where they are given."""

    stream: str
    rows: int
    first: tuple[int, int] | None
    last: tuple[int, int] | None


@dataclass(frozen=True)
class StagedFile:
    """A staged file: its path below the store, and its batches in order."""

    path: str
    partition: int
    batches: tuple[StagedBatch, ...]


_STAGED = re.compile(r"staging/(?!\.)[^/\0]+/[A-Za-z0-9_-]+\.(packed|arrow)")


def check_staged(path: object) -> str:
    """The path of a staged file, as a manifest has it. It is read, appended and removed: nothing else may be.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(path, str) or not _STAGED.fullmatch(path):
        raise ValueError(f"{path!r} is no staged file")
    return path


class _Buffers:
    """Rows that wait until a stream has enough of them for a batch."""

    def __init__(self, target: Target, batch_rows: int) -> None:
        self._target, self._batch_rows = target, batch_rows
        self._held: dict[str, list[Any]] = {}
        self._rows = 0

    def add(self, batch: "pa.RecordBatch") -> "Iterable[tuple[str, pa.RecordBatch]]":
        """Takes rows in; gives batches that are full."""
        for stream, part in by_stream(self._target, batch):
            self._held.setdefault(stream, []).append(part)
            self._rows += part.num_rows
            if sum(each.num_rows for each in self._held[stream]) >= self._batch_rows:
                yield from self._take(stream)
        if self._rows > 16 * self._batch_rows:  # many streams with few rows each
            yield from self.rest()

    def rest(self) -> "Iterable[tuple[str, pa.RecordBatch]]":
        """Gives what is left, stream by stream."""
        for stream in sorted(self._held):
            yield from self._take(stream)

    def _take(self, stream: str) -> "Iterable[tuple[str, pa.RecordBatch]]":
        import pyarrow as pa

        from diskstream.spark.rows import repeated_id, sort_order

        parts = self._held.pop(stream, [])
        if not parts:
            return
        table = pa.Table.from_batches(parts)
        self._rows -= table.num_rows
        if self._target.given:
            order = sort_order(table)
            if order is not None:
                table = table.take(order)
                if sort_order(table) is not None:
                    raise ArgumentError(f"two rows for stream {stream} have one ID, {repeated_id(table)}")
        limit = max(1, min(self._batch_rows, table.num_rows * _BATCH_BYTES // max(1, table.nbytes)))
        for batch in table.combine_chunks().to_batches(max_chunksize=limit):
            yield stream, batch


def _id_at(batch: Any, row: int) -> tuple[int, int]:
    return batch["id_ms"][row].as_py(), batch["id_seq"][row].as_py()


def stage(
    store: Path, place: tuple[str, int], batches: "Iterable[pa.RecordBatch]", target: Target, batch_rows: int
) -> StagedFile:
    """Writes what a task was given to a file of its own, durable on return; nothing where there are no rows.

    `place` is the name of the job and the number of the partition.

    Raises:
        NotAStoreError: the worker does not see the store.
        DiskFullError, StorageError: the disk said no. Nothing is left behind.
        ArgumentError: rows that cannot be entries.
    """
    if not is_there(store / "store.json"):
        raise NotAStoreError(str(store), "the worker does not see it: driver and workers need it under the same path")
    job, partition = place
    path = store / "staging" / job / f"{secrets.token_hex(16)}.packed"
    staged: list[StagedBatch] = []
    try:
        with contextlib.closing(_Sink(path)) as sink:
            buffers = _Buffers(target, batch_rows)

            def put(made: "Iterable[tuple[str, pa.RecordBatch]]") -> None:
                for stream, batch in made:
                    sink.write(_packed(stream, batch, given=target.given))
                    ends = (_id_at(batch, 0), _id_at(batch, batch.num_rows - 1)) if target.given else (None, None)
                    staged.append(StagedBatch(stream, batch.num_rows, *ends))

            for batch in batches:
                put(buffers.add(batch))
            put(buffers.rest())
            sink.finish()
    except OSError as error:
        _remove(path)
        raise storage_error(str(path), "write", error.errno or 5, error.strerror or str(error)) from error
    except BaseException:
        _remove(path)
        raise
    return StagedFile(f"staging/{job}/{path.name}", partition, tuple(staged))


def _packed(stream: str, batch: "pa.RecordBatch", *, given: bool) -> list[PackedRows]:
    """The frames of a batch. A row that cannot be an entry is refused here: once a manifest lists it, it is too late.

    Raises:
        ArgumentError: there is one; it says of which stream and, where IDs are given, with which.
    """
    ids = "columns" if given else "auto"
    try:
        return pack(batch, ids)
    except LimitError as error:
        raise LimitError(f"{error.what} for stream {stream}", error.limit, error.found) from error
    except ArgumentError as error:
        where = f", with the ID {_refused_id(batch)}," if given else ""
        why = _NUMBERED.sub("it ", str(error))  # the row's number is of this batch alone
        raise ArgumentError(f"a row for stream {stream}{where} cannot be an entry: {why}") from error


def _refused_id(batch: "pa.RecordBatch") -> EntryID:
    """The ID of the first row of which alone no entry can be made."""
    for row in range(batch.num_rows):
        try:
            pack(batch.slice(row, 1), "columns")
        except ArgumentError:
            break
    return EntryID(*_id_at(batch, row))


class _Sink:
    """A staged file. It is made when its first batch comes, and its folder with it: many tasks have no rows, and what
    these left would stay."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._batches = 0

    def write(self, frames: Sequence[PackedRows]) -> None:
        """Writes the frames of a batch.

        Raises:
            OSError: the disk said no.
        """
        self._file = self._file or self._opened()
        put_batch(self._file, self._batches, frames)
        self._batches += 1

    def _opened(self) -> BinaryIO:
        while True:
            make_folders(self._path.parent)
            with contextlib.suppress(FileNotFoundError):  # another task of the job failed just now, and took it away
                return os.fdopen(open_regular(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb")

    def finish(self) -> None:
        """Makes what was written durable, and its name.

        Raises:
            OSError: the disk said no.
        """
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
            flush_folder(self._path.parent)

    def close(self) -> None:
        """Closes the file; a second time is fine."""
        if self._file is not None:
            self._file.close()


def _remove(path: Path) -> None:
    """Removes a staged file, where there is one, and its folder once that is empty."""
    path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # it is not there, or others are still staging in it
        path.parent.rmdir()


def make_folders(folder: Path) -> None:
    """Makes a folder two levels below a store, and the one above it, as a store makes its own, and both names durable.

    Also of those that are there: who made them may have been killed before it flushed that, or be about to.

    Raises:
        StorageError: the disk said no, or one of them is a symbolic link.
    """
    files = Files()
    for each in (folder.parent, folder):
        refuse_link(each)
        files.mkdir(each)
        files.sync_dir(each.parent)


def flush_folder(folder: Path) -> None:
    """Makes the names in a folder durable."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def staged_by_others(store: Path, files: Iterable[StagedFile]) -> bool:
    """Whether anything is staged beside these files: whatever a manifest lists that is to be carried out is."""
    own = {each.path for each in files}
    for folder in named(store / "staging", ""):
        found = named(folder, "")
        if not found or any(f"staging/{folder.name}/{each.name}" not in own for each in found):
            return True
    return False


def discard(store: Path, files: Iterable[StagedFile]) -> None:
    """Removes staged files that no manifest lists, and their folders once these are empty."""
    for each in files:
        _remove(store / each.path)


def sweep(store: Path, listed: set[str]) -> list[str]:
    """Removes folders of jobs that died a day ago or earlier, unless a manifest lists one of their files."""
    gone = []
    root = store / "staging"
    for folder in sorted(root.iterdir()) if is_folder(root) else []:
        kept = any(path.startswith(f"staging/{folder.name}/") for path in listed)
        with contextlib.suppress(FileNotFoundError):  # a job removes its own as soon as it is done
            if not kept and folder.stat().st_mtime + _LEFT_S < time.time():
                shutil.rmtree(folder, ignore_errors=True)
                gone.append(as_text(folder.name.encode()))
    return gone
