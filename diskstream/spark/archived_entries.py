"""A batch read of an archive: the files that its manifest names now, by the streams, bounds and columns of any read.

A file is the least that a task reads. What a task has read whole is held against the file's digest.
"""

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition

from diskstream.arrow_rows import pack as packed_rows
from diskstream.batches import Layout, as_batch, most_rows
from diskstream.errors import ArchiveError, ArgumentError, ChangedError, NotAStoreError
from diskstream.ids import EntryID
from diskstream.plurals import number_of
from diskstream.spark import versions
from diskstream.spark.collecting import spare_the_collector
from diskstream.spark.jobs.manifest import FOLDER, ArchivedFile, Shape, by_stream, there
from diskstream.spark.jobs.part_reading import checked_part, rows_within, shown, verify_part
from diskstream.spark.jobs.parts import CORRUPT
from diskstream.spark.jobs.place import Place
from diskstream.spark.names import as_text
from diskstream.spark.options import ReadOptions
from diskstream.spark.partitions import pack, spread
from diskstream.spark.planning import bounds_of, check_bounds, enough_for_cores, is_chosen
from diskstream.spark.schemas import Plan
from diskstream.spark.tasks import report_skipped

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ArchivePartition", "archived_columns", "is_archive", "plan_archive", "read_archived"]

_IDS = ("id_ms", "id_seq", "ts")
# What less than a whole file can tell: `id_ms` and `ts` show damage of each other, for all else there is the digest.
_TIMED = frozenset({"stream", "id_ms", "ts"})


@dataclass(frozen=True)
class FileSlice:
    """The rows of a file between two IDs, both included."""

    file: ArchivedFile
    first: EntryID
    last: EntryID

    @property
    def entries(self) -> int:
        """At most so many."""
        return self.file.rows

    @property
    def size_bytes(self) -> int:
        """Of the file."""
        return self.file.size_bytes


class ArchivePartition(InputPartition):
    """What one task reads of an archive."""

    def __init__(self, path: str, shape: Shape, slices: tuple[FileSlice, ...]) -> None:
        super().__init__(None)
        self.path, self.shape, self.slices = path, shape, slices
        self.version = versions.VERSION

    def __repr__(self) -> str:
        entries = sum(each.entries for each in self.slices)
        return f"ArchivePartition({self.path}, {number_of(len(self.slices), 'file')}, {number_of(entries, 'entry')})"


def is_archive(path: str) -> bool:
    """Whether there is an archive at `path`."""
    return (Path(path) / FOLDER).is_dir() and not (Path(path) / "store.json").exists()


def archived_columns(path: str) -> tuple[tuple[str, str], ...]:
    """Fields and types of an archive of typed columns; none where it holds all fields.

    Raises:
        ArchiveError, NewerFormatError, StorageError: its manifest cannot be read.
    """
    return there(Place(path)).shape.columns


def plan_archive(options: ReadOptions, plan: Plan) -> list[ArchivePartition]:
    """The partitions of a batch read, one at least, as of now: files of this version stay for the archive's grace time.

    Raises:
        ArchiveError, NewerFormatError, StorageError: the manifest cannot be read, or a stream was never archived.
        ArgumentError: columns that the archive has not, or a bound for a stream that is not read.
    """
    place = Place(options.path)
    base = there(place)
    _check(options, plan, base.shape)
    base.check_has(options.streams, place.root)
    names = list(options.streams) or [name for name in sorted(base.streams) if is_chosen(name, options)]
    check_bounds(options, names)
    slices: list[FileSlice] = []
    files = by_stream(base.files)
    for name in names:
        last = base.streams[name].last
        if within := bounds_of(name, lambda last=last: last, options):  # type: ignore[misc]  # it takes nothing
            own = files.get(name, [])
            slices += [FileSlice(each, *within) for each in own if each.last >= within[0] and each.first <= within[1]]
    seen_from_here = str(Path(options.path).absolute())  # workers are started elsewhere
    runs = _partitioned(slices, options) or [()]
    return [ArchivePartition(seen_from_here, base.shape, run) for run in runs]


def _partitioned(slices: list[FileSlice], options: ReadOptions) -> list[tuple[FileSlice, ...]]:
    packed = pack(slices, options.max_bytes_per_partition, options.max_entries_per_partition)
    entries, size_bytes = sum(each.entries for each in slices), sum(each.size_bytes for each in slices)
    count = options.min_partitions or enough_for_cores(len(packed), entries, size_bytes)
    if count <= len(packed):
        return packed
    return spread(slices, count) if count < len(slices) else [(each,) for each in slices]


def _check(options: ReadOptions, plan: Plan, shape: Shape) -> None:
    what = f"the archive {options.path}"
    if plan.metadata:
        raise ArgumentError(
            f"{what} has no segments: leave out includeMetadata, and the columns segment, position and size_bytes"
        )
    if shape.layout == "fields":
        return
    kinds = dict(shape.columns)
    columns = ", ".join(f"{name} {kind}" for name, kind in shape.columns)
    if plan.layout not in ("ids", "typed"):
        raise ArgumentError(f"{what} holds typed columns, of which no fields can be made again: read {columns}")
    for name, kind in plan.columns:
        if kinds.get(name.decode()) != kind:
            raise ArgumentError(f"{what} has no column {name.decode()} {kind}: its columns are {columns}")
    if plan.layout == "typed" and options.duplicate_fields != "last":
        raise ArgumentError(f"{what} holds typed columns: of a repeated name it has the last value alone")


def read_archived(partition: ArchivePartition, plan: Plan, options: ReadOptions) -> "Iterator[pa.RecordBatch]":
    """The entries of a partition, as batches of the plan's schema, in order of streams and IDs.

    Raises:
        DiskstreamError: the driver has another version.
        NotAStoreError: the worker does not see the archive.
        ArchiveError: a file is damaged or gone, and is not to be skipped.
        ArgumentError: a repeated name or a value that does not parse, where that is an error.
    """
    versions.check(partition.version)
    place = Place(partition.path)
    if not place.there():
        raise NotAStoreError(
            partition.path, "it is not there: driver and workers must see the archive under the same path"
        )
    assemble = plan.assembler(large_ids=options.large_ids)
    scanned = _scanner(plan, partition.shape, options)
    rows = min(options.batch_rows, most_rows(plan.columns))
    for each in partition.slices:
        text = as_text(each.file.stream)
        with closing(_rows(place, each, partition.shape, plan, options)) as batches:
            for batch in batches:
                for start in range(0, batch.num_rows, rows):
                    yield assemble(text, scanned(batch.slice(start, rows)))
    spare_the_collector()


def _columns(each: FileSlice, plan: Plan) -> tuple[str, ...] | None:
    """Which columns of a file are read; None for all of them, as the digest is of these: where there is more to tell
    than times, and where a bound is among its rows, of which `id_seq` decides."""
    is_cut = each.file.first < each.first or each.last < each.file.last
    return _IDS if plan.layout == "ids" and _TIMED.issuperset(plan.names) and not is_cut else None


def _rows(
    place: Place, each: FileSlice, shape: Shape, plan: Plan, options: ReadOptions
) -> "Generator[pa.RecordBatch, None, None]":
    file = each.file
    try:
        if options.on_corruption == "skip":
            verify_part(place, file, shape)  # first, since what was given cannot be taken back
        with closing(checked_part(place, file, shape, columns=_columns(each, plan))) as batches:
            for batch in batches:
                yield rows_within(batch, each.first, each.last)
    except ChangedError as error:
        raise ArchiveError(
            f"{place.full(file.path)} was compacted since it was planned, and the grace time is over: load the "
            "DataFrame again, or make the view again"
        ) from error
    except ArchiveError as error:
        if options.on_corruption == "fail":
            raise
        report_skipped(file.stream, (max(file.first, each.first), min(file.last, each.last)), error, options)


def _scanner(plan: Plan, shape: Shape, options: ReadOptions) -> Any:
    """A function that makes of a file's batch what `Stream.scan` gives."""
    import pyarrow as pa

    def of(batch: "pa.RecordBatch", names: list[str], also: list[str]) -> "pa.RecordBatch":
        arrays = [batch.column(name) for name in names]
        ids = [batch.column(name).view(pa.uint64()) for name in _IDS[:2]]
        return pa.RecordBatch.from_arrays([*ids, batch.column("ts"), *arrays], names=[*_IDS, *also])

    if plan.layout == "ids":
        return lambda batch: of(batch, [], [])
    if shape.layout == "typed":
        fields = [name for name, _ in plan.columns]
        names, whole = [shown(name.decode()) for name in fields], len({*fields}) == len(shape.columns)

        def typed(batch: "pa.RecordBatch") -> "pa.RecordBatch":
            if options.mode == "FAILFAST":
                _check_parsed(batch, names)
            made = of(batch, [*names, CORRUPT], [*names, "bad"])
            last = made.num_columns - 1
            return made if whole else made.set_column(last, "bad", _of_fields(made.column(last), fields))

        return typed
    if plan.layout == "fields":
        return lambda batch: of(batch, ["fields"], ["fields"])
    strict = options.mode == "FAILFAST"
    how = Layout.of(
        plan.layout, plan.columns, options.duplicate_fields, strict=strict, exact=False, metadata=False, times=True
    )
    # Rows as they are stored, and those as any read of a store unpacks them: one decoder for both.
    return lambda batch: as_batch(how, how.native.batch([each.block() for each in packed_rows(batch, "columns")]), 0)


def _of_fields(bad: Any, fields: list[bytes]) -> Any:
    """What did not parse of these fields: an archive tells it of all that it has."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    told = bad.flatten()
    kept = pc.is_in(told.field("name"), value_set=pa.array(fields, pa.binary()))
    rows = np.asarray(pc.list_parent_indices(bad).filter(kept))
    counts = np.bincount(rows, minlength=len(bad))
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), told.filter(kept), mask=pa.array(counts == 0))


def _check_parsed(batch: "pa.RecordBatch", names: list[str]) -> None:
    """Looks whether any field of these did not parse.

    Raises:
        ArgumentError: one did not.
    """
    bad = batch.column(CORRUPT)
    for row in bad.is_valid().to_numpy(zero_copy_only=False).nonzero()[0].tolist():
        for each in bad[row].as_py():
            if each["name"].decode("utf-8", "backslashreplace") in names:
                mask = (1 << 64) - 1
                entry_id = EntryID(batch["id_ms"][row].as_py() & mask, batch["id_seq"][row].as_py() & mask)
                name = each["name"].decode(errors="backslashreplace")
                raise ArgumentError(f"entry {entry_id}: the field {name} does not parse: {each['value']!r}")
