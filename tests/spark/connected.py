"""A client of Spark Connect: ``python -m tests.spark.connected URL FOLDER`` does what `test_connect` asks about.

It is a process of its own, since one that has a JVM takes its sessions from there.
"""

import io
import json
import os
import sys
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import diskstream
import diskstream.spark
from diskstream.spark.jobs import archive, compact, reconcile, replay, rollup
from diskstream.spark.jobs.rollup_stream import rollup_stream

TYPED = "sensor string, value double"
COLUMNS = (("sensor", "string"), ("value", "double"))


class Terminal(io.StringIO):
    """Where progress is shown."""

    def isatty(self) -> bool:
        return True


def main(url: str, folder: Path) -> None:
    """Does it."""
    spark = SparkSession.builder.remote(url).getOrCreate()
    follower = diskstream.spark.register(spark, groups=True)
    try:
        sys.stdout.write(json.dumps(told(spark, folder)))
    finally:
        if follower is not None:
            spark.streams.removeListener(follower)
        spark.stop()


def told(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """What came of each."""
    store = str(folder / "store")
    frame = spark.read.format("diskstream").schema(TYPED).load(store)
    found: dict[str, Any] = {"rows": frame.count(), "sum": frame.agg({"value": "sum"}).collect()[0][0]}
    writer = frame.write.format("diskstream").option("stream", "copies").option("txnId", "once").mode("append")
    writer.save(str(folder / "copies"))
    writer.save(str(folder / "copies"))  # the same transaction, sent again

    reader = spark.readStream.format("diskstream").schema(TYPED).option("startingIds", "earliest")
    query = reader.option("group", "followers").load(store).writeStream.format("parquet")
    query = query.option("checkpointLocation", str(folder / "checkpoint"))
    query.trigger(availableNow=True).start(str(folder / "streamed")).awaitTermination()
    groups = spark.read.format("diskstream").option("table", "groups").load(store)
    found["groups"] = [row.group for row in groups.collect()]
    found["streamed"] = spark.read.parquet(str(folder / "streamed")).count()

    os.chdir(folder)  # jobs' paths are meant as seen from here, wherever the server was started
    to_archive = archive.ArchiveSettings("store", "archive", layout="typed", columns=COLUMNS, max_entries=1000)
    with redirect_stderr(Terminal()) as terminal:
        found["archived"] = archive.run(spark, to_archive).entries
    found["progress"] = "archiving" in terminal.getvalue()
    found["compacted"] = compact.run(spark, compact.CompactSettings("archive")).merged
    found["reconciled"] = reconcile.run(spark, reconcile.ReconcileSettings("store", "archive")).ok
    back = replay.ReplaySettings("store", "again")
    found["replayed"] = replay.run(spark, back).entries
    rolled = rollup.Settings("store", window_ms=1000, fields=("value",))
    found["windows"] = rollup.run(spark, rolled).windows
    rollup_stream(spark, rolled, Path("windows"), checkpoint=Path("of-windows")).awaitTermination()
    found["windows in time"] = spark.read.parquet(str(folder / "windows" / "batch=*")).count()
    return found


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
