"""Staged files as a commit reads them: batch by batch, stream after stream, and so many times through each file."""

import errno
import os
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from diskstream.arrow_rows import PackedRows, pack
from diskstream.batches import Layout, as_batch
from diskstream.errors import CorruptionError, StorageError, storage_error
from diskstream.plurals import number_of
from diskstream.spark.staged_file import PackedFile

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Staged", "StagedFiles", "frames_of", "unpacked"]

# A staged batch: the frames of it, or as earlier versions and merging have it, its rows by columns.
Staged: TypeAlias = "pa.RecordBatch | list[PackedRows]"

# Of mappings a process has 65,530.
_MOST_OPEN: Final = 1024


class StagedFiles:
    """The staged files of a store, each opened when it is first read, and then kept mapped.

    A file's footer lists all of its batches, one or more for each stream: read again for each of them, it would cost
    the square of their number. A mapping has no descriptor, so many tasks do not run the driver out of these.
    """

    def __init__(self, store: Path) -> None:
        """Opens nothing yet.

        Args:
            store: where the files are.
        """
        self._store = store
        self._open: OrderedDict[str, Any] = OrderedDict()

    def check_there(self, path: str) -> None:
        """Looks whether a file is there.

        Raises:
            StorageError: it is not.
        """
        if not (self._store / path).exists():
            raise StorageError(str(self._store / path), "read", errno.ENOENT, "what a task staged is gone; try again")

    def batch(self, path: str, number: int, rows: int) -> Staged:
        """A batch of a file.

        Args:
            path: the file's, below the store.
            number: of the batch.
            rows: that it has, as the manifest says.

        Raises:
            StorageError: it cannot be read, or has another number of rows.
        """
        where = str(self._store / path)
        try:
            file = self._opened(path)
            found: Staged = file.frames(number) if isinstance(file, PackedFile) else file.get_batch(number)
        except (ValueError, CorruptionError) as error:
            raise _damaged(where, error) from error
        except OSError as error:
            raise storage_error(
                where, "read", error.errno or errno.EIO, os.strerror(error.errno or errno.EIO)
            ) from error
        count = sum(each.rows for each in found) if isinstance(found, list) else found.num_rows
        if count != rows:
            raise _damaged(where, f"a batch has {number_of(count, 'row')}, and had {rows:,}")
        return found

    def _opened(self, path: str) -> Any:
        found = self._open.get(path)
        if found is not None:
            self._open.move_to_end(path)
            return found
        file = self._store / path
        self._open[path] = found = PackedFile(file) if path.endswith(".packed") else _by_columns(file)
        if len(self._open) > _MOST_OPEN:
            self._open.popitem(last=False)
        return found


def _damaged(where: str, what: object) -> StorageError:
    return StorageError(where, "read", errno.EIO, f"what a task staged is damaged ({what})")


def _by_columns(file: Path) -> Any:
    """A file of an earlier version."""
    import pyarrow as pa

    with pa.memory_map(str(file)) as source:
        return pa.ipc.open_file(source.read_buffer())


def frames_of(rows: Staged, ids: str) -> list[PackedRows]:
    """The frames of a batch as it was read."""
    return rows if isinstance(rows, list) else pack(rows, ids)


def unpacked(frames: list[PackedRows]) -> "pa.RecordBatch":
    """The rows of frames with IDs by columns: `id_ms`, `id_seq` and `fields`."""
    how = Layout.of("fields", (), "first", strict=False, exact=False, metadata=False, times=False)
    return as_batch(how, how.native.batch([each.block() for each in frames]), 0)
