"""Spark's own second attempts, on a cluster: where a task is slow, another worker does it too, and one of them counts.

What attempts of which nobody hears leave behind is looked at in `test_speculation`, attempt by attempt.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark import TaskContext

from diskstream.spark.jobs import archive
from diskstream.spark.jobs.archive import ArchiveSettings, ArchiveTask
from diskstream.spark.jobs.manifest import ArchivedFile
from tests.engine.children import say, until
from tests.spark.archives import days, fill, kept, stored
from tests.spark.cluster import Cluster
from tests.spark.staged_rows import numbers

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

ROWS = 1000
BOTH = {"0-0", "0-1", "1-0", "went on"}
SPECULATING = {
    "spark.speculation": "true",
    "spark.speculation.interval": "20ms",
    "spark.speculation.minTaskRuntime": "0ms",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.quantile": "0.1",
}


def slow_at_first(room: Path) -> None:
    """The first attempt of the first task goes on when another has begun, and that one then. Each leaves a sign."""
    context = TaskContext.get()
    assert context is not None
    partition = context.partitionId()
    (room / f"{partition}-{context.attemptNumber()}").touch()
    if (partition, context.attemptNumber()) == (0, 0):
        until((room / "0-1").exists)
        (room / "went on").touch()
    elif partition == 0:
        until((room / "went on").exists)  # it is no third try of a task that failed


def attempts(room: Path) -> set[str]:
    return {path.name for path in room.iterdir()}


@pytest.fixture
def room(tmp_path: Path) -> Path:
    (tmp_path / "room").mkdir()
    return tmp_path / "room"


def writes(spark: "SparkSession", room: str, at: str) -> None:
    def slow(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for number, batch in enumerate(batches):
            yield batch
            if not number:  # with some rows staged
                slow_at_first(Path(room))

    frame = spark.range(0, ROWS, 1, 2).withColumnRenamed("id", "n").mapInArrow(slow, "n long")
    frame.write.format("diskstream").option("stream", "a").mode("append").save(at)
    say("written")


def test_what_two_attempts_write_at_once_is_written_once(cluster: Cluster, tmp_path: Path, room: Path) -> None:
    settings = SPECULATING | {"spark.sql.execution.arrow.maxRecordsPerBatch": "100"}
    with cluster.driver(tmp_path, writes, room, tmp_path / "at", **settings) as driver:
        assert driver.hear() == "written"
    assert attempts(room) == BOTH
    assert sorted(numbers(tmp_path / "at", "a")) == list(range(ROWS))


ROOM = "room"


def slowly_archived(task: ArchiveTask) -> list[ArchivedFile]:
    slow_at_first(Path(task.archive).with_name(ROOM))
    return archive.archive_slices(task)


def archives(spark: "SparkSession", store: str, root: str) -> None:
    work: Any = slowly_archived
    with patch.object(archive, "archive_slices", work):
        made = archive.run(spark, ArchiveSettings(store, root, max_entries=100))
    say(made.entries, made.files)


def test_what_two_attempts_archive_at_once_is_there_once(cluster: Cluster, tmp_path: Path, room: Path) -> None:
    store, root = tmp_path / "store", tmp_path / "archive"
    for first in range(2):
        fill(store, "s", days(1, 100, first=first))
    with cluster.driver(tmp_path, archives, store, root, **SPECULATING) as driver:
        assert driver.hear() == "200 2"
    assert attempts(room) == BOTH
    assert kept(root, "s") == stored(store, "s")
