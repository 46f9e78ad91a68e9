"""What a task does: slices of streams, scanned into the record batches that Spark takes."""

import json
import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from diskstream.errors import ChangedError, CorruptionError, NotAStoreError
from diskstream.ids import EntryID
from diskstream.spark import versions
from diskstream.spark.collecting import spare_the_collector
from diskstream.spark.kept_stores import STORES
from diskstream.spark.losses import UNREADABLE, check_there, fault_of, is_same, whole
from diskstream.spark.names import as_text
from diskstream.spark.options import ReadOptions
from diskstream.spark.partitions import EntriesPartition, Slice
from diskstream.spark.planning import is_chosen
from diskstream.spark.schemas import Plan
from diskstream.store import Store
from diskstream.stream import Stream

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["check_seen", "opened", "read_entries", "report_skipped"]

_log = logging.getLogger("diskstream.spark")
_MOST_RENAMES: Final = 100  # that a slice is read on after


def check_seen(path: str, given: str) -> None:
    """Makes sure that a task sees what was planned for it, and lets go of what is kept open of what is gone.

    Raises:
        NotAStoreError: see `check_there`.
    """
    try:
        check_there(path, given)
    except NotAStoreError:
        STORES.forget()
        raise


@contextmanager
def opened(partition: EntriesPartition) -> Iterator[Store]:
    """The store, or the lease, that a partition is of.

    Raises:
        NotAStoreError: the worker does not see it, or it is gone.
    """
    if partition.leased:
        check_seen(partition.path, partition.given)
    with STORES.reading(partition.path) as store:
        yield store


def read_entries(partition: EntriesPartition, plan: Plan, options: ReadOptions) -> "Iterator[pa.RecordBatch]":
    """The entries of a partition, as batches of the plan's schema, in order of streams and IDs.

    Raises:
        DiskstreamError: the driver has another version.
        NotAStoreError: the lease ran out, or was released, meanwhile.
        DataLossError: without a lease, entries that were planned are gone.
        CorruptionError: something cannot be read, and is not to be skipped.
    """
    versions.check(partition.version)
    assemble = plan.assembler(large_ids=options.large_ids)
    if partition.leased:
        check_seen(partition.path, partition.given)
    anew: list[str] = []
    for each in partition.slices:
        text = as_text(each.stream)
        if options.on_corruption == "skip" and (fault := _fault(partition, each)) is not None:
            report_skipped(each.stream, each.range, fault, options)
            continue
        read = partial(_scan, each=each, plan=plan, options=options)
        skip = options.on_corruption == "skip"
        with _opened_for(each, partition, anew) as store:
            if partition.leased or options.fail_on_data_loss:
                for batch in whole(store, each.stream, each.range, read, identity=each.identity, damaged=skip):
                    yield assemble(text, batch)
            else:
                for name, batch in _what_is_left(store, each, plan, options):
                    yield assemble(as_text(name), batch)
    spare_the_collector()


def _fault(partition: EntriesPartition, each: Slice) -> CorruptionError | None:
    with STORES.reading(partition.path) as store:
        return fault_of(store.stream(each.stream))


@contextmanager
def _opened_for(each: Slice, partition: EntriesPartition, anew: list[str]) -> Iterator[Store]:
    """The store for a slice of it: opened anew, once (`anew` says whether it was), where it does not see what was
    planned. It was kept open from an earlier task, and who has one open for reading does not see that it was repaired:
    the rest of a log would be taken for gone."""
    with STORES.reading(partition.path) as store:
        if partition.leased or anew or store.stream(each.stream).last_id() >= each.range[1]:
            yield store
            return
    anew.append(partition.path)
    STORES.let_go(partition.path)
    with STORES.reading(partition.path) as store:
        yield store


def _what_is_left(
    store: Store, each: Slice, plan: Plan, options: ReadOptions
) -> "Iterator[tuple[bytes, pa.RecordBatch]]":
    """Where losses are allowed, a stream that goes while it is read is at its end, and of another one that has its name
    nothing was planned. One that was renamed since, to a name that is read too, is read on there: later batches take
    what was planned for read. With each batch comes the name that it was read under."""
    stream, left = store.stream(each.stream), each
    for _ in range(_MOST_RENAMES):
        found = stream if is_same(stream, each.identity) else _renamed(store, each, options)
        if found is None:
            return
        stream = found
        try:
            for batch in _scan(stream, left, plan, options):
                yield stream.name, batch
                following = EntryID(batch.column(0)[-1].as_py(), batch.column(1)[-1].as_py()).next()
                if following is None or following > left.range[1]:
                    return
                left = replace(left, first=(following.ms, following.seq))
        except ChangedError:
            continue
        return


def _renamed(store: Store, each: Slice, options: ReadOptions) -> Stream | None:
    """The stream that a slice was planned of, under the name that it has now, where that is read too."""
    others = (store.stream(name) for name in store.streams() if is_chosen(name, options))
    return next((one for one in others if fault_of(one) is None and one.identity() == each.identity), None)


def _scan(stream: Stream, each: Slice, plan: Plan, options: ReadOptions) -> "Iterator[pa.RecordBatch]":
    def scanned(first: EntryID, last: EntryID) -> "Iterator[pa.RecordBatch]":
        return stream.scan(
            first,
            last,
            layout=plan.layout,
            columns=plan.columns,
            duplicates=options.duplicate_fields,
            strict=options.mode == "FAILFAST",
            metadata=plan.metadata,
            times="ts" in plan.names,
            batch_rows=options.batch_rows,
        )

    at, last = each.range
    try:
        for batch in scanned(at, last):
            yield batch
            at = EntryID(batch.column(0)[-1].as_py(), batch.column(1)[-1].as_py()).next() or last
    except UNREADABLE as error:
        if options.on_corruption == "fail":
            raise
        # From here on node by node, so that nothing goes but what is damaged.
        try:
            pieces = stream.splits(at, last, max_entries=1, damaged=True)
        except UNREADABLE:
            report_skipped(stream.name, (at, last), error, options)
            return
        for piece in pieces:
            try:
                found = list(scanned(piece.first, piece.last))
            except UNREADABLE as fault:
                report_skipped(stream.name, (piece.first, piece.last), fault, options)
            else:
                yield from found


def report_skipped(stream: bytes, within: tuple[EntryID, EntryID], error: Exception, options: ReadOptions) -> None:
    """Tells what was skipped: in the worker's log, and as a file of JSON below `corruptionPath`.

    Args:
        stream: its name.
        within: the first and the last ID that it may have had.
        error: why.
        options: of the read.
    """
    first, last = within
    _log.warning("skipped %s to %s of stream %s: %s", first, last, as_text(stream), error)
    if options.corruption_path:
        folder = Path(options.corruption_path)
        folder.mkdir(parents=True, exist_ok=True)
        found = {"stream": as_text(stream), "first": str(first), "last": str(last), "error": str(error)}
        (folder / f"skipped-{secrets.token_hex(8)}.json").write_text(json.dumps(found) + "\n")
