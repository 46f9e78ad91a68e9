"""The file of the rows that a task was given: frames of the log, packed, batch after batch.

::

    file  := frame*
    frame := u32 batch | u32 length | rows{length}      numbers little-endian; batches from 0 on, in order

`rows` are those of one frame as the log will hold them, behind their IDs, their number and a checksum of all of it
(native/core/src/staged.rs). A batch has more than one frame only where its rows are long. How many rows a batch has the
manifest says: so a frame that is missing is noticed, and one that counts as another batch's.
"""

import mmap
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final

from diskstream.arrow_rows import PackedRows

__all__ = ["PackedFile", "put_batch"]

_HEAD: Final = struct.Struct("<II")


def put_batch(file: BinaryIO, number: int, frames: Sequence[PackedRows]) -> None:
    """Writes a batch behind those before it.

    Raises:
        OSError: the disk said no.
    """
    for each in frames:
        rows = each.to_bytes()
        file.write(_HEAD.pack(number, len(rows)))
        file.write(rows)


class PackedFile:
    """A file of packed rows, mapped: it needs no descriptor."""

    def __init__(self, path: Path) -> None:
        """Maps a file and finds its frames.

        Raises:
            OSError: it cannot be read.
            ValueError: it is cut short, or something else than `put_batch` writes.
        """
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)  # of an empty one: ValueError
        self._places: dict[int, list[slice]] = {}
        at, size = 0, len(self._map)
        while at < size:
            if at + _HEAD.size > size:
                raise ValueError(f"it ends in the head of a frame at {at:,}")
            number, length = _HEAD.unpack_from(self._map, at)
            at += _HEAD.size
            if at + length > size:
                raise ValueError(f"it ends in a frame at {at:,}")
            self._places.setdefault(number, []).append(slice(at, at + length))
            at += length

    def frames(self, number: int) -> list[PackedRows]:
        """The frames of a batch.

        Raises:
            CorruptionError: its bytes are not those that were written.
        """
        return [PackedRows.from_bytes(self._map[place]) for place in self._places.get(number, [])]
