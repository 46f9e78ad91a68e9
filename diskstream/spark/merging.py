"""The order in which staged batches are appended: by partition, or by given IDs, merged where batches overlap."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from diskstream.errors import ArgumentError, LimitError
from diskstream.ids import EntryID
from diskstream.spark.names import as_bytes, as_text
from diskstream.spark.rows import repeated_id, sort_order
from diskstream.spark.staged_reading import Staged, StagedFiles, frames_of, unpacked
from diskstream.spark.staging import StagedFile

if TYPE_CHECKING:
    import pyarrow as pa

    from diskstream.store import Store

__all__ = ["MAX_MERGED_ROWS", "Batch", "Batches", "ordered"]

# Rows of batches that overlap, which are sorted in memory.
MAX_MERGED_ROWS = 8_000_000
_MERGED_BATCH_ROWS = 8_192
# Well below the 2 GiB that a column of text or binary may have.
_FAR_BYTES = 1 << 30


@dataclass(frozen=True)
class _Place:
    """A batch of a staged file."""

    path: str
    number: int
    rows: int
    first: tuple[int, int]
    last: tuple[int, int]


@dataclass(frozen=True)
class Batch:
    """Rows that are appended at once: how many, and a function that reads them, packed or not."""

    rows: int
    read: Callable[[], Staged]


Batches = list[Batch]


def ordered(store: "Store", files: Iterable[StagedFile], *, given: bool, check: bool) -> list[tuple[str, Batches]]:
    """For each stream what is appended to it, batch by batch, each read when it is wanted. The same for the same files.

    Args:
        store: where the files are, and the streams.
        files: what was staged.
        given: whether the rows have IDs.
        check: with `given`, look whether the rows can follow what the streams hold.

    Raises:
        ArgumentError: with `check`, IDs that a stream has passed already; an ID that two rows have.
        LimitError: too many rows overlap to be sorted here.
    """
    staged = StagedFiles(store.path)
    by_spelling: dict[str, list[_Place]] = {}
    for file in sorted(files, key=lambda each: (each.partition, each.path)):
        if check and file.batches:
            staged.check_there(file.path)
        for number, batch in enumerate(file.batches):
            place = _Place(file.path, number, batch.rows, batch.first or (0, 0), batch.last or (0, 0))
            by_spelling.setdefault(batch.stream, []).append(place)
    # A manifest of before may spell one stream in two ways: its batches are numbered on, for the stream passes over
    # numbers that it has.
    by_stream: dict[str, list[_Place]] = {}
    for spelling, places in sorted(by_spelling.items()):
        by_stream.setdefault(as_text(as_bytes(spelling)), []).extend(places)
    found: list[tuple[str, Batches]] = []
    for stream, places in sorted(by_stream.items()):
        if check:
            store.stream(as_bytes(stream))  # refuses what cannot be a stream's name
        if given:
            places.sort(key=lambda place: (place.first, place.last, place.path, place.number))
            if check:
                _check_follows(store, stream, places[0].first)
            found.append((stream, list(_merged(staged, stream, places, check=check))))
        else:
            found.append((stream, [_batch(staged, place) for place in places]))
    return found


def _check_follows(store: "Store", stream: str, first: tuple[int, int]) -> None:
    last = store.stream(as_bytes(stream)).last_id()
    if EntryID(*first) <= last:
        raise ArgumentError(
            f"stream {stream} ends at {last}, but rows begin at {EntryID(*first)}: IDs must be above the last. "
            "Nothing was added; write to another stream, leave out what is there already, or use ids=auto"
        )


def _batch(staged: StagedFiles, place: _Place) -> Batch:
    return Batch(place.rows, partial(staged.batch, place.path, place.number, place.rows))


def _merged(staged: StagedFiles, stream: str, places: list[_Place], *, check: bool) -> Iterator[Batch]:
    """Batches in order of IDs; runs of them that overlap are sorted as one."""
    run: list[_Place] = []
    reached = (-1, -1)
    for place in places:
        if run and place.first > reached:
            yield from _of_run(staged, stream, run, check=check)
            run = []
        run.append(place)
        reached = max(reached, place.last)
    yield from _of_run(staged, stream, run, check=check)


def _of_run(staged: StagedFiles, stream: str, run: list[_Place], *, check: bool) -> Iterator[Batch]:
    if len(run) == 1:
        yield _batch(staged, run[0])
        return
    rows = sum(place.rows for place in run)
    if rows > MAX_MERGED_ROWS:
        raise LimitError(
            f"rows of stream {stream} whose partitions overlap in IDs, which the driver sorts (sort them before: "
            "df.repartitionByRange('id_ms', 'id_seq'))",
            MAX_MERGED_ROWS,
            rows,
        )
    sorted_run = _Sorted(staged, stream, run)
    if check:
        sorted_run.check()
    for start in range(0, rows, _MERGED_BATCH_ROWS):
        yield Batch(min(_MERGED_BATCH_ROWS, rows - start), partial(sorted_run.slice, start))


class _Sorted:
    """Overlapping batches, in order when the first of their rows are wanted, and let go with the last.

    Arrow's offsets of text and binary reach as far as 2 GiB, and what is taken from several batches is one column: so
    it is taken window by window, and where even one is large, with offsets that reach further.
    """

    def __init__(self, staged: StagedFiles, stream: str, run: list[_Place]) -> None:
        self._staged, self._stream, self._run = staged, stream, run
        self._rows = sum(place.rows for place in run)
        self._batches: list[pa.RecordBatch] = []
        self._order: Any = None
        self._ends: Any = None  # of each batch, the number of rows up to there

    def check(self) -> None:
        """Looks at the IDs alone.

        Raises:
            ArgumentError: two rows have one ID.
        """
        self._in_order(self._read(), ": nothing was added")

    def _read(self) -> "list[pa.RecordBatch]":
        found = (self._staged.batch(place.path, place.number, place.rows) for place in self._run)
        return [unpacked(frames_of(each, "columns")) for each in found]  # of one schema, whoever staged them

    def _in_order(self, batches: "list[pa.RecordBatch]", more: str = "") -> Any:
        import numpy as np
        import pyarrow as pa

        ids = pa.Table.from_batches([batch.select(["id_ms", "id_seq"]) for batch in batches])
        order = sort_order(ids)
        if order is not None and sort_order(taken := ids.take(order)) is not None:
            raise ArgumentError(f"two rows for stream {self._stream} have one ID, {repeated_id(taken)}{more}")
        return np.arange(self._rows) if order is None else order

    def slice(self, start: int) -> "pa.RecordBatch":
        """Some rows from `start` on.

        Raises:
            ArgumentError: two rows have one ID.
        """
        import numpy as np

        if not self._batches:
            batches = self._read()
            self._order = self._in_order(batches)
            # What is small is made one, from which is taken faster.
            self._batches = [_one(batches)] if sum(batch.nbytes for batch in batches) < _FAR_BYTES else batches
            self._ends = np.cumsum([batch.num_rows for batch in self._batches])
        part = self._taken(self._order[start : start + _MERGED_BATCH_ROWS])
        if start + _MERGED_BATCH_ROWS >= self._rows:
            self._batches, self._order, self._ends = [], None, None
        return part

    def _taken(self, rows: Any) -> "pa.RecordBatch":
        import numpy as np

        within = np.searchsorted(self._ends, rows, side="right")
        parts, places = [], []
        for number in np.unique(within):
            batch = self._batches[number]
            at = np.flatnonzero(within == number)
            parts.append(batch.take(rows[at] - (self._ends[number] - batch.num_rows)))
            places.append(at)
        return parts[0] if len(parts) == 1 else _one(parts).take(np.argsort(np.concatenate(places)))


def _one(batches: "list[pa.RecordBatch]") -> "pa.RecordBatch":
    """Batches as one, of larger types where they need them."""
    import pyarrow as pa

    table = pa.Table.from_batches(batches)
    if table.nbytes >= _FAR_BYTES:
        table = table.cast(pa.schema([field.with_type(_far(field.type)) for field in table.schema]))
    return table.combine_chunks().to_batches()[0]


def _far(kind: Any) -> Any:
    """A type with offsets of 64 bits for that of a column, or of what is in its lists."""
    import pyarrow as pa

    types = pa.types
    if types.is_binary(kind):
        return pa.large_binary()
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_far(kind.value_type)))
    if types.is_struct(kind):
        return pa.struct([field.with_type(_far(field.type)) for field in kind])
    return kind
