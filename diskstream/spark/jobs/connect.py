"""What a job needs of a session, and one that is connected to a server (Spark Connect) has otherwise, or not at all."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Given", "cores_of", "given_to_tasks", "is_connected", "query_of"]


class Given(Protocol):
    """What every task of a job has in hand, by number."""

    @property
    def value(self) -> Sequence[bytes]:
        """The payloads of all tasks."""


def is_connected(spark: "SparkSession") -> bool:
    """Whether Spark runs behind a server: then there is no context in this process, nor a JVM of its own."""
    return not hasattr(spark, "sparkContext")


def cores_of(spark: "SparkSession") -> int:
    """How many tasks run side by side, unless the session's settings say otherwise."""
    if not is_connected(spark):
        return spark.sparkContext.defaultParallelism
    from pyspark.sql.functions import spark_partition_id

    # A range is cut into as many parts as that, and nothing else that a server answers tells it.
    return max(1, spark.range(1 << 16).select(spark_partition_id()).distinct().count())


@contextmanager
def given_to_tasks(spark: "SparkSession", payloads: Sequence[bytes]) -> "Iterator[Given]":
    """Hands the payloads of tasks to the function that runs them, which reads `value`; they go with the job."""
    if is_connected(spark):
        # They travel with the function that reads them, which Spark gives its workers once for all tasks; in nothing of
        # ours, since a worker's version is looked at by that function.
        yield SimpleNamespace(value=payloads)
        return
    given: Any = spark.sparkContext.broadcast(payloads)
    try:
        yield given
    finally:
        given.destroy()  # with its file on the driver


def query_of(batch: "DataFrame", checkpoint: Path) -> str:
    """The ID of the streaming query that a batch is of; empty if it is not known.

    Args:
        batch: what `foreachBatch` was given.
        checkpoint: the query's directory.
    """
    if not is_connected(batch.sparkSession):
        return batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId") or ""
    # Spark keeps the ID there from before its first batch on.
    return str(json.loads((checkpoint / "metadata").read_text(encoding="utf-8"))["id"])
