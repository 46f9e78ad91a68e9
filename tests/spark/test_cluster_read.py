"""Reading on a cluster: both workers read, a killed executor changes no count, and what workers do not see is told."""

import shutil
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import diskstream
from tests.engine.children import hear, say, until
from tests.spark.cluster import WORKERS, Cluster
from tests.streams.layers import small_store

pytest.importorskip("pyspark")

from diskstream.spark import columnar

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

SEALED, TAIL = 12_000, 500
# How a cluster gives scans by columns to all its sessions: no program says a word about it.
COLUMNAR_BY_SETTINGS = {
    "spark.jars": str(columnar.jar_for(version("pyspark"))),
    "spark.sql.extensions": f"{columnar.PACKAGE}.ColumnarExtensions",
}


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """A store with sealed segments, a tail, and a writer that has it open."""
    with small_store(tmp_path / "s", segment_bytes=1 << 18, node_max_entries=512) as store:
        stream = store.stream("x")
        for start in range(0, SEALED, 500):
            stream.add_many([{"n": start + each, "pad": "." * 50} for each in range(500)])
        store.seal()
        stream.add_many([{"n": SEALED + each} for each in range(TAIL)])
        yield store.path


def load(spark: "SparkSession", path: str, **options: Any) -> "DataFrame":
    return spark.read.format("diskstream").schema("n int").options(minPartitions=2, **options).load(path)


def in_the_room(room: str) -> Any:
    """Passes batches on; with the first one it leaves the worker's name in the room, and waits there to go on."""

    def work(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        (Path(room) / Path.cwd().parent.parent.name).touch()
        until((Path(room) / "go").exists)
        yield from batches

    return work


def streamed(spark: "SparkSession", path: str, place: Path) -> tuple[int, bool]:
    """Reads all as a stream: the rows that Spark counts, and whether they came as columns."""
    reader = spark.readStream.format("diskstream").schema("n int").option("startingIds", "earliest")
    writer = reader.load(path).writeStream.format("noop").option("checkpointLocation", str(place))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    plan = query._jsq.explainInternal(False)
    return sum(each["numInputRows"] for each in query.recentProgress), "ColumnarMicroBatchScan[" in plan


def reads(spark: "SparkSession", path: str, jars: str) -> None:
    """Reads all as a stream, then once for each waiting room that it hears of: rows, different rows, their sum.

    `jars` has another Spark's.
    """
    assert not columnar.scan_by_columns(spark, place=Path(jars))
    assert "columnar" not in load(spark, path)._jdf.queryExecution().executedPlan().toString()
    assert columnar.scan_by_columns(spark)  # of a jar that executors fetch
    say(*streamed(spark, path, Path(jars) / "checkpoint"))
    while room := hear():
        frame = load(spark, path, batchRows=100).mapInArrow(in_the_room(room), "n int")
        found = [row.n for row in frame.collect()]
        say(len(found), len(set(found)), sum(found))


def test_a_read_is_exact_though_an_executor_is_killed(cluster: Cluster, path: Path, tmp_path: Path) -> None:
    total = SEALED + TAIL
    own = Path(COLUMNAR_BY_SETTINGS["spark.jars"])
    shutil.copy(own, columnar.jar_for("4.2.99", tmp_path))
    with cluster.driver(tmp_path, reads, path, tmp_path) as driver:
        assert driver.hear().split() == [str(total), "True"]
        for kill in (False, True):
            room = tmp_path / f"room-{kill}"
            room.mkdir()
            driver.tell(str(room))
            driver.until(lambda room=room: len(list(room.iterdir())) == WORKERS)  # type: ignore[misc]  # bound now
            if kill:
                with diskstream.open(path) as store:  # what is trimmed while a task is tried again is in the lease
                    store.stream("x").trim(maxlen=10)
                cluster.kill_executor(cluster.workers()[0])
            (room / "go").touch()
            assert driver.hear().split() == [str(total), str(total), str(total * (total - 1) // 2)]
        driver.tell()
        driver.done()


def reads_again(spark: "SparkSession", path: str) -> None:
    """Reads a frame, and the same again when it is told: the count, or where it wrote the error."""
    frame = load(spark, path)
    assert "(Python) columnar" in frame._jdf.queryExecution().executedPlan().toString()
    say(frame.count())
    while place := hear():
        try:
            say(frame.count())
        except Exception as error:  # noqa: BLE001  # whatever Spark makes of it
            Path(place).write_text(str(error))
            say("failed")


def test_a_path_that_workers_do_not_see_is_told_in_our_words(cluster: Cluster, path: Path, tmp_path: Path) -> None:
    settings = {"spark.task.maxFailures": "1", **COLUMNAR_BY_SETTINGS}
    with cluster.driver(tmp_path, reads_again, path, **settings) as driver:
        assert driver.hear() == str(SEALED + TAIL)
        told = tmp_path / "told"
        (path / "leases").rename(path / "elsewhere")
        assert driver.ask(str(told)) == "failed"
        assert "the lease has run out or was removed: driver and workers must see the store" in told.read_text()
        (path / "elsewhere").rename(path / "leases")
        assert driver.ask(str(told)) == str(SEALED + TAIL)
        path.rename(tmp_path / "moved")
        assert driver.ask(str(told)) == "failed"
        assert f"it is not there: driver and workers must see the store {path} under the same path" in told.read_text()
        (tmp_path / "moved").rename(path)
        driver.tell()
        driver.done()
