"""Writing a DataFrame into streams, in a batch or as a sink: tasks stage, the driver commits."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

import diskstream
from diskstream.errors import ArgumentError
from diskstream.options import streams_within_descriptors
from diskstream.spark import versions
from diskstream.spark.collecting import spare_the_collector
from diskstream.spark.commit import JOB, Manifest, abandon, commit
from diskstream.spark.names import as_bytes, as_text
from diskstream.spark.options import WriteOptions
from diskstream.spark.rows import Target
from diskstream.spark.staging import StagedFile, stage

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["EntriesStreamWriter", "EntriesWriter", "Staged"]


@dataclass
class Staged(WriterCommitMessage):
    """What a task staged, and for which query."""

    file: StagedFile
    query: str = ""


def _prepare(options: WriteOptions, schema: StructType, *, overwrite: bool) -> tuple[Path, Target]:
    """Where to write, made if it is not there, and what.

    Raises:
        ArgumentError: an overwrite, or columns that make no entries.
        NotAStoreError, StorageError: see `diskstream.open`.
    """
    if overwrite:
        raise ArgumentError("streams are appended to: write with mode('append'); Store.delete removes a stream")
    target = Target.of(schema, options)
    with diskstream.open(options.path) as store:
        return store.path, target


def _finish(path: Path, manifest: Manifest) -> None:
    # A commit goes through all of its streams up to three times: to look, to append, to look again.
    with diskstream.open(path, max_open_streams=streams_within_descriptors()) as store:
        commit(store, manifest)


def _words(options: WriteOptions) -> str:
    return f"stream {as_text(as_bytes(options.stream))}" if options.stream else "the streams of a column"


def _files(messages: "list[WriterCommitMessage | None]") -> tuple[StagedFile, ...]:
    return tuple(each.file for each in messages if isinstance(each, Staged) and each.file.batches)


class EntriesWriter(DataSourceArrowWriter):
    """A batch write. One instance: what the driver makes goes to the tasks, and comes back to commit."""

    def __init__(self, options: WriteOptions, schema: StructType, *, overwrite: bool) -> None:
        self.options = options
        if options.writer:
            raise ArgumentError("writer is for streaming queries, whose batches have numbers: give a batch a txnId")
        self.path, self.target = _prepare(options, schema, overwrite=overwrite)
        self.version = versions.VERSION
        self.job = uuid.uuid4().hex

    @property
    def _writer(self) -> str:
        return f"txn:{self.options.txn_id}" if self.options.txn_id else f"{JOB}{self.job}"

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        """Stages what one task was given."""
        versions.check(self.version)
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        staged = stage(self.path, (self.job, partition), iterator, self.target, self.options.batch_rows)
        spare_the_collector()
        return Staged(staged)

    def commit(self, messages: "list[WriterCommitMessage | None]") -> None:
        """Appends what all tasks staged; with `txnId`, only the first time.

        Raises:
            ArgumentError: the `txnId` was used to write to another stream. For others see `commit.commit`.
        """
        by = _words(self.options) if self.options.txn_id else ""
        _finish(self.path, Manifest(self._writer, 0, self.target.given, _files(messages), by))

    def abort(self, messages: "list[WriterCommitMessage | None]") -> None:
        """Removes what was staged, unless a commit that failed half way has decided to append it."""
        abandon(self.path, self._writer, 0, _files(messages))


class EntriesStreamWriter(DataSourceStreamArrowWriter):
    """A streaming sink. Tasks and the driver have instances of their own: only messages go from one to the other."""

    def __init__(self, options: WriteOptions, schema: StructType, *, overwrite: bool) -> None:
        self.options = options
        if options.txn_id:
            raise ArgumentError("txnId is for batch writes: a streaming query has an ID, and its batches have numbers")
        self.path, self.target = _prepare(options, schema, overwrite=overwrite)
        self.version = versions.VERSION

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        """Stages what one task was given."""
        versions.check(self.version)
        context = TaskContext.get()
        query = (context.getLocalProperty("sql.streaming.queryId") if context is not None else None) or ""
        batch = (context.getLocalProperty("streaming.sql.batchId") if context is not None else None) or "0"
        partition = context.partitionId() if context is not None else 0
        job = f"{query or 'query'}-{batch}-{uuid.uuid4().hex}"
        staged = stage(self.path, (job, partition), iterator, self.target, self.options.batch_rows)
        spare_the_collector()
        return Staged(staged, query)

    def commit(self, messages: "list[WriterCommitMessage | None]", batchId: int) -> None:  # noqa: N803  # Spark's name
        """Appends what the tasks of a batch staged, unless this batch was appended before.

        Raises:
            ArgumentError: another query appended a batch of this number under the same writer, or this one another
                batch. For others see `commit.commit`.
        """
        query = self._query(messages)
        writer = self.options.writer or query
        if not writer:
            if not _files(messages):
                return
            raise ArgumentError("Spark did not tell the query's ID: name the writer by the option writer")
        by, to = (f"query {query}", _words(self.options)) if query else ("", "")
        _finish(self.path, Manifest(f"query:{writer}", batchId, self.target.given, _files(messages), by, to=to))

    def _query(self, messages: "list[WriterCommitMessage | None]") -> str:
        """The query's ID, which it keeps as long as its checkpoint; empty where no task told it."""
        return next((each.query for each in messages if isinstance(each, Staged) and each.query), "")

    def abort(self, messages: "list[WriterCommitMessage | None]", batchId: int) -> None:  # noqa: N803  # Spark's name
        """Removes what was staged, unless a commit that failed half way has decided to append it."""
        abandon(self.path, f"query:{self.options.writer or self._query(messages)}", batchId, _files(messages))
