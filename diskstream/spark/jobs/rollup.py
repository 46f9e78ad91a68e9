"""The job `rollup`: streams into windows, aggregated inside the tasks and merged by the driver.

settings = Settings("/data/store", streams=(b"sensors",), window_ms=60_000, fields=("value",), by=("sensor",))
summary = run(session("rollup"), replace(settings, output=Path("minutes.parquet")))
"""

import time
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import diskstream
from diskstream.options import streams_within_descriptors
from diskstream.spark.jobs.landing import check_landing
from diskstream.spark.jobs.rollup_output import add_windows, as_table, write_parquet
from diskstream.spark.jobs.rollup_settings import QUANTILES, Settings
from diskstream.spark.jobs.run import run_tasks
from diskstream.spark.jobs.scanning import partitions
from diskstream.spark.jobs.window_task import roll_partition
from diskstream.spark.jobs.windows import Rows, Tally, unite
from diskstream.spark.names import as_text
from diskstream.spark.partitions import EntriesPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["QUANTILES", "Settings", "Summary", "roll_up", "run"]


@dataclass
class Summary:
    """What a rollup did, or would do.

    Attributes:
        streams, tasks: how many are read, by how many tasks.
        entries: entries that were planned for a dry run, else those that were in windows.
        untimed: entries that belong to no window, for want of a time.
        windows: different windows; `rows` counts a window once for each stream and group.
        fields: what became of the values of each field.
        seconds: how long it took, planning included.
        too_large: sums that a double cannot hold: they are null, and so are their means.
        added, skipped, held_back, cut: rows that went into the stream, were there already or came too late for it, wait
            for their window to be complete, and are of a window of which `since_ms` leaves entries out, or a trim has
            taken some.
        output, to_stream, chart: what was written; None what was not.
        dry_run: nothing was read and nothing written.
    """

    streams: int
    tasks: int
    entries: int
    untimed: int = 0
    windows: int = 0
    rows: int = 0
    fields: dict[str, Tally] = field(default_factory=dict)
    seconds: float = 0.0
    too_large: int = 0
    added: int | None = None
    skipped: int | None = None
    held_back: int | None = None
    cut: int | None = None
    output: str | None = None
    to_stream: bytes | None = None
    chart: str | None = None
    dry_run: bool = False

    def facts(self) -> dict[str, Any]:
        """All of it for JSON, the stream's name as bytes."""
        return asdict(self)


def run(spark: "SparkSession | None", settings: Settings) -> Summary:
    """Rolls up, and writes what the settings ask for.

    Args:
        spark: the session; a dry run needs none.
        settings: what to do.

    Raises:
        ArgumentError: settings that contradict each other, too many rows.
        ChangedError: others added to the stream that windows go to at the same time.
        NotAStoreError, NoSuchStreamError, CorruptionError: what cannot be read.
        MissingPackageError: a chart is wanted, but matplotlib is not installed.
        StorageError: the output cannot be written.
    """
    return roll_up(spark, settings)[1]


def roll_up(spark: "SparkSession | None", settings: Settings) -> "tuple[pa.Table | None, Summary]":
    """As `run`, and returns the rows too, which `spark.createDataFrame` takes: see `rollup_output.as_table`.

    Raises:
        As `run`.
    """
    settings.check()
    check_landing(settings.output, settings.chart)
    if settings.chart is not None and not settings.dry_run:
        from diskstream.spark.jobs.chart import check_matplotlib

        check_matplotlib()
    began, now_ms = time.perf_counter(), int(time.time() * 1000)
    with partitions(settings.reading(), without=settings.to_stream) as (names, planned):
        entries = sum(each.entries for partition in planned for each in partition.slices)
        summary = Summary(len(names), len(planned), entries, dry_run=settings.dry_run)
        if spark is None or settings.dry_run:
            return None, summary
        trimmed = _trimmed(settings, names, planned)
        work = partial(roll_partition, settings=settings)
        parts: list[Rows] = run_tasks(spark, "rolling up", planned, work, quiet=settings.quiet)
    rows = unite(parts, len(settings.fields))
    found = as_table(rows, settings)
    summary.entries, summary.untimed, summary.rows = int(rows.entries.sum()), rows.untimed, len(rows.windows)
    summary.windows = len(set(rows.windows.tolist()))
    summary.too_large = sum(int((~np.isfinite(each.sums)).sum()) for each in rows.fields)
    summary.fields = dict(zip(settings.fields, rows.tallies, strict=True))
    _write(found, settings, summary, (now_ms, trimmed))
    summary.seconds = time.perf_counter() - began
    return found, summary


def _trimmed(settings: Settings, names: list[bytes], planned: list[EntriesPartition]) -> dict[str, int]:
    """Up to where, in ms, each stream was trimmed in the moment that is read: a window that begins no later is not
    whole. Of a time of the entries' own their IDs say nothing."""
    found: dict[str, int] = {}
    if settings.to_stream is None or settings.time_field or not planned:
        return found
    with diskstream.open(planned[0].path, read_only=True, max_open_streams=streams_within_descriptors()) as moment:
        for name in names:
            trimmed = moment.stream(name).trimmed_to()
            if trimmed is not None:
                found[as_text(name)] = trimmed.ms
    return found


def _write(found: "pa.Table", settings: Settings, summary: Summary, told: tuple[int, dict[str, int]]) -> None:
    now_ms, trimmed = told
    if settings.output is not None:
        write_parquet(found, settings.output)
        summary.output = str(settings.output)
    if settings.to_stream is not None:
        # Before the lease was made: whoever adds entries now gives them later IDs. `until_ms` may end within a window.
        # With times of their own, entries that come after it may be older than it by the lateness.
        before = now_ms - settings.lateness_ms
        if settings.until_ms is not None:
            before = min(before, settings.until_ms - (settings.lateness_ms if settings.time_field else 0))
        added = add_windows(found, settings, before, trimmed)
        summary.added, summary.skipped, summary.held_back, summary.cut = added
        summary.to_stream = settings.to_stream
    if settings.chart is not None:
        from diskstream.spark.jobs.chart import draw

        draw(found, settings, settings.chart)
        summary.chart = str(settings.chart)
