"""The files of an archive: their columns, and how one is written. `part_reading` reads them back.

Each is Parquet: sorted by ID, with statistics, zstd. Its footer says `diskstream.stream`, `diskstream.first`,
`diskstream.last`, `diskstream.rows`, `diskstream.digest` and `diskstream.layout`.
"""

import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from diskstream.errors import ArchiveError, StorageError
from diskstream.ids import EntryID
from diskstream.spark.jobs.digest import Digest, digest_of
from diskstream.spark.jobs.manifest import ArchivedFile, Shape
from diskstream.spark.jobs.names_among import NamesAmong
from diskstream.spark.jobs.place import Place
from diskstream.spark.names import as_text

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

__all__ = ["CORRUPT", "NAMES", "PartWriter", "archived", "discard", "first_id", "last_id"]

CORRUPT: Final = "_corrupt"
NAMES: Final = "fields.list.element.name"  # Parquet's own name of that column
# A row group: large enough for pages to pack well, and small enough that two tasks of a machine hold few.
_GROUP_ROWS: Final = 131_072
_GROUP_BYTES: Final = 64 << 20
_KEY: Final = "diskstream."


def first_id(batch: "pa.RecordBatch") -> EntryID:
    """The ID of the first row."""
    return _id_at(batch, 0)


def last_id(batch: "pa.RecordBatch") -> EntryID:
    """The ID of the last row."""
    return _id_at(batch, batch.num_rows - 1)


def _id_at(batch: "pa.RecordBatch", row: int) -> EntryID:
    mask = (1 << 64) - 1
    return EntryID(batch["id_ms"][row].as_py() & mask, batch["id_seq"][row].as_py() & mask)


def archived(batch: "pa.RecordBatch", among: NamesAmong | None = None) -> "pa.RecordBatch":
    """A batch of `Stream.scan`, in layout ``fields`` or ``typed``, as archives hold it. No value is copied.

    IDs become int64 of the same bits, since Spark has no larger numbers: parts from 2^63 on are negative. ``bad``
    becomes `CORRUPT`. What can never be null is declared so: Parquet then stores no levels for it.

    Args:
        batch: of the scan.
        among: turns the names of ``fields`` into places, where that is wanted.
    """
    import pyarrow as pa

    names, arrays, required = [], [], set()
    for number, name in enumerate(batch.schema.names):
        column = batch.column(number)
        if name in ("id_ms", "id_seq"):
            column = column.view(pa.int64())
            required.add(name)
        elif name == "fields" and pa.types.is_list(column.type):  # and no typed column of that name
            column = _without_nulls(column, among)
            required.add(name)
        elif name == "bad" and number == batch.num_columns - 1:
            name, column = CORRUPT, _null_where_empty(column)  # noqa: PLW2901  # the same field, under the name for what does not parse
        names.append(name)
        arrays.append(column)
    kinds = [
        pa.field(name, column.type, nullable=name not in required) for name, column in zip(names, arrays, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(kinds))


def _in_order(batch: "pa.RecordBatch") -> bool:
    """Whether no part of an ID is from 2^63 on, and so negative in a file: those come behind the others."""
    return all(np.asarray(batch.column(name)).min() >= 0 for name in ("id_ms", "id_seq"))


def _null_where_empty(lists: "pa.Array") -> "pa.Array":
    """A scan has null for a batch without bad values, else empty lists: a row must not depend on its batch."""
    import pyarrow as pa

    if lists.null_count == len(lists):
        return lists
    some = np.diff(np.asarray(lists.offsets)) > 0
    valid = pa.array(some).buffers()[1]
    return pa.Array.from_buffers(lists.type, len(lists), [valid, _offsets(lists)], children=[lists.values])


def _offsets(lists: "pa.Array") -> "pa.Buffer":
    import pyarrow as pa

    return pa.py_buffer(np.ascontiguousarray(np.asarray(lists.offsets)))


def _without_nulls(lists: "pa.Array", among: NamesAmong | None) -> "pa.Array":
    import pyarrow as pa

    names, values = lists.values.field(0), lists.values.field(1)
    if among is not None:
        names = among.of(names)
    pair = pa.struct([pa.field("name", names.type, nullable=False), pa.field("value", values.type, nullable=False)])
    kind = pa.list_(pa.field("element", pair, nullable=False))
    structs = pa.Array.from_buffers(pair, len(lists.values), [None], children=[names, values])
    return pa.Array.from_buffers(kind, len(lists), [None, _offsets(lists)], children=[structs])


def _properties(schema: "pa.Schema", *, in_order: bool) -> dict[str, Any]:
    """How columns are stored: what `pyarrow.parquet.ParquetWriter` takes.

    Whole numbers as the differences of neighbours: IDs, times and counters come to next to nothing. Of other numbers,
    and of mixed values, a dictionary costs more time than it saves room, as zstd finds repetitions. Statistics are of
    what a reader can skip by, which the inside of a list is not. Level 1 of zstd makes such pages smaller than level 3
    does (by 4 % in the mean of the logs and readings that it was tried on), in less time.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    def named(*tests: "Callable[[pa.DataType], bool]") -> list[str]:
        return [each.name for each in schema if any(test(each.type) for test in tests)]

    kinds = pa.types
    ids = ("id_ms", "id_seq")
    in_lists = schema.names[-1] == "fields" and kinds.is_list(schema.types[-1])
    texts = named(kinds.is_string, kinds.is_binary)
    whole = named(kinds.is_integer, kinds.is_timestamp, kinds.is_date32)
    return {
        "compression": "zstd",
        "compression_level": 1,
        "use_dictionary": [NAMES] if in_lists else texts or False,
        "store_schema": False,  # what a batch has as places are names all the same
        "column_encoding": dict.fromkeys(whole, "DELTA_BINARY_PACKED"),
        "sorting_columns": [pq.SortingColumn(schema.get_field_index(name)) for name in ids] if in_order else None,
        "write_statistics": [each.name for each in schema if not kinds.is_list(each.type)],
    }


class PartWriter:
    """Writes one file: batches of one stream in order of IDs, then `close`; `abandon` where something failed."""

    def __init__(self, place: Place, folder: str, stream: bytes, shape: Shape, job: str) -> None:
        self._place, self._folder, self._stream, self._shape = place, folder, stream, shape
        self._unique = f"{job}{secrets.token_hex(8)}"
        self._hidden = f"{folder}/.{self._unique}.tmp"
        self._opened: Any = None
        self._writer: pq.ParquetWriter | None = None
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._range: tuple[EntryID, EntryID] | None = None
        self._in_order = True  # as the signed numbers that Parquet has
        self.digest = Digest()
        self.size_bytes = 0

    @property
    def rows(self) -> int:
        """How many rows it has got."""
        return self.digest.rows

    def takes(self, batch: "pa.RecordBatch") -> bool:
        """Whether it can have these rows: not where it has declared an order that their IDs in a file are not in."""
        return self._writer is None or not self._in_order or _in_order(batch)

    def write(self, batch: "pa.RecordBatch") -> None:
        """Adds rows, as `archived` makes them, if it `takes` them.

        Raises:
            ArchiveError: they do not come behind those before.
            StorageError: the disk says no.
        """
        if not batch.num_rows:
            return
        first = first_id(batch)
        if self._range is not None and first <= self._range[1]:
            raise ArchiveError(
                f"rows of stream {as_text(self._stream)} come out of order, {first} behind {self._range[1]}: nothing "
                "of this run counts"
            )
        self._range = (self._range[0] if self._range else first, last_id(batch))
        self._in_order = self._in_order and _in_order(batch)
        self.digest += digest_of([batch])
        self._held.append(batch)
        held_bytes = batch.nbytes
        self._held_bytes += held_bytes
        self.size_bytes += held_bytes
        if sum(each.num_rows for each in self._held) >= _GROUP_ROWS or self._held_bytes >= _GROUP_BYTES:
            self._write_group()

    def _write_group(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.Table.from_batches(self._held).unify_dictionaries()
        self._held, self._held_bytes = [], 0
        if self._writer is None:
            self._opened = self._place.writing(self._hidden)
            sink = self._opened.__enter__()
            self._writer = pq.ParquetWriter(sink, table.schema, **_properties(table.schema, in_order=self._in_order))
        with self._place.telling(self._hidden, "write"):
            self._writer.write_table(table, row_group_size=len(table))

    def close(self, source: str) -> ArchivedFile:
        """Ends the file, gives it its name, and makes it durable.

        Args:
            source: what it was made from.

        Raises:
            StorageError: the disk says no.
        """
        assert self._range is not None
        first, last = self._range
        if self._held:
            self._write_group()
        assert self._writer is not None
        facts = {
            "stream": as_text(self._stream),
            "first": str(first),
            "last": str(last),
            "rows": str(self.rows),
            "digest": str(self.digest),
            "layout": self._shape.layout,
        }
        with self._place.telling(self._hidden, "write"):
            self._writer.add_key_value_metadata({_KEY + key: text for key, text in facts.items()})
            self._writer.close()
        opened, self._opened = self._opened, None
        opened.__exit__(None, None, None)
        path = f"{self._folder}/part-{first}-{last}-{self._unique}.parquet"
        self._place.move(self._hidden, path)
        try:
            self._place.flush(path)
            size = self._place.size(path)
        except BaseException:  # nobody has heard of it, so nobody else would remove it
            with suppress(StorageError):
                self._place.remove(path)
            raise
        made_ms = time.time_ns() // 1_000_000
        return ArchivedFile(path, self._stream, first, last, size, self.digest, made_ms, source)

    def abandon(self) -> None:
        """Removes what was written."""
        with suppress(OSError, StorageError):
            if self._writer is not None:
                self._writer.close()
        with suppress(OSError, StorageError):
            if self._opened is not None:
                self._opened.__exit__(None, None, None)
        with suppress(StorageError):
            self._place.remove(self._hidden)


def discard(place: Place, files: "list[ArchivedFile]") -> None:
    """Removes files that no manifest names; what cannot be removed is garbage, and found as such."""
    for each in files:
        with suppress(StorageError):
            place.remove(each.path)
