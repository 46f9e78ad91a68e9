"""A rollup's task: a partition, scanned natively by columns, as aggregates of windows and groups."""

from typing import TYPE_CHECKING, Any

import numpy as np

from diskstream.spark.jobs.rollup_settings import Settings
from diskstream.spark.jobs.scanning import scanned
from diskstream.spark.jobs.windows import Key, Rows, Tally, aggregate, unite
from diskstream.spark.partitions import EntriesPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["Roller", "roll_partition"]

_FIRST_FIELD = 3  # behind id_ms, id_seq and ts
# A timestamp in µs ends there, some 294 thousand years from now, and begins as long ago.
_LAST_US, _FIRST_US = (1 << 63) - 1, -(1 << 63)
# Points are 24 bytes, so that what is held until then is some ten megabytes; larger sorts do not get cheaper.
_HELD = 1 << 19


def roll_partition(partition: EntriesPartition, settings: Settings) -> Rows:
    """Scans a partition and aggregates it.

    Raises:
        ArgumentError: too many windows and groups.
        NotAStoreError, CorruptionError: see `diskstream.spark.jobs.scanning.scanned`.
    """
    roller = Roller(settings)
    for stream, batch in scanned(partition, "typed", settings.columns()):
        roller.add(stream, batch)
    return roller.result()


class Roller:
    """Takes batches and holds little of them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._places: dict[Key, int] = {}
        self._held: list[Rows] = []
        self._weight = 0
        self._tallies = [Tally() for _ in settings.fields]
        self._untimed = 0

    def add(self, stream: bytes, batch: "pa.RecordBatch") -> None:
        """Aggregates a batch of layout ``typed`` with the columns of the settings."""
        settings = self._settings
        windows, timed = self._windows(batch)
        columns = []
        for at, _ in enumerate(settings.fields):
            column = batch.column(_FIRST_FIELD + at)
            values = column.to_numpy(zero_copy_only=False)  # NaN where it is null
            self._count(at, values, column.null_count, batch)
            columns.append(values if timed is None else values[timed])
        if not len(windows):
            return
        groups = self._groups(stream, batch, timed)
        rows = aggregate(windows, groups, columns, points=bool(settings.quantiles))
        self._held.append(rows)
        self._weight += len(rows.windows) + sum(len(each.points.values) for each in rows.fields)
        if self._weight > _HELD:
            self._unite()

    def result(self) -> Rows:
        """All that was added."""
        self._unite()
        rows = self._held[0]
        rows.tallies, rows.untimed = self._tallies, self._untimed
        return rows

    def _unite(self) -> None:
        for each in self._held:
            each.keys = list(self._places)
        self._held = [unite(self._held, len(self._settings.fields))]
        # What is left does not shrink any more: the next time comes when as much again has been added.
        self._weight = 0

    def _windows(self, batch: "pa.RecordBatch") -> "tuple[Ints, NDArray[np.bool_] | None]":
        """The windows of the entries that have a time; which they are, unless all.

        A window that a timestamp cannot hold the start and the end of is none.
        """
        length = self._settings.window_ms
        first, last = -(-_FIRST_US // (length * 1000)), _LAST_US // (length * 1000) - 1
        if not self._settings.time_field:
            ms, last_ms = batch.column(0).to_numpy(), (last + 1) * length - 1
            timed = None if not len(ms) or ms[-1] <= last_ms else ms <= last_ms  # they ascend
            kept = ms if timed is None else ms[timed]
            self._untimed += len(ms) - len(kept)
            return (kept // np.uint64(length)).astype(np.int64), timed
        column = batch.column(batch.num_columns - 2)  # before `bad`
        micros, timed = column.view("int64"), None
        if column.null_count:
            micros, timed = micros.drop_null(), np.array(column.is_valid())
        windows = micros.to_numpy() // (length * 1000)
        if len(windows) and (windows.min() < first or windows.max() > last):
            held = (windows >= first) & (windows <= last)
            there = np.arange(batch.num_rows) if timed is None else np.flatnonzero(timed)
            windows, timed = windows[held], np.zeros(batch.num_rows, bool)
            timed[there[held]] = True
        self._untimed += batch.num_rows - len(windows)
        return windows, timed

    def _count(self, at: int, values: "Floats", nulls: int, batch: "pa.RecordBatch") -> None:
        tally = self._tallies[at]
        finite = int(np.isfinite(values).sum())
        bad = 0
        column = batch.column(batch.num_columns - 1)
        if nulls and column.null_count < batch.num_rows:
            names = column.flatten().field("name").to_pylist()
            bad = names.count(self._settings.fields[at].encode())
        tally.values += finite
        tally.missing += nulls - bad
        tally.unparseable += len(values) - finite - nulls + bad

    def _groups(self, stream: bytes, batch: "pa.RecordBatch", timed: Any) -> "Ints | int":
        """The place of each entry's key. Keys are looked up once for each that is in the batch, not once an entry."""
        if not self._settings.by:
            return self._places.setdefault((stream,), len(self._places))
        first = _FIRST_FIELD + len(self._settings.fields)
        codes = np.zeros(batch.num_rows, np.int64)
        dictionaries: list[list[bytes | None]] = []
        for at in range(first, first + len(self._settings.by)):
            encoded = batch.column(at).dictionary_encode(null_encoding="encode")
            values = encoded.dictionary.to_pylist()
            dictionaries.append(values)
            codes = codes * len(values) + encoded.indices.to_numpy()
            # Numbered anew: products of several dictionaries would outgrow an integer.
            present, codes = np.unique(codes, return_inverse=True)
            dictionaries = [_combinations(dictionaries, present)]
        keys: list[Any] = dictionaries[0]
        places = np.array([self._places.setdefault((stream, *key), len(self._places)) for key in keys], np.int64)
        found: Ints = places[codes]
        return found if timed is None else found[timed]


def _combinations(dictionaries: list[Any], present: "Ints") -> list[Any]:
    """The keys behind numbers that were made of a place in each dictionary; the first holds keys already."""
    if len(dictionaries) == 1:
        return [(dictionaries[0][code],) for code in present]
    before, last = dictionaries
    return [(*before[code // len(last)], last[code % len(last)]) for code in present]
