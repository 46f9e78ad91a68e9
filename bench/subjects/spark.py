"""Spark: reading, writing and the jobs, beside Spark's own Parquet on the same rows.

One session of two threads on this machine, with the settings that docs/spark.md advises; four rows for each entry that
other subjects store, of four short fields (a sensor, a decimal number, a whole number, a unit), sealed. The same rows
were written once by Spark itself as Parquet (zstd), with typed columns and with an array of names and values. Scans go
into Spark's `noop` sink, so that all columns of all rows reach the JVM, by columns (docs/spark.md says what that takes)
and, as everywhere without the classes for it, by rows. Before the rounds, unmeasured, each contender runs once over an
eighth of the rows, and each scan as often as there are rounds, as the JVM's compiler takes a fourth of both processors
meanwhile; then each scan once over all of them, but for those by rows, which no target counts. Archive and replay count
from the planning to the last flush, files read back and digests compared; Spark's own writer reads the same source and
writes zstd Parquet, and reads nothing back, as one archive of each layout does for that comparison, which no target
counts. A trigger is the time from one small append to the end of the batch that holds it, in a query into `noop`.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import diskstream
from bench.context import Context
from bench.model import Figure, Result, Row, Target
from bench.orphans import adopted, orphan_the_children_of
from bench.rounds import Contender, take_turns

NAME = "spark"
STREAM = "readings"
BY_ROWS = ", by rows"
NOT_READ_BACK = ", not read back"
TYPED = "sensor string, value double, count bigint, unit string"
COLUMNS = (("sensor", "string"), ("value", "double"), ("count", "int64"), ("unit", "string"))
ROWS_EACH = 4
TRIGGERS = 20
ADVISED = {
    "spark.driver.extraJavaOptions": (
        "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
    ),
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


@dataclass
class Bench:
    """The session, a store of so many rows with Parquet of them beside it, and where results go."""

    spark: Any
    scratch: Path
    rows: int
    numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def store(self) -> Path:
        return self.scratch / "store"

    def timed(self, work: Callable[[], object]) -> float:
        """Rows a second."""
        begin = time.perf_counter()
        work()
        return self.rows / (time.perf_counter() - begin)

    def place(self) -> Path:
        """A path where nothing is."""
        return self.scratch / f"made-{next(self.numbers)}"

    def frame(self, schema: str | None) -> Any:
        reader = self.spark.read.format("diskstream")
        return (reader if schema is None else reader.schema(schema)).load(str(self.store))

    def scan(self, frame: Callable[[], Any]) -> float:
        return self.timed(lambda: frame().write.format("noop").mode("overwrite").save())

    def scan_by_rows(self, frame: Callable[[], Any]) -> float:
        from diskstream.spark.columnar import scan_by_columns

        scan_by_columns(self.spark, on=False)
        try:
            return self.scan(frame)
        finally:
            scan_by_columns(self.spark)


def run(context: Context, result: Result) -> None:
    """Builds the store and the Parquet files, takes turns, and puts the rows into `result`."""
    missing = what_is_missing()
    if missing:
        result.skipped.append(f"everything: {missing} is not installed")
        return
    from diskstream.spark.columnar import scan_by_columns

    with context.fresh("spark") as scratch, session_of(scratch, {"spark.driver.memory": "2g"}) as spark:
        rows = ROWS_EACH * context.scale.entries
        context.say(f"building a store of {rows:,} entries, and Parquet of them")
        if not scan_by_columns(spark):
            result.notes.append("Scans went by rows: the classes for columns are not compiled for this Spark.")
        small, bench = _built(spark, scratch / "small", rows // 8), _built(spark, scratch / "all", rows)
        scans, jobs = _scans(bench), _jobs(bench)
        counted = [scan for scan in scans if not scan.name.endswith(BY_ROWS)]
        for contender in [*(_scans(small) * context.rounds), *_jobs(small), *counted]:
            context.say(f"unmeasured: {contender.name}")
            contender.run()
        found = take_turns(context, [*scans, *jobs])
        context.say("triggers")
        delays = _triggers(bench)
    _rows(result, found)
    at_median = Figure("ms", (median(delays),))
    result.rows.append(Row("a trigger, the median", at_median, target=Target("figure", at_most=200)))
    result.notes.append(f"{rows:,} rows; {TRIGGERS} triggers, {min(delays):.0f} to {max(delays):.0f} ms.")


def what_is_missing() -> str:
    """What these subjects need and is not here."""
    missing = [name for name in ("pyspark", "pandas", "pyarrow") if not importlib.util.find_spec(name)]
    return ", ".join(missing) or ("" if shutil.which("java") else "java")


@contextmanager
def session_of(scratch: Path, more: dict[str, str]) -> Iterator[Any]:
    """A session of two threads on this machine, which keeps its files below `scratch`."""
    from diskstream.spark.jobs.session import session

    scratch.mkdir(parents=True)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    local = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false"}
    settings = {
        **local,
        **ADVISED,
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.parquet.compression.codec": "zstd",
        **more,
    }
    with adopted():  # the JVM leaves its Python workers behind: what they used is ours, not others'
        spark = session("diskstream bench", master="local[2]", settings=settings)
        gateway: Any = spark.sparkContext._gateway
        try:
            yield spark
        finally:
            orphan_the_children_of(b"pyspark.daemon")
            spark.stop()
            gateway.shutdown()
            gateway.proc.communicate(timeout=60)  # the end of its input ends the JVM


def _built(spark: Any, scratch: Path, rows: int) -> Bench:
    bench = Bench(spark, scratch, rows)
    with diskstream.open(bench.store, fsync="os") as store:
        stream = store.stream(STREAM)
        for first in range(0, rows, 5_000):
            numbers = range(first, min(first + 5_000, rows))
            stream.add_many(
                [{"sensor": f"s{n % 50}", "value": f"{n * 0.37:.2f}", "count": n, "unit": "C"} for n in numbers]
            )
        stream.seal()
    for name, schema in (("typed", f"id_ms bigint, id_seq bigint, {TYPED}"), ("fields", None)):
        bench.frame(schema).write.parquet(str(scratch / name))
    return bench


def _scans(bench: Bench) -> list[Contender]:
    def parquet(name: str, *columns: str) -> Any:
        frame = bench.spark.read.parquet(str(bench.scratch / name))
        return frame.select(*columns) if columns else frame

    ids = "id_ms bigint, id_seq bigint"
    return [
        Contender("ids", lambda: bench.scan(lambda: bench.frame(ids))),
        Contender("ids, Parquet", lambda: bench.scan(lambda: parquet("typed", "id_ms", "id_seq"))),
        Contender("typed", lambda: bench.scan(lambda: bench.frame(f"{ids}, {TYPED}"))),
        Contender(f"typed{BY_ROWS}", lambda: bench.scan_by_rows(lambda: bench.frame(f"{ids}, {TYPED}"))),
        Contender("typed, Parquet", lambda: bench.scan(lambda: parquet("typed"))),
        Contender("fields", lambda: bench.scan(lambda: bench.frame(None))),
        Contender(f"fields{BY_ROWS}", lambda: bench.scan_by_rows(lambda: bench.frame(None))),
        Contender("fields, Parquet", lambda: bench.scan(lambda: parquet("fields"))),
    ]


def _jobs(bench: Bench) -> list[Contender]:
    from diskstream.spark.jobs import archive, replay, rollup

    store = str(bench.store)

    def removed(work: Callable[[Path], object]) -> float:
        place = bench.place()
        try:
            return bench.timed(lambda: work(place))
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def archived(layout: str, *, verify: bool = True) -> float:
        columns = COLUMNS if layout == "typed" else ()

        def work(place: Path) -> object:
            to = archive.ArchiveSettings(store, str(place), layout=layout, columns=columns, verify=verify, quiet=True)
            return archive.run(bench.spark, to)

        return removed(work)

    def written(place: Path) -> object:
        frame = bench.spark.read.parquet(str(bench.scratch / "typed")).select("sensor", "value", "count", "unit")
        return frame.write.format("diskstream").option("stream", "a").mode("append").save(str(place))

    def drained(place: Path) -> object:
        reader = bench.spark.readStream.format("diskstream").schema(TYPED).option("startingIds", "earliest")
        writer = reader.load(store).writeStream.format("noop").option("checkpointLocation", str(place))
        return writer.trigger(availableNow=True).start().awaitTermination()

    roll = rollup.Settings(store, window_ms=1000, fields=("value",), quantiles=(), quiet=True)
    own = f"id_ms bigint, id_seq bigint, {TYPED}"
    return [
        Contender("rollup", lambda: bench.timed(lambda: rollup.roll_up(bench.spark, roll))),
        Contender("archive, typed", lambda: archived("typed")),
        Contender(f"archive, typed{NOT_READ_BACK}", lambda: archived("typed", verify=False)),
        Contender("Spark's writer, typed", lambda: removed(lambda place: bench.frame(own).write.parquet(str(place)))),
        Contender("archive, fields", lambda: archived("fields")),
        Contender(f"archive, fields{NOT_READ_BACK}", lambda: archived("fields", verify=False)),
        Contender("Spark's writer, fields", lambda: removed(lambda place: bench.frame(None).write.parquet(str(place)))),
        Contender(
            "replay",
            lambda: removed(
                lambda place: replay.run(bench.spark, replay.ReplaySettings(store, str(place), ids="new", quiet=True))
            ),
        ),
        Contender("write", lambda: removed(written)),
        Contender("drain", lambda: removed(drained)),
    ]


def _triggers(bench: Bench) -> list[float]:
    """Milliseconds from an append to the end of the batch that holds it."""
    place, store_path = bench.place(), bench.place()
    delays = []
    with diskstream.open(store_path) as store:
        stream = store.stream("a")
        stream.add({"n": 0})
        reader = bench.spark.readStream.format("diskstream").schema("n bigint").load(str(store_path))
        query = reader.writeStream.format("noop").option("checkpointLocation", str(place)).start()
        try:
            for number in range(TRIGGERS + 2):
                begin = time.perf_counter()
                stream.add({"n": number})
                query.processAllAvailable()
                delays.append((time.perf_counter() - begin) * 1000)
        finally:
            query.stop()
    return delays[2:]


def _rows(result: Result, found: dict[str, tuple[float, ...]]) -> None:
    def figure(name: str) -> Figure:
        return Figure("/s", found[name])

    scans = (("ids", 4e6, None), ("typed", 1.8e6, 0.8), ("fields", 1.2e6, 0.8))
    for name, least, beside in scans:
        ours, peer = figure(name), figure(f"{name}, Parquet")
        result.rows.append(Row(f"scan, {name}", ours, target=Target("figure", at_least=least)))
        target = None if beside is None else Target("ratio", at_least=beside)
        result.rows.append(Row(f"scan, {name}", ours, "Spark's Parquet reader", peer, target))
        if beside is not None:
            result.rows.append(Row(f"scan, {name}", ours, "the same by rows", figure(name + BY_ROWS)))
    result.rows.append(Row("rollup by second", figure("rollup"), target=Target("figure", at_least=5e6)))
    for name, least in (("typed", 2e6), ("fields", 1.2e6)):
        ours, peer = figure(f"archive, {name}"), figure(f"Spark's writer, {name}")
        result.rows.append(Row(f"archive, {name}", ours, target=Target("figure", at_least=least)))
        result.rows.append(
            Row(f"archive, {name}", ours, "source into Spark's writer", peer, Target("ratio", at_least=4))
        )
        alike = f"archive, {name}{NOT_READ_BACK}"
        result.rows.append(Row(alike, figure(alike), "source into Spark's writer", peer))
    for name, case, least in (
        ("replay", "replay", 1e6),
        ("write", "df.write", 0.5e6),
        ("drain", "draining by AvailableNow", 1.2e6),
    ):
        result.rows.append(Row(case, figure(name), target=Target("figure", at_least=least)))
