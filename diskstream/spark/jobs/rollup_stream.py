"""The rollup that goes on: windows of a live stream, each written once when the watermark has passed its end."""

import json
import re
import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from diskstream.checked_json import checked, with_check
from diskstream.errors import ArgumentError, StorageError
from diskstream.plurals import number_of
from diskstream.spark.jobs.connect import query_of
from diskstream.spark.jobs.rollup_settings import Settings
from diskstream.spark.names import as_text, value_as_text
from diskstream.spark.schemas import PREFIX
from diskstream.system_calls import named, read_small

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamReader

__all__ = ["rollup_stream", "source", "windows", "write_batch"]

# Of Spark's percentile_approx: ranks are off by 1/10,000 of a window's values at most.
_ACCURACY = 10_000
_QUERY, _SETTINGS, _FILE = "_query", "_settings", "windows.parquet"
_MAX_SETTINGS_BYTES = 16 << 20
_BATCH = re.compile(r"batch=(\d+)")


def rollup_stream(
    spark: "SparkSession",
    settings: Settings,
    output: Path,
    *,
    checkpoint: Path,
    frame: "DataFrame | None" = None,
    trigger_s: float | None = None,
) -> "StreamingQuery":
    """Starts a query that writes each window to Parquet as soon as it is complete.

    A batch of the query is one folder ``batch=<number>`` of `output`: a batch that is repeated after a failure finds
    its folder and writes nothing, so that with the same checkpoint each window is written exactly once. The columns are
    those of the batch job; quantiles come from Spark's `percentile_approx`. Entries that come later than the
    settings' `lateness_ms` behind the newest may be left out, as Spark's watermarks go: the query's progress counts
    them (``numRowsDroppedByWatermark`` of its ``stateOperators``), those of one window and group in a batch as one.

    Args:
        spark: a session that knows the format ``diskstream``.
        settings: what to roll up; of `output`, `to_stream`, `chart`, `since_ms` and `until_ms` none is heeded.
        output: directory to write to.
        checkpoint: directory of the query's state; another query must not use it, nor this one another `output`. A
            query with another checkpoint is refused for this `output`, and fails at its first batch; so does this one
            with an older state of it. With another window, other fields or other groups it is refused at once.
        frame: read from this streaming frame instead, of columns ``stream``, ``ts``, and the fields.
        trigger_s: seconds between batches; 0: as soon as the last one is done; None: once all that is there, then end.

    Raises:
        ArgumentError: settings that contradict each other, or those that the query was begun with; `output` is a file.
        StorageError: the folder of `output` cannot be made, or what was noted of the settings is damaged.
    """
    from diskstream.spark.jobs.landing import make_landing

    settings.check()
    # As seen from here: a server's processes were started elsewhere.
    output, checkpoint = output.absolute(), checkpoint.absolute()
    _check_goes_on(output, settings)
    if frame is None:
        frame = source(spark.readStream, settings)
    query = windows(frame, settings).writeStream.outputMode("append").option("checkpointLocation", str(checkpoint))

    def write(batch: "DataFrame", batch_id: int) -> None:
        write_batch(batch, batch_id, output, query=query_of(batch, checkpoint), settings=settings)

    make_landing(output)
    writer = query.foreachBatch(write)
    if trigger_s is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{trigger_s:g} seconds").start()


def write_batch(
    batch: "DataFrame", batch_id: int, output: Path, *, query: str, settings: Settings | None = None
) -> bool:
    """Writes a batch as ``batch=<number>/windows.parquet``, unless that is there or it is empty; returns whether.

    The folder gets its name when its file is complete and flushed: a reader sees all of a batch or nothing. The numbers
    of batches mean something to their query only: the file ``_query`` holds its ID.

    Args:
        batch: the windows.
        batch_id: its number.
        output: directory to write to.
        query: ID of the query; empty if it is not known.
        settings: what the query was begun with, to be noted where that has not been done.

    Raises:
        ArgumentError: `output` is another query's, or has windows of a later batch, or fewer of this one.
    """
    import pyarrow as pa

    from diskstream.spark.jobs.landing import flush_folder
    from diskstream.spark.jobs.rollup_output import write_parquet

    _claim(output, query)
    if settings is not None:
        _note_settings(output, settings)
    target = output / f"batch={batch_id}"
    # One batch at a time: what has a temporary name was left behind by a driver that died.
    for left in named(output, ".tmp"):
        if left.name.startswith(".batch="):
            shutil.rmtree(left, ignore_errors=True)
    table = batch.toArrow()
    if not table.num_rows:  # most batches complete no window
        return False
    if query:
        _check_last(output, batch_id, table.num_rows)
    if target.exists():
        return False
    table = _shown(table)
    for name in ("window_start", "window_end"):  # in the session's time zone; the batch job's are in UTC
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, table.column(at).cast(pa.timestamp("us", "UTC")))
    temporary = output / f".batch={batch_id}.{secrets.token_hex(6)}.tmp"
    temporary.mkdir()
    try:
        write_parquet(table, temporary / _FILE)
        temporary.rename(target)
        flush_folder(output)  # the query's checkpoint must not outlive what it says was written
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return True


def _shown(table: "pa.Table") -> "pa.Table":
    """Bytes as the batch job shows them."""
    import pyarrow as pa

    for at, column in enumerate(table.schema):
        if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
            values = table.column(at).to_pylist()
            texts = [None if value is None else value_as_text(value) for value in values]
            table = table.set_column(at, column.name, pa.array(texts, pa.string()))
    return table


def _claim(output: Path, query: str) -> None:
    from diskstream.spark.jobs.landing import landing

    if not query:
        return
    try:
        owner = (output / _QUERY).read_text(encoding="utf-8")
    except FileNotFoundError:  # a new one, or of before this was noted
        with landing(output / _QUERY) as file:
            file.write(query.encode())
        return
    if owner != query:
        raise ArgumentError(
            f"{output} has windows of the query {owner}, but this is {query}: nothing was written. Batches of a query "
            "with a new checkpoint begin at 0 again, so it wants another output"
        )


def _begun_with(settings: Settings) -> dict[str, object]:
    """What open windows in the checkpoint are of. Spark knows their columns by number and type alone: with another
    field, or another length of a window, it adds what comes to what is there of the old one."""
    return {
        "window_ms": settings.window_ms,
        "fields": list(settings.fields),
        "by": list(settings.by),
        "time_field": settings.time_field,
    }


def _note_settings(output: Path, settings: Settings) -> None:
    """Of the first batch, or the first one of a version that notes them."""
    from diskstream.spark.jobs.landing import landing

    if not (output / _SETTINGS).exists():
        with landing(output / _SETTINGS) as file:
            file.write(json.dumps(with_check(_begun_with(settings))).encode())


def _check_goes_on(output: Path, settings: Settings) -> None:
    """Looks whether a query has the settings that it was begun with.

    Raises:
        ArgumentError: it has others.
        StorageError: what was noted of them is damaged.
    """
    file = output / _SETTINGS
    if not file.is_file():
        return
    try:
        before = checked(read_small(file, _MAX_SETTINGS_BYTES))
    except (ValueError, RecursionError) as error:
        what = f"it is damaged ({error}): where the query has the settings that it was begun with, remove this file"
        raise StorageError(str(file), "read", 5, what) from error
    for what, now in _begun_with(settings).items():
        if before.get(what, now) != now:
            raise ArgumentError(
                f"{output} has windows of a query with {what}={before[what]!r}, and this is {now!r}: entries in "
                "windows that are still open would be counted among others; begin with a new checkpoint and another "
                "output"
            )


def _check_last(output: Path, batch_id: int, windows: int) -> None:
    """Looks whether a batch is the next one, or the last one again, which is all that a query repeats. With an older
    checkpoint it makes batches of these numbers anew, of other windows, and what is there would be taken for them.

    Raises:
        ArgumentError: it is not.
    """
    last = max((int(found[1]) for each in named(output, "") if (found := _BATCH.fullmatch(each.name))), default=-1)
    there = windows
    if last == batch_id:
        import pyarrow as pa
        import pyarrow.parquet as pq

        with suppress(OSError, pa.ArrowInvalid):  # as it is, it is passed over
            there = pq.read_metadata(output / f"batch={batch_id}" / _FILE).num_rows
    if last > batch_id or there < windows:
        what = f"batch {last}" if last > batch_id else f"batch {batch_id} with {number_of(there, 'window')}"
        raise ArgumentError(
            f"{output} has {what}, but the query comes with batch {batch_id} and {number_of(windows, 'window')}: its "
            "checkpoint is an older one that was put back, or a copy; nothing was written: begin with a new checkpoint "
            "and another output"
        )


def source(reader: "DataFrameReader | DataStreamReader", settings: Settings) -> "DataFrame":
    """The streams of the settings, as the columns that `windows` wants.

    Args:
        reader: `spark.readStream`, or `spark.read` for what is there now.
        settings: what to roll up.
    """
    from pyspark.sql import types as st

    path = settings.path if settings.path.startswith("file:") else str(Path(settings.path).absolute())
    fields = [st.StructField("stream", st.StringType()), st.StructField("ts", st.TimestampType())]
    fields += [st.StructField(f"{PREFIX}{name}", st.DoubleType()) for name in settings.fields]
    # As bytes, and text when they are written: as text, all values that are none would be null, and one group.
    fields += [st.StructField(f"{PREFIX}{name}", st.BinaryType()) for name in settings.by]
    if settings.time_field:
        fields.append(st.StructField(f"{PREFIX}{settings.time_field}", st.TimestampType()))
    reader = reader.format("diskstream").schema(st.StructType(fields)).option("path", path)
    reader = reader.option("startingIds", "earliest")
    if settings.streams:
        reader = reader.option("streams", json.dumps([as_text(name) for name in settings.streams]))
    elif settings.pattern:
        reader = reader.option("streamPattern", settings.pattern)
    return reader.load()


def windows(frame: "DataFrame", settings: Settings) -> "DataFrame":
    """A frame of ``stream``, ``ts`` and the fields as windows, with the columns of the batch job.

    Values to group by are what they are in the frame: `write_batch` makes text of bytes. A field may be called anything
    (``ts``, ``window``, as another but for its case), since columns have names of their own until the windows are made.

    Args:
        frame: its columns ``field:<name>`` are fields whatever they are called, as in the source's schema.
        settings: what to roll up.

    Raises:
        ArgumentError: the frame lacks a column, or Spark would not know which of two is meant.
    """
    from pyspark.sql import functions as sf

    keys = [f"by{at}" for at in range(len(settings.by))]
    wanted = {"stream": _place(frame, "stream")}
    wanted["time"] = _place(frame, f"{PREFIX}{settings.time_field}") if settings.time_field else _place(frame, "ts")
    for prefix, names in (("field", settings.fields), ("by", settings.by)):
        wanted |= {f"{prefix}{at}": _place(frame, f"{PREFIX}{name}") for at, name in enumerate(names)}
    # By its place a column is found whatever others are called; Spark takes names that differ in case for the same.
    placed = frame.toDF(*(f"at{at}" for at in range(len(frame.columns))))
    chosen = placed.select(*(sf.col(f"at{at}").alias(name) for name, at in wanted.items()))
    # A window farther on Spark counts in numbers that then overflow, which ends the query: such a time is none.
    length_us = settings.window_ms * 1000
    held = sf.unix_micros(sf.col("time")).between(length_us - (1 << 63), (1 << 63) - 1 - length_us)
    chosen = chosen.withColumn("time", sf.when(held, sf.col("time")))
    timed = chosen.withWatermark("time", f"{settings.lateness_ms} milliseconds")
    grouped = timed.groupBy(sf.window(sf.col("time"), f"{settings.window_ms} milliseconds"), "stream", *keys)
    outcomes = _outcomes(settings)
    made = grouped.agg(sf.count(sf.lit(1)).alias("entries"), *outcomes.values())
    shown = made.select("stream", *keys, "window.start", "window.end", "entries", *outcomes)
    return shown.toDF("stream", *settings.by, "window_start", "window_end", "entries", *settings.outcomes())


def _place(frame: "DataFrame", name: str) -> int:
    """Where a frame has a column; a field also under its bare name, and in another case where that is clear."""
    columns, bare = frame.columns, name.removeprefix(PREFIX)
    for each in dict.fromkeys((name, bare)):
        if columns.count(each) == 1:
            return columns.index(each)
    alike = [at for at, column in enumerate(columns) if column.lower() == bare.lower()]
    if len(alike) == 1:
        return alike[0]
    raise ArgumentError(f"a rollup wants one column {bare} in its frame, which has {', '.join(columns)}")


def _outcomes(settings: Settings) -> "dict[str, Column]":
    """The aggregates in the order of `Settings.outcomes`; values that are not finite count as none, and are none."""
    from pyspark.sql import functions as sf

    found: list[Column] = []

    def finite(value: "Column") -> "Column":
        return sf.when(~sf.isnan(value) & ~value.isin(*infinite), value)

    infinite = [sf.lit(float("inf")), sf.lit(float("-inf"))]
    for at in range(len(settings.fields)):
        value = finite(sf.col(f"field{at}"))
        found += [sf.count(value), sf.min(value), sf.max(value), *map(finite, (sf.sum(value), sf.avg(value)))]
        found += [sf.percentile_approx(value, quantile, _ACCURACY) for quantile in settings.quantiles]
    return {name: each.alias(name) for name, each in ((f"outcome{at}", each) for at, each in enumerate(found))}
