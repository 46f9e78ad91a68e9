"""Very many entries through Spark once, and the memory that it takes, beside a tenth of them.

For each of the two sizes a process of its own builds a sealed store of entries of four fields by `add_arrow`, and then,
in a session of two threads whose JVM may use 1 GiB of heap, reads all of it (IDs, and typed columns, into Spark's
`noop` sink), rolls it up by second, and archives it to Parquet, which reads every file back. Memory is the high-water
mark (VmHWM) of a process over all of that: the driver's JVM, the driver's Python, which plans and commits, and the
largest of the Python workers, in which the tasks run. Flat is a ratio of 1.5 at most.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import diskstream
from bench.context import Context
from bench.model import Figure, Result, Row, Target
from bench.orphans import descendants
from bench.procs import ask
from bench.subjects import spark as shared

NAME = "spark_large"
PATIENCE = 6 * 3600.0
FLAT = Target("ratio", at_most=1.5)
ROWS_AT_ONCE = 200_000
STEPS = ("ids", "typed", "rollup", "archive")
KINDS = {"jvm": "the driver's JVM", "planner": "the driver's Python", "worker": "the largest Python worker"}


def run(context: Context, result: Result, entries: int) -> None:
    """Measures both sizes, each in a new process, and puts the rows into `result`."""
    missing = shared.what_is_missing()
    if missing:
        result.skipped.append(f"everything: {missing} is not installed")
        return
    found: dict[int, dict[str, Any]] = {}
    small = entries // 10
    for size in (small, entries):
        context.say(f"{size:,} entries through Spark")
        with context.fresh("spark-large") as place:
            place.mkdir(parents=True)
            found[size] = ask("spark_large", str(place), size, patience=PATIENCE)
    for step in STEPS:
        result.rows.append(Row(f"{step}, {entries:,}", Figure("/s", (found[entries]["rates"][step],))))
    for kind, words in KINDS.items():
        ours, theirs = (Figure("MiB", (found[size]["peaks"][kind],)) for size in (entries, small))
        result.rows.append(Row(f"memory of {words}, {entries:,}", ours, f"the same at {small:,}", theirs, FLAT))


def pass_through(place: str, entries: int) -> dict[str, dict[str, float]]:
    """What one process does: builds, reads, rolls up and archives. Returns rates (entries/s) and peaks (MiB)."""
    store = Path(place) / "store"
    _build(store, entries)
    rates: dict[str, float] = {}
    peaks: dict[str, float] = {}
    stop = threading.Event()
    with shared.session_of(Path(place) / "work", {"spark.driver.memory": "1g"}) as spark:
        watcher = threading.Thread(target=_watch, args=(peaks, stop))
        watcher.start()
        try:
            for name, step in _steps(spark, store, Path(place)).items():
                begin = time.perf_counter()
                step()
                rates[name] = entries / (time.perf_counter() - begin)
        finally:
            stop.set()
            watcher.join()
    return {"rates": rates, "peaks": peaks}


def _build(path: Path, entries: int) -> None:
    import numpy as np
    import pyarrow as pa

    names = ["sensor", "value", "count", "unit"]
    with diskstream.open(path, fsync="os") as store:
        stream = store.stream(shared.STREAM)
        for first in range(0, entries, ROWS_AT_ONCE):
            numbers = np.arange(first, min(first + ROWS_AT_ONCE, entries))
            sensors = pa.array([f"s{number % 50}" for number in numbers])
            columns = [sensors, pa.array(numbers * 37 / 100), pa.array(numbers), pa.array(["C"] * len(numbers))]
            stream.add_arrow(pa.RecordBatch.from_arrays(columns, names=names))
        stream.seal()


def _steps(spark: Any, store: Path, place: Path) -> dict[str, Callable[[], object]]:
    from diskstream.spark.jobs import archive, rollup

    def scan(schema: str) -> None:
        frame = spark.read.format("diskstream").schema(schema).load(str(store))
        frame.write.format("noop").mode("overwrite").save()

    roll = rollup.Settings(str(store), window_ms=1000, fields=("value",), quantiles=(), quiet=True)
    to = archive.ArchiveSettings(str(store), str(place / "archive"), layout="typed", columns=shared.COLUMNS, quiet=True)
    return {
        "ids": lambda: scan("id_ms bigint, id_seq bigint"),
        "typed": lambda: scan(shared.TYPED),
        "rollup": lambda: rollup.roll_up(spark, roll),
        "archive": lambda: archive.run(spark, to),
    }


def _watch(peaks: dict[str, float], stop: threading.Event) -> None:
    """Notes the high-water marks of this process and those below it, twice a second, until it is told to stop."""
    while not stop.wait(0.5):
        for number in (os.getpid(), *descendants()):
            process = Path(f"/proc/{number}")
            try:
                words = (process / "cmdline").read_bytes()
                lines = (process / "status").read_text().splitlines()
            except OSError:
                continue  # it has ended
            peak = next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)
            kind = "jvm" if b"org.apache.spark" in words else "worker" if b"pyspark.daemon" in words else "planner"
            peaks[kind] = max(peaks.get(kind, 0.0), peak)
