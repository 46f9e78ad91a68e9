"""The fixtures themselves: a session computes, a cluster computes on all workers, and no kill changes a count."""

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from tests.engine.children import hear, say, until
from tests.spark.cluster import WORKERS, Cluster
from tests.spark.process_tree import in_session

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

ROWS = 10_000


def twice(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa
    import pyarrow.compute as pc

    for batch in batches:
        yield pa.RecordBatch.from_arrays([pc.multiply(batch.column(0), 2)], names=["id"])


def test_a_local_session_runs_python_in_tasks(spark: "SparkSession") -> None:
    frame = spark.range(0, ROWS, numPartitions=4).mapInArrow(twice, "id long")
    assert frame.groupBy().sum("id").collect()[0][0] == ROWS * (ROWS - 1)
    assert frame.toPandas()["id"].sum() == ROWS * (ROWS - 1)  # type: ignore[index]  # pandas ships no types


def fails_once(folder: str) -> None:
    """Raises the first time that it is called."""
    try:
        (Path(folder) / "failed").touch(exist_ok=False)
    except FileExistsError:
        return
    raise RuntimeError("the first attempt fails")


def test_a_task_that_fails_is_tried_again(spark: "SparkSession", tmp_path: Path) -> None:
    def flaky(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        fails_once(str(tmp_path))
        yield from batches

    assert spark.range(0, ROWS, numPartitions=1).mapInArrow(flaky, "id long").count() == ROWS


def waits_for_a_session(spark: "SparkSession") -> None:
    say("ready")
    hear()


def test_a_killed_driver_leaves_nothing_behind(cluster: Cluster, tmp_path: Path) -> None:
    """Neither on the cluster, which the next test uses, nor on this machine."""
    with cluster.driver(tmp_path, waits_for_a_session) as driver:
        assert driver.hear() == "ready"
        driver.until(lambda: cluster.executors().keys() == set(cluster.workers()))
        assert any("java" in process.command for process in in_session(driver.pid))
        assert driver.kill() == []
        assert in_session(driver.pid) == []
    until(lambda: not cluster.executors())


def rows_and_places(spark: "SparkSession", waiting_room: Path) -> "DataFrame":
    """Two tasks that pass on their rows, each with the name of the worker that it runs on.

    Each leaves that name in the waiting room, and stays there until it may go on.
    """

    def work(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa

        worker = Path.cwd().parent.parent.name
        (waiting_room / worker).touch()
        until((waiting_room / "go").exists)
        for batch in batches:
            yield pa.RecordBatch.from_arrays([batch.column(0), pa.array([worker] * len(batch))], names=["id", "worker"])

    return spark.range(0, ROWS, numPartitions=2).mapInArrow(work, "id long, worker string")


def counts_for_each_room(spark: "SparkSession") -> None:
    """A job for each waiting room that it hears of: the number of rows, of different rows, and the workers."""
    while room := hear():
        rows = rows_and_places(spark, Path(room)).collect()
        say(len(rows), len({row.id for row in rows}), *sorted({row.worker for row in rows}))


def test_a_count_is_right_whatever_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    workers = sorted(cluster.workers())
    victim, other = workers
    with cluster.driver(tmp_path, counts_for_each_room) as driver:

        def job(meanwhile: Callable[[], None]) -> list[str]:
            room = Path(mkdtemp(dir=tmp_path))
            driver.tell(str(room))
            driver.until(lambda: sorted(path.name for path in room.iterdir()) == workers)
            meanwhile()
            (room / "go").touch()
            rows, different, *places = driver.hear().split()
            assert int(rows) == int(different) == ROWS
            return places

        assert job(lambda: None) == workers

        before = cluster.executors()[victim]
        job(lambda: cluster.kill_executor(victim))
        driver.until(lambda: victim in cluster.executors())
        assert cluster.executors()[victim] != before

        assert job(lambda: cluster.kill_worker(victim)) == [other]
        assert cluster.workers() == [other]
        driver.tell()
        driver.done()

    cluster.mend()
    assert len(cluster.workers()) == WORKERS
