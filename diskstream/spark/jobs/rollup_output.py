"""What comes of a rollup: a table, a Parquet file, entries of a stream."""

from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import diskstream
from diskstream.errors import ArgumentError, ChangedError, IDOrderError
from diskstream.ids import EntryID
from diskstream.spark.jobs.landing import landing
from diskstream.spark.jobs.rollup_settings import Settings
from diskstream.spark.jobs.sketch import quantiles
from diskstream.spark.jobs.windows import Aggregates, Rows
from diskstream.spark.names import as_text, value_as_text
from diskstream.stream import Stream

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Added", "add_windows", "as_table", "write_parquet"]

# Entries of one frame, about: a frame is atomic, and a window never spans two.
_FRAME = 4096


def as_table(rows: Rows, settings: Settings) -> "pa.Table":
    """The columns ``stream``, those to group by, ``window_start``, ``window_end``, ``entries``, and for each field
    ``_count``, ``_min``, ``_max``, ``_sum``, ``_mean`` and its quantiles; in order of windows, streams and groups.

    Where no value of a field was there its count is 0 and the rest null; where a double cannot hold their sum, this and
    the mean are.
    """
    import pyarrow as pa

    ranks = {key: rank for rank, key in enumerate(sorted(rows.keys, key=_in_order))}
    rank_of = np.array([ranks[key] for key in rows.keys], np.int64)
    order = np.lexsort((rank_of[rows.groups] if len(rows.groups) else rows.groups, rows.windows))
    keys = [rows.keys[at] for at in rows.groups[order]]
    length = settings.window_ms * 1000
    starts = rows.windows[order] * length
    columns: dict[str, Any] = {"stream": pa.array([as_text(key[0] or b"") for key in keys], pa.string())}
    for at, name in enumerate(settings.by, 1):
        columns[name] = pa.array([None if key[at] is None else value_as_text(key[at]) for key in keys], pa.string())
    for name, micros in (("window_start", starts), ("window_end", starts + length)):
        columns[name] = pa.array(micros, pa.int64()).cast(pa.timestamp("us", "UTC"))
    columns["entries"] = pa.array(rows.entries[order])
    outcomes = settings.outcomes()
    for each in rows.fields:
        for array in _outcomes(each, settings.quantiles, order):
            columns[next(outcomes)] = array
    return pa.table(columns)


def _in_order(key: tuple[bytes | None, ...]) -> tuple[tuple[bool, bytes], ...]:
    return tuple((part is not None, part or b"") for part in key)


def _outcomes(of: Aggregates, wanted: tuple[float, ...], order: Any) -> "Iterator[pa.Array]":
    import pyarrow as pa

    none = of.counts == 0
    yield pa.array(of.counts[order])
    with np.errstate(invalid="ignore", divide="ignore"):
        means = of.sums / of.counts
    unsummed = ~np.isfinite(of.sums) | none
    yield from (pa.array(each[order], mask=none[order]) for each in (of.least, of.greatest))
    yield from (pa.array(each[order], mask=unsummed[order]) for each in (of.sums, means))
    for each in quantiles(of.points, len(none), wanted):
        # A representative may lie a little beyond the values of its bucket that there are.
        yield pa.array(np.clip(each, of.least, of.greatest)[order], mask=none[order])


def write_parquet(table: "pa.Table", target: Path) -> None:
    """Writes a file (zstd) that is there whole or not at all.

    Raises:
        StorageError: the disk said no.
    """
    import pyarrow.parquet as pq

    with landing(target) as file:
        pq.write_table(table, file, compression="zstd")


class Added(NamedTuple):
    """What became of the rows: they were added, were there or came too late, wait for their window to be complete, or
    are of one of which `since_ms` leaves entries out, or a trim has taken some."""

    added: int
    skipped: int
    held_back: int
    cut: int


def add_windows(
    table: "pa.Table", settings: Settings, complete_before_ms: int, trimmed_ms: Mapping[str, int] | None = None
) -> Added:
    """Adds complete windows to the stream `settings.to_stream`, each row as the entry ``<window start in ms>-<n>``.

    Windows up to the stream's last ID are there already, or cannot be added any more: a stream only grows at its end.
    A window is added whole, in one frame, so that a run that was killed is finished by the next.

    Args:
        table: what `as_table` made.
        settings: those of the rollup.
        complete_before_ms: windows that end later may still grow.
        trimmed_ms: up to where streams were trimmed before they were read: what has begun by then is not whole.

    Raises:
        ArgumentError: the rollup has no stream to go to.
        ChangedError: others, as another run of it, added to that stream meanwhile; run again, it adds what is missing.
        ReadOnlyError, StorageError: see `diskstream.errors`.
    """
    if settings.to_stream is None:
        raise ArgumentError("there is no stream to add windows to")
    added = skipped = held_back = cut = 0
    rows: list[dict[str, str]] = []
    ids: list[EntryID] = []
    trimmed = trimmed_ms or {}
    with diskstream.open(settings.path, create=False) as store:
        stream = store.stream(settings.to_stream)
        last_ms = stream.last_id().ms if stream.exists() else -1
        for start_ms, entries in groupby(_entries(table), key=lambda each: each[0]):
            window = [fields for _, fields in entries]
            if start_ms <= last_ms or start_ms < 0:
                skipped += len(window)
                continue
            whole = [row for row in window if start_ms > trimmed.get(row["stream"], -1)]
            cut += len(window) - len(whole)
            window = whole
            if start_ms < (settings.since_ms or 0):
                cut += len(window)
            elif start_ms + settings.window_ms > complete_before_ms:
                held_back += len(window)
            else:
                first = 0 if start_ms else 1  # there is no ID 0-0
                ids += [EntryID(start_ms, first + at) for at in range(len(window))]
                rows += window
            if len(rows) >= _FRAME:
                added += _add(stream, rows, ids)
                rows, ids = [], []
        if rows:
            added += _add(stream, rows, ids)
    return Added(added, skipped, held_back, cut)


def _add(stream: Stream, rows: list[dict[str, str]], ids: list[EntryID]) -> int:
    try:
        return len(stream.add_many(rows, ids=ids, durable=True))
    except IDOrderError as error:  # they were above its last ID a moment ago
        hint = "run this again: windows that are there are passed over"
        raise ChangedError(f"stream {as_text(stream.name)}", "others added to it meanwhile", hint) from error


def _entries(table: "pa.Table") -> Iterator[tuple[int, dict[str, str]]]:
    """The start of each row's window in ms, and the row as fields of an entry; what is null is left out."""
    import pyarrow as pa

    micros = table.schema.get_field_index("window_start")
    plain = table.set_column(micros, "window_start", table.column(micros).cast(pa.int64())).drop_columns("window_end")
    for batch in plain.to_batches(_FRAME):
        for row in batch.to_pylist():
            start_ms = row.pop("window_start") // 1000
            yield start_ms, {name: _as_text(value) for name, value in row.items() if value is not None}


def _as_text(value: str | float) -> str:
    return value if isinstance(value, str) else repr(value)
