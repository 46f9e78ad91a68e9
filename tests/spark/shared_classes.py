"""A program for the Makefile: it makes the file of classes that `quick_java` speaks of, where it is not there yet."""

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.spark import session
from tests.spark.quick_java import archive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# How long a JVM may take to write some 200 MB at its end, on a machine that is busy.
_LIMIT_S = 300


def make(path: Path) -> None:
    """Makes the file: of all that a session loads that does what those of tests do."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_suffix(f".{os.getpid()}")
    try:
        with tempfile.TemporaryDirectory() as folder:
            settings = session.settings(Path(folder), "local[2]")
            settings["spark.driver.extraJavaOptions"] += f" -XX:ArchiveClassesAtExit={made} -Xlog:cds=off"
            spark = session.start(settings)
            try:
                _use(spark, Path(folder))
            finally:
                session.stop(spark, _LIMIT_S)
        made.rename(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            made.unlink()


def _use(spark: "SparkSession", folder: Path) -> None:
    import diskstream
    from diskstream.spark import register

    register(spark)
    with diskstream.open(folder / "store", fsync="os") as store:
        store.stream("in").add_many([{"n": number, "of": number % 3} for number in range(100)])
    reader = spark.read.format("diskstream").schema("n long, of long")
    frame = reader.load(f"{folder}/store")
    frame.groupBy("of").sum("n").orderBy("of").collect()
    frame.write.parquet(f"{folder}/parquet")
    spark.read.parquet(f"{folder}/parquet").write.format("diskstream").mode("append").save(f"{folder}/copy", stream="a")
    live = spark.readStream.format("diskstream").schema("n long").option("startingIds", "earliest")
    writer = live.load(f"{folder}/store").writeStream.format("diskstream").option("path", f"{folder}/copy")
    query = writer.option("stream", "b").option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
    query.start().awaitTermination()


if __name__ == "__main__" and not session.what_is_missing():
    wanted = archive()
    if wanted is not None and not wanted.is_file():
        make(wanted)
