"""The view in LMDB, of one stream: where it stands, and its rows in three orders. docs/format/view.md."""

import zlib
from dataclasses import dataclass, field
from pathlib import Path

import lmdb

from tests.slow_reader import layouts
from tests.slow_reader.groups import Pending, pending_rows
from tests.slow_reader.wire import Cursor, FormatError, Identifier

__all__ = ["SlowView"]

Index = tuple[int, int]  # order and group


@dataclass
class SlowView:
    """The rows of a stream in a view that nobody has open.

    Attributes:
        lsn, end, segment, link: where the rows stand.
        rows: for each order and group the rows, in that order.
        chunks: for each of these the number of rows in each chunk.
    """

    lsn: int
    end: int
    segment: int
    link: int
    rows: dict[Index, list[tuple[Identifier, Pending]]] = field(default_factory=dict)
    chunks: dict[Index, list[int]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, uuid: bytes) -> "SlowView | None":
        """What the environment at `path` has of a stream; None where that is nothing."""
        with lmdb.open(str(path), readonly=True, lock=False) as env, env.begin() as txn:
            found = [(bytes(key), bytes(value)) for key, value in txn.cursor() if bytes(key).startswith(uuid)]
        if not found:
            return None
        (key, place), *chunks = found
        if key != uuid:
            raise FormatError(path, 0, "a place before rows", key.hex())
        view = cls(*layouts.PLACE_OF_A_VIEW.unpack(place))
        for key, chunk in chunks:
            assert chunk[:4] == zlib.crc32(chunk[4:], zlib.crc32(key)).to_bytes(4, "little"), key
            view._take(Cursor(path, key[16:]), Cursor(path, chunk[4:]))
        return view

    def _take(self, key: Cursor, chunk: Cursor) -> None:
        """One chunk, under its key; chunks come in the order of their keys."""
        order, group = key.byte(), int.from_bytes(key.take(4))
        first = tuple(int.from_bytes(key.take(8)) for _ in range(3))
        key.end()
        some = pending_rows(chunk)
        chunk.end()
        rows = self.rows.setdefault((order, group), [])
        before = [row.key(order, entry_id) for entry_id, row in rows[-1:]]
        keys = [row.key(order, entry_id) for entry_id, row in some]
        if not keys or keys[0] != first or before + keys != sorted({*before, *keys}):
            raise chunk.fault(f"rows in order, from {first} on", keys)
        rows += some
        self.chunks.setdefault((order, group), []).append(len(some))
