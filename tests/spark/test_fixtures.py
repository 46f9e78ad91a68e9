"""The session of the fixtures: it computes, and a task that fails is tried again."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

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
