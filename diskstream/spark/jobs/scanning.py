"""What jobs that only read have in common: partitions of some streams under a lease, and their batches in a task."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from diskstream import leases
from diskstream.spark.jobs.leasing import in_use
from diskstream.spark.losses import RUN_AGAIN, whole
from diskstream.spark.options import ReadOptions
from diskstream.spark.partitions import EntriesPartition, Slice
from diskstream.spark.planning import chosen_streams, open_for_planning, plan_entries
from diskstream.spark.tasks import opened
from diskstream.stream import Stream

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["partitions", "scanned"]

# Numpy's calls cost some µs each: at 16 thousand rows they are a few percent, and a batch still fits the cache.
_BATCH_ROWS = 16_384


@contextmanager
def partitions(
    options: ReadOptions, *, without: bytes | None = None
) -> Iterator[tuple[list[bytes], list[EntriesPartition]]]:
    """The names of the chosen streams and their partitions; the lease that was taken for them goes at the end.

    Args:
        options: what to read; `lease` says whether one is taken.
        without: a stream that is not read even where the pattern fits it.

    Raises:
        NotAStoreError, NoSuchStreamError, CorruptionError: see `diskstream.errors`.
    """
    with open_for_planning(options.path) as store:
        names = [name for name in chosen_streams(store, options) if name != without]
    # A read without names is of all streams, which an empty choice is not.
    planned = plan_entries(replace(options, streams=tuple(names), stream_pattern="")) if names else []
    taken = sorted({Path(each.path) for each in planned if each.leased})
    try:
        with in_use(taken, options.lease_ttl):
            yield names, planned
    finally:
        for path in taken:
            leases.release(path)


def scanned(
    partition: EntriesPartition, layout: str, columns: Sequence[tuple[str, str]] = (), *, metadata: bool = False
) -> "Iterator[tuple[bytes, pa.RecordBatch]]":
    """In a task: the name of the stream with each batch of `Stream.scan`, in order of streams and IDs.

    Raises:
        NotAStoreError: the worker does not see the store, or the lease has run out.
        DataLossError: without a lease, entries that were planned are gone.
        CorruptionError: something cannot be read.
    """
    with opened(partition) as store:
        for each in partition.slices:

            def read(stream: Stream, each: Slice = each) -> "Iterator[pa.RecordBatch]":
                return stream.scan(
                    *each.range, layout=layout, columns=columns, metadata=metadata, batch_rows=_BATCH_ROWS
                )

            for batch in whole(store, each.stream, each.range, read, identity=each.identity, advice=RUN_AGAIN):
                yield each.stream, batch
