"""The data source `diskstream`: what Spark asks, handed to the modules that answer."""

from collections.abc import Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from diskstream.errors import ArgumentError
from diskstream.spark.archived_entries import (
    ArchivePartition,
    archived_columns,
    is_archive,
    plan_archive,
    read_archived,
)
from diskstream.spark.collecting import spare_the_collector
from diskstream.spark.options import ReadOptions, WriteOptions
from diskstream.spark.partitions import EntriesPartition
from diskstream.spark.planning import plan_entries
from diskstream.spark.schemas import default_schema, plan
from diskstream.spark.shared_columns import handed
from diskstream.spark.stream_reader import EntriesStreamReader
from diskstream.spark.tables import TableReader, table_schema
from diskstream.spark.tasks import read_entries
from diskstream.spark.writers import EntriesStreamWriter, EntriesWriter

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DiskstreamSource", "EntriesReader"]


class EntriesReader(DataSourceReader):
    """A batch read of entries, of a store or of an archive."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self.options, self.plan = options, plan(schema, options)

    def partitions(self) -> Sequence[InputPartition]:
        """Plans, and takes a lease."""
        if is_archive(self.options.path):
            planned: Sequence[InputPartition] = plan_archive(self.options, self.plan)
        else:
            planned = plan_entries(self.options) or [EntriesPartition("", self.options.path, (), leased=False)]
        spare_the_collector()
        return planned

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Reads one partition, in a task."""
        return handed(partition, self._batches)

    def _batches(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        if isinstance(partition, ArchivePartition):
            yield from read_archived(partition, self.plan, self.options)
            return
        assert isinstance(partition, EntriesPartition)
        if partition.slices:
            yield from read_entries(partition, self.plan, self.options)


class DiskstreamSource(DataSource):
    """`spark.read.format("diskstream")` and its like: see docs/spark.md."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(dict(options))
        spare_the_collector()

    @classmethod
    def name(cls) -> str:
        """What `format` takes."""
        return "diskstream"

    def schema(self) -> StructType:
        """The columns of a read for which the user gives none."""
        options = self._read_options()
        if options.table != "entries":
            return table_schema(options.table)
        return default_schema(options, archived_columns(options.path) if is_archive(options.path) else ())

    def _read_options(self) -> ReadOptions:
        options: ReadOptions = ReadOptions.parse(self.options)
        return options.check()

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read."""
        options = self._read_options().check_batch()
        return EntriesReader(options, schema) if options.table == "entries" else TableReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        """A streaming read."""
        options = self._read_options()
        if options.table != "entries":
            raise ArgumentError(f"table={options.table} is read in batches; a streaming read has entries only")
        return EntriesStreamReader(options, schema)

    def _write_options(self) -> WriteOptions:
        options: WriteOptions = WriteOptions.parse(self.options)
        return options.check()

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A batch write."""
        return EntriesWriter(self._write_options(), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802  # Spark's name
        """A streaming sink."""
        return EntriesStreamWriter(self._write_options(), schema, overwrite=overwrite)
