"""The end of the demo: Spark reads a stream while it is written, and rolls up, archives, compares and plots it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

import diskstream
from diskstream.cli.demo.phases import Stage
from diskstream.cli.demo.producer import produce
from diskstream.cli.demo.workers import PATIENCE_S
from diskstream.cli.failure import Failure
from diskstream.cli.telemetry import MEMORY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

READ: Final = MEMORY.name
FIELDS: Final = ("MemFree", "AnonPages")
_TABLE: Final = "diskstream_demo"
_LIVE_S: Final = 3.0
"""How long Spark reads while the stream is fed, at least."""


@dataclass(slots=True)
class Piped:
    """What came out of the pipeline."""

    stream: str
    entries: int
    live: int  # of these, those that Spark had rolled up while the stream was still fed
    seconds_of_time: int  # windows of a second, of the streaming query
    windows: int  # of the rollup
    files: int  # of the archive
    archived: int
    compared: int
    chart: str
    rollup: str
    took_s: float


def what_is_missing() -> str | None:
    """Why there can be no Spark here; None where there is nothing against it."""
    missing = [name for name in ("pyspark", "pyarrow", "pandas", "matplotlib") if not importlib.util.find_spec(name)]
    if missing:
        return f"{', '.join(missing)} not installed (pip install 'diskstream[spark]')"
    home = os.environ.get("JAVA_HOME")
    if not (home and (Path(home) / "bin" / "java").exists()) and shutil.which("java") is None:
        return "there is no Java (17 or later)"
    return None


class PipelineStage(Stage):
    """Where Spark works. One more producer feeds the stream meanwhile."""

    def pipe(self, folder: Path) -> Piped:
        """Reads the stream live, then rolls it up, archives it and compares the archive with it.

        `folder` takes the archive, the rollup, its chart and the query's checkpoint; it is emptied first.
        """
        from diskstream.spark.jobs.session import session

        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        began = monotonic()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        local = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false"}
        settings = {**local, "spark.sql.shuffle.partitions": "2", "spark.local.dir": str(folder / "spark")}
        settings["spark.sql.warehouse.dir"] = str(folder / "warehouse")
        spark = session("diskstream demo", master="local[2]", settings=settings)
        try:
            live, counted, windows = self._read_live(spark, folder)
            made = self._work(spark, folder)
        finally:
            spark.stop()
        with diskstream.open(self._directory) as store:
            entries = len(store.stream(READ))
        if counted != entries:
            raise Failure(f"stream {READ}: Spark's query read {counted:,} entries, but there are {entries:,}")
        return Piped(READ, entries, live, windows, *made, took_s=monotonic() - began)

    def _read_live(self, spark: SparkSession, folder: Path) -> tuple[int, int, int]:
        """Entries rolled up while the stream was fed, all of them, and the seconds they fall into."""
        board = self._board
        board.producers_stop = False
        with self._workers() as workers:
            producer = self._start(workers, f"producer of {READ}", produce, (READ,), board)
            query = self._query(spark, folder)
            try:
                deadline = monotonic() + PATIENCE_S
                while _counted(spark)[0] == 0:
                    if monotonic() > deadline or not query.isActive:
                        raise Failure(f"Spark read nothing within {PATIENCE_S:.0f} s: {query.exception()}")
                    self._feed_for(monotonic(), 0.2, workers)
                self._feed_for(monotonic(), _LIVE_S, workers)
                live = _counted(spark)[0]
                board.producers_stop = True
                self._finish(producer, monotonic())
                query.processAllAvailable()
                counted, windows = _counted(spark)
            finally:
                query.stop()
        return live, counted, windows

    def _query(self, spark: SparkSession, folder: Path) -> StreamingQuery:
        from pyspark.sql import functions

        frame = (
            spark.readStream.format("diskstream")
            .schema(f"ts timestamp, {', '.join(f'{name} bigint' for name in FIELDS)}")
            .option("streams", READ)
            .option("startingIds", "earliest")
            .load(str(self._directory))
        )
        means = [functions.avg(name).alias(name) for name in FIELDS]
        by_second = frame.groupBy(functions.window("ts", "1 second")).agg(functions.count("*").alias("entries"), *means)
        writer = by_second.writeStream.outputMode("complete").format("memory").queryName(_TABLE)
        return writer.option("checkpointLocation", str(folder / "checkpoint")).start()

    def _work(self, spark: SparkSession, folder: Path) -> tuple[int, int, int, int, str, str]:
        from diskstream.spark.jobs import archive, reconcile, rollup

        store, place, name = str(self._directory), str(folder / "archive"), READ.encode()
        chart, output = folder / "memory.png", folder / "memory.parquet"
        rolled = rollup.run(
            spark,
            rollup.Settings(store, (name,), window_ms=1000, fields=FIELDS, output=output, chart=chart, quiet=True),
        )
        made = archive.run(spark, archive.ArchiveSettings(store, place, (name,), quiet=True))
        found = reconcile.run(spark, reconcile.ReconcileSettings(store, place, (name,), quiet=True))
        if not found.ok:
            raise Failure(f"the archive differs from stream {READ}: {found.findings[0]}")
        compared = sum(each.stored for each in found.streams)
        return rolled.windows, made.files, made.entries, compared, str(chart), str(output)


def _counted(spark: SparkSession) -> tuple[int, int]:
    """Entries that the query has rolled up so far, and windows."""
    row = spark.sql(f"select coalesce(sum(entries), 0), count(*) from {_TABLE}").first()  # our own name
    return (int(row[0]), int(row[1])) if row is not None else (0, 0)
