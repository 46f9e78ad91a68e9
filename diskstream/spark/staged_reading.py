"""Staged files as a commit reads them: batch by batch, stream after stream, and so many times through each file."""

import errno
import os
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from diskstream.errors import StorageError, storage_error

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["StagedFiles"]

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

    def batch(self, path: str, number: int) -> "pa.RecordBatch":
        """A batch of a file.

        Args:
            path: the file's, below the store.
            number: of the batch.

        Raises:
            StorageError: it cannot be read.
        """
        import pyarrow as pa

        where = str(self._store / path)
        try:
            reader = self._open.get(path)
            if reader is None:
                with pa.memory_map(where) as source:
                    reader = pa.ipc.open_file(source.read_buffer())
                self._open[path] = reader
                if len(self._open) > _MOST_OPEN:
                    self._open.popitem(last=False)
            else:
                self._open.move_to_end(path)
            return reader.get_batch(number)
        except pa.ArrowInvalid as error:
            raise StorageError(where, "read", errno.EIO, f"what a task staged is damaged ({error})") from error
        except OSError as error:
            raise storage_error(
                where, "read", error.errno or errno.EIO, os.strerror(error.errno or errno.EIO)
            ) from error
