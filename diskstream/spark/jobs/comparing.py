"""Tasks of the job `reconcile`: digests by stream and day of either side, and, where they differ, row against row."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from diskstream.errors import ArchiveError
from diskstream.ids import EntryID
from diskstream.spark.jobs.digest import Digest, digest_of, row_hashes
from diskstream.spark.jobs.folders import DAY_MS, cut
from diskstream.spark.jobs.manifest import ArchivedFile, Shape
from diskstream.spark.jobs.part_reading import read_part, rows_within
from diskstream.spark.jobs.parts import archived
from diskstream.spark.jobs.place import Place
from diskstream.spark.kept_stores import STORES
from diskstream.spark.losses import RUN_AGAIN, whole
from diskstream.spark.partitions import Slice
from diskstream.stream import Stream

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DayTask", "Differing", "Side", "SideTask", "compare_rows", "sum_side"]

_Range = tuple[EntryID, EntryID]
_BATCH_ROWS: Final = 16_384
_METADATA: Final = 3  # columns of `Stream.scan`: segment, position and size_bytes
_ROW: Final = np.dtype(
    [("ms", np.uint64), ("seq", np.uint64), ("a", np.uint64), ("b", np.uint64), ("segment", np.int64)]
)
_Rows = npt.NDArray[Any]


@dataclass(frozen=True)
class SideTask:
    """What one task sums: either slices of the lease, or a file of the archive, of which `within` is compared; of one
    without any, as the store has nothing of it any more, the file's own digest is looked at."""

    store: str
    archive: str
    shape: Shape
    slices: tuple[Slice, ...] = ()
    file: ArchivedFile | None = None
    within: tuple[tuple[int, int], tuple[int, int]] | None = None

    @property
    def size_bytes(self) -> int:
        """About how much it reads."""
        return sum(each.size_bytes for each in self.slices) + (self.file.size_bytes if self.file else 0)


@dataclass(frozen=True)
class Side:
    """Digests by stream and day (since 1970); and what is wrong with the file itself."""

    days: dict[tuple[bytes, int], Digest]
    damage: str = ""


@dataclass(frozen=True)
class DayTask:
    """What one task compares: a range of a stream, as the lease and as some files have it."""

    store: str
    archive: str
    shape: Shape
    stream: bytes
    first: tuple[int, int]
    last: tuple[int, int]
    files: tuple[ArchivedFile, ...]


@dataclass(frozen=True)
class Differing:
    """Entries that one side only has, or that differ.

    Attributes:
        kind: ``missing`` from the archive, ``extra`` in it, or ``different``.
        segment: of the store; None of what only the archive has.
        entries: how many.
        first, last: their IDs go from here to there.
    """

    kind: str
    segment: int | None
    entries: int
    first: EntryID
    last: EntryID


def sum_side(task: SideTask) -> Side:
    """Digests of one side.

    Raises:
        CorruptionError: the store cannot be read.
        DataLossError: a store that can have no lease has lost what was planned.
        StorageError: the disk says no.
    """
    days: dict[tuple[bytes, int], Digest] = {}
    damage = ""
    if task.file is None:
        for each in task.slices:
            scanned = _scanned(task.store, task.shape, each.stream, each.range, identity=each.identity)
            _add(days, each.stream, map(archived, scanned))
    else:
        try:
            damage = _sum_file(days, task, task.file)
        except ArchiveError as error:
            damage = str(error)
    return Side(days, damage)


def _sum_file(days: dict[tuple[bytes, int], Digest], task: SideTask, file: ArchivedFile) -> str:
    place, whole = Place(task.archive), Digest()
    for batch in read_part(place, file.path, task.shape, among=True):
        whole += digest_of([batch])
        if task.within is not None:
            _add(days, file.stream, [rows_within(batch, *(EntryID(*each) for each in task.within))])
    if whole == file.digest:
        return ""
    return f"{place.full(file.path)} is damaged: its digest is {whole}, not {file.digest}"


def _add(
    days: dict[tuple[bytes, int], Digest], stream: bytes, batches: "Iterator[pa.RecordBatch] | list[pa.RecordBatch]"
) -> None:
    for batch in batches:
        if batch.num_rows:
            for ms, part in cut(batch, hourly=False):
                key = stream, ms // DAY_MS
                days[key] = days.get(key, Digest()) + digest_of([part])


def _scanned(
    store: str, shape: Shape, stream: bytes, within: _Range, *, identity: bytes | None = None, metadata: bool = False
) -> "Iterator[pa.RecordBatch]":
    if not Path(store).exists():
        STORES.forget()
        raise ArchiveError(f"the lease {store} is gone: driver and workers must see the store under the same path")

    def read(found: Stream) -> "Iterator[pa.RecordBatch]":
        return found.scan(
            *within, layout=shape.layout, columns=shape.columns, metadata=metadata, batch_rows=_BATCH_ROWS
        )

    with STORES.reading(store) as opened:
        yield from whole(opened, stream, within, read, identity=identity, advice=RUN_AGAIN)


def _with_segments(batch: "pa.RecordBatch") -> _Rows:
    """The rows of a scan with metadata. That stands before the columns, which may have the same names."""
    import pyarrow as pa

    at = batch.schema.names.index("segment")
    kept = [number for number in range(batch.num_columns) if not at <= number < at + _METADATA]
    names, arrays = [batch.schema.names[number] for number in kept], [batch.column(number) for number in kept]
    rows = _as_rows(archived(pa.RecordBatch.from_arrays(arrays, names=names)))
    rows["segment"] = np.asarray(batch.column(at))
    return rows


def compare_rows(task: DayTask) -> list[Differing]:
    """Row against row, by ID and hash. A file that cannot be read counts as far as it can.

    It holds 40 bytes for each row of the range, on either side.

    Raises:
        CorruptionError: the store cannot be read.
        DataLossError: a store that can have no lease has lost some of the range.
        StorageError: the disk says no.
    """
    within = EntryID(*task.first), EntryID(*task.last)
    scanned = _scanned(task.store, task.shape, task.stream, within, metadata=True)
    stored = _joined([_with_segments(batch) for batch in scanned])
    place, parts = Place(task.archive), list[_Rows]()
    for file in task.files:
        try:
            with closing(read_part(place, file.path, task.shape)) as batches:  # type: ignore[type-var]  # it is a generator
                parts.extend(_as_rows(rows_within(batch, *within)) for batch in batches)
        except ArchiveError:
            continue  # the file is a finding of its own
    kept = _joined(parts)
    _, of_store, of_archive = np.intersect1d(stored[["ms", "seq"]], kept[["ms", "seq"]], return_indices=True)
    changed = (stored["a"][of_store] != kept["a"][of_archive]) | (stored["b"][of_store] != kept["b"][of_archive])
    found = [
        *_by_segment("missing", np.delete(stored, of_store)),
        *_by_segment("different", stored[of_store[changed]]),
    ]
    extra = np.sort(np.delete(kept, of_archive), order=["ms", "seq"])
    if len(extra):
        found.append(Differing("extra", None, len(extra), _id(extra[0]), _id(extra[-1])))
    return found


def _by_segment(kind: str, rows: _Rows) -> list[Differing]:
    found = []
    for segment in np.unique(rows["segment"]).tolist():
        own = np.sort(rows[rows["segment"] == segment], order=["ms", "seq"])
        found.append(Differing(kind, segment, len(own), _id(own[0]), _id(own[-1])))
    return found


def _id(row: Any) -> EntryID:
    return EntryID(int(row["ms"]), int(row["seq"]))


def _joined(parts: list[_Rows]) -> _Rows:
    return np.concatenate(parts) if parts else np.empty(0, _ROW)


def _as_rows(batch: "pa.RecordBatch") -> _Rows:
    rows = np.zeros(batch.num_rows, _ROW)
    if not batch.num_rows:
        return rows
    rows["ms"], rows["seq"] = (np.asarray(batch.column(name)).view(np.uint64) for name in ("id_ms", "id_seq"))
    rows["a"], rows["b"] = row_hashes(batch)
    return rows
