"""The rows of the view: where a stream's rows stand, and its pending entries by ID, by consumer and by time, in chunks.

::

    key                                          value
    uuid of the stream                           where it stands: sequence number u64, end offset u64,
                                                 segment u64, header checksum u32 of a frame
    uuid, order u8, group u32, key of a row (24) CRC-32 of key and chunk u32, a chunk of rows: see
                                                 native/core/src/pending.rs
"""

import struct
import zlib
from collections.abc import Iterator

import lmdb

from diskstream.engine.state import ViewDamaged

__all__ = [
    "BY_CONSUMER",
    "BY_ID",
    "BY_TIME",
    "OWNED",
    "Chunks",
    "Place",
    "chunk_at",
    "delete_rows",
    "pack_place",
    "prefix",
    "put_chunks",
    "read_place",
    "stream_rows",
]

BY_ID, BY_CONSUMER, BY_TIME = 0, 1, 2
# In the order of times what somebody has comes behind what nobody has: this is added to its time.
OWNED = 1 << 63

Place = tuple[int, int, int, int]
_PLACE = struct.Struct("<QQQI")
_CRC = struct.Struct("<I")


def pack_place(place: Place) -> bytes:
    """Where the rows of a stream stand, as bytes."""
    return _PLACE.pack(*place)


def read_place(txn: lmdb.Transaction, uuid: bytes) -> Place | None:
    """``(sequence number, end offset, segment, header checksum)`` of the frame that a stream's rows stand behind."""
    row = txn.get(uuid)
    return None if row is None or len(row) != _PLACE.size else _PLACE.unpack(row)


def prefix(uuid: bytes, order: int, group: int) -> bytes:
    """What the keys of one index of one group begin with."""
    return uuid + bytes([order]) + group.to_bytes(4, "big")


class Chunks:
    """Chunks of one index, looked for in one transaction. Whoever asks for keys that rise reads neighbours once."""

    def __init__(self, txn: lmdb.Transaction, index: bytes) -> None:
        self._cursor, self._index = txn.cursor(), index
        self._following: tuple[bytes, bytes] | None = None  # the chunk behind the last one; the cursor stands on it

    def at(self, key: bytes) -> tuple[bytes | None, bytes | None, bytes | None]:
        """The chunk that holds `key`: its own key, itself, and the next chunk's key; None for what is not.

        Raises:
            ViewDamaged: one of the two is not what was put there.
        """
        if self._following is None or key < self._following[0] or not self._is_before_next(key):
            found = self._seek(key)
        else:
            found = self._following
            self._following = _item(self._cursor, self._index)
        after = None if self._following is None else self._following[0]
        return (None, None, after) if found is None else (*found, after)

    def _is_before_next(self, key: bytes) -> bool:
        """Goes one chunk on; whether that one begins behind `key`, or is none of the index."""
        beyond = bytes(self._cursor.key()) if self._cursor.next() else b""
        return not beyond.startswith(self._index) or self._index + key < beyond

    def _seek(self, key: bytes) -> tuple[bytes, bytes] | None:
        cursor, index = self._cursor, self._index
        found = None
        # The last key not above the wanted one: the wanted one itself, or what stands before the next.
        placed = cursor.set_range(index + key)
        if (placed and cursor.key() == index + key) or (cursor.prev() if placed else cursor.last()):
            found = _item(cursor, index)
        more = cursor.next() if found is not None else cursor.set_range(index + key)
        self._following = _item(cursor, index) if more else None
        return found


def chunk_at(txn: lmdb.Transaction, index: bytes, key: bytes) -> tuple[bytes | None, bytes | None, bytes | None]:
    """One chunk: see `Chunks.at`."""
    return Chunks(txn, index).at(key)


def _item(cursor: lmdb.Cursor, index: bytes) -> tuple[bytes, bytes] | None:
    """Where the cursor stands, if that is within an index: the key behind the prefix, and the chunk.

    Raises:
        ViewDamaged: it is not what was put there.
    """
    key, value = map(bytes, cursor.item())
    return (key[len(index) :], _checked(key, value)) if key.startswith(index) else None


def _checked(key: bytes, value: bytes) -> bytes:
    chunk = value[_CRC.size :]
    if value[: _CRC.size] != _CRC.pack(zlib.crc32(chunk, zlib.crc32(key))):
        raise ViewDamaged
    return chunk


def put_chunks(txn: lmdb.Transaction, index: bytes, chunks: list[tuple[bytes, bytes]]) -> None:
    """Stores chunks under their keys, each behind the checksum of both: LMDB has none of its own."""
    keyed = ((index + key, chunk) for key, chunk in chunks)
    txn.cursor().putmulti([(key, _CRC.pack(zlib.crc32(chunk, zlib.crc32(key))) + chunk) for key, chunk in keyed])


def stream_rows(txn: lmdb.Transaction, start: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Keys that begin with `start`, in order, and their chunks.

    Raises:
        ViewDamaged: one is not what was put there.
    """
    cursor = txn.cursor()
    more = cursor.set_range(start)
    while more and bytes(cursor.key()).startswith(start):
        key, value = (bytes(part) for part in cursor.item())
        yield key, _checked(key, value)
        more = cursor.next()


def delete_rows(txn: lmdb.Transaction, start: bytes) -> None:
    """Removes every row whose key begins with `start`."""
    cursor = txn.cursor()
    while cursor.set_range(start) and bytes(cursor.key()).startswith(start):
        cursor.delete()
