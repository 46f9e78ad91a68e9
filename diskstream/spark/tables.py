"""What groups did and do, as tables: groups, consumers, pending entries, and the audit of each delivery.

One partition is one stream of a lease. Names of groups and consumers are text, as `names.as_text` gives it.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from diskstream import leases
from diskstream.errors import ArgumentError
from diskstream.ids import EntryID
from diskstream.spark import versions
from diskstream.spark.kept_stores import STORES
from diskstream.spark.names import as_text
from diskstream.spark.options import ReadOptions
from diskstream.spark.planning import chosen_streams, open_for_planning, place_of_read
from diskstream.spark.shared_columns import handed
from diskstream.spark.tasks import check_seen
from diskstream.stream import Stream

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["SCHEMAS", "StreamPartition", "TableReader", "table_schema"]

SCHEMAS = {
    "groups": (
        "stream string, group string, consumers bigint, pending bigint, refused bigint, last_delivered_id string, "
        "entries_read bigint, lag bigint"
    ),
    "consumers": "stream string, group string, consumer string, pending bigint, seen timestamp, active timestamp",
    "pending": (
        "stream string, group string, id string, consumer string, delivered timestamp, idle_ms bigint, "
        "deliveries bigint"
    ),
    "audit": (
        "stream string, at timestamp, lsn bigint, action string, group string, consumer string, id string, "
        "deliveries bigint, owner_before string"
    ),
}
_ROWS = 10_000


class StreamPartition(InputPartition):
    """One stream of a lease, or of the store."""

    def __init__(self, path: str, stream: bytes) -> None:
        super().__init__(None)
        self.path, self.stream = path, stream
        self.version = versions.VERSION


def _time(ms: int | None) -> datetime | None:
    try:
        return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None  # past the year 9999


def _text(name: bytes | None) -> str | None:
    return None if name is None else as_text(name)


def _groups(stream: Stream) -> Iterator[tuple[Any, ...]]:
    for each in stream.groups():
        counts = each.consumers, each.pending, each.refused
        yield as_text(each.name), *counts, str(each.last_delivered_id), each.entries_read, each.lag


def _consumers(stream: Stream) -> Iterator[tuple[Any, ...]]:
    for group in stream.groups():
        for each in stream.group(group.name, create=False).consumers():
            times = _time(each.seen_ms), _time(each.active_ms)
            yield as_text(group.name), as_text(each.name), each.pending, *times


def _pending(stream: Stream) -> Iterator[tuple[Any, ...]]:
    for group in stream.groups():
        start: EntryID | None = EntryID(0, 0)
        while start is not None:
            rows = stream.group(group.name, create=False).pending_range(start, "+", _ROWS)
            for each in rows:
                # Who has an entry says when it got it; one that was given back has been with nobody since.
                owner = (as_text(each.consumer), _time(each.delivered_ms), each.idle_ms)
                owned = owner if each.idle_ms >= 0 else (None, None, None)  # a consumer's name may be empty
                yield as_text(group.name), str(each.id), *owned, each.deliveries
            start = rows[-1].id.next() if len(rows) == _ROWS else None


def _audit(stream: Stream, options: ReadOptions) -> Iterator[tuple[Any, ...]]:
    if options.ending_timestamp == 0:  # or a time before 1970, which is read as this one: nothing is as old
        return
    end = None if options.ending_timestamp is None else options.ending_timestamp - 1
    for each in stream.audit(options.starting_timestamp, end):
        entry_id = None if each.id is None else str(each.id)
        names = _text(each.group), _text(each.consumer)
        yield _time(each.time_ms), each.lsn, each.action, *names, entry_id, each.deliveries, _text(each.owner_before)


class TableReader(DataSourceReader):
    """A batch read of one of the tables."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        wanted = table_schema(options.table)
        if [(each.name, each.dataType) for each in schema] != [(each.name, each.dataType) for each in wanted]:
            raise ArgumentError(f"table={options.table} has its own columns: {SCHEMAS[options.table]}")
        self.options, self.schema = options, schema

    def partitions(self) -> Sequence[InputPartition]:
        """One for each stream, of one lease."""
        with open_for_planning(self.options.path) as store:
            names = chosen_streams(store, self.options)
            path, _ = place_of_read(store, names, self.options)
        return [StreamPartition(path, name) for name in names] or [StreamPartition("", b"")]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Reads one stream's, in a task."""
        return handed(partition, self._batches)

    def _batches(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        assert isinstance(partition, StreamPartition)
        versions.check(partition.version)
        if not partition.stream:
            return
        target: Any = to_arrow_schema(self.schema, timezone="UTC")
        check_seen(partition.path, self.options.path)
        with STORES.reading(partition.path) as store:
            rows = leases.used(Path(partition.path), self._rows(store.stream(partition.stream)))
            while part := list(islice(rows, _ROWS)):
                columns = [[as_text(partition.stream)] * len(part), *map(list, zip(*part, strict=True))]
                arrays = [pa.array(column, each.type) for column, each in zip(columns, target, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=target)

    def _rows(self, stream: Stream) -> Iterator[tuple[Any, ...]]:
        if self.options.table == "audit":
            return _audit(stream, self.options)
        tables = {"groups": _groups, "consumers": _consumers, "pending": _pending}
        return tables[self.options.table](stream)


def table_schema(table: str) -> StructType:
    """The columns of a table."""
    kinds = {"string": "string", "bigint": "long", "timestamp": "timestamp"}
    schema = StructType()
    for column in SCHEMAS[table].split(", "):
        name, kind = column.split(" ")
        schema = schema.add(name, kinds[kind])
    return schema
