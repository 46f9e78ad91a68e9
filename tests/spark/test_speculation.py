"""Tasks that run twice, side by side or one after the other: of two attempts one counts, whatever the other has made.

Spark tries a task again that failed, starts a second attempt where the first is slow (`spark.speculation`), and takes
the message of one. Attempts whose messages nobody heard here have done all of their work.
"""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyarrow.parquet as pq
from pyspark import TaskContext

import diskstream
from diskstream.spark.commit import finish_left
from diskstream.spark.jobs import archive, compact, reconcile, replay, rollup
from diskstream.spark.jobs.archive import ArchiveSettings
from diskstream.spark.jobs.compact import CompactSettings
from diskstream.spark.jobs.garbage import collect
from diskstream.spark.jobs.manifest import latest
from diskstream.spark.jobs.place import Place
from diskstream.spark.jobs.reconcile import ReconcileSettings
from diskstream.spark.jobs.replay import ReplaySettings
from diskstream.spark.writers import EntriesStreamWriter, EntriesWriter
from tests.spark.archives import NO_SPARK, days, fill, in_process, kept, parts, stored
from tests.spark.staged_rows import LONG, TEXT, left, numbers, options, schema, to_two

PARTITIONS = [range(8), range(8, 17), range(17, 20)]


def twice(spark: object, what: str, tasks: Sequence[Any], work: Callable[[Any], Any], **more: Any) -> Any:
    """Each task is done by two attempts. Of every other task the later one is heard."""
    first, second = (in_process(spark, what, tasks, work, **more) for _ in range(2))
    return [pair[number % 2] for number, pair in enumerate(zip(first, second, strict=True))]


@pytest.fixture(autouse=True)
def _twice(monkeypatch: pytest.MonkeyPatch) -> None:
    for job in (archive, compact, reconcile, replay, rollup):
        monkeypatch.setattr(job, "run_tasks", twice)


# --- writing ----------------------------------------------------------------------------------------------------------


class Context:
    """What Spark tells a task of itself: the first and the second attempt of a partition are told the same."""

    def __init__(self, partition: int) -> None:
        self._partition = partition

    def partitionId(self) -> int:  # noqa: N802  # Spark's name
        return self._partition

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802  # Spark's name
        return {"sql.streaming.queryId": "q", "streaming.sql.batchId": "0"}.get(name)


def written(writer: Any, partition: int) -> Any:
    """The message of one attempt."""
    with patch.object(TaskContext, "get", lambda: Context(partition)):
        return writer.write(iter([to_two(PARTITIONS[partition])]))


def attempts(writer: Any, lost: int) -> list[Any]:
    """The messages of all partitions, each of which two attempts have staged; those of the `lost` ones went missing."""
    both = [[written(writer, partition) for partition in range(3)] for _ in range(2)]
    return both[1 - lost]


@pytest.mark.parametrize("lost", [0, 1])
def test_a_batch_that_two_attempts_staged_is_written_once(tmp_path: Path, lost: int) -> None:
    at = tmp_path / "at"
    writer = EntriesWriter(options(path=str(at)), schema(stream=TEXT, n=LONG), overwrite=False)
    writer.commit(attempts(writer, lost))
    assert (numbers(at, "even"), numbers(at, "odd")) == (list(range(0, 20, 2)), list(range(1, 20, 2)))
    swept(at)


@pytest.mark.parametrize("lost", [0, 1])
def test_a_batch_of_a_query_that_two_attempts_staged_is_written_once(tmp_path: Path, lost: int) -> None:
    at = tmp_path / "at"
    given = options(path=str(at))
    for batch in range(2):
        tasks, driver = (EntriesStreamWriter(given, schema(stream=TEXT, n=LONG), overwrite=False) for _ in range(2))
        driver.commit(attempts(tasks, lost), batch)
        driver.commit(attempts(tasks, lost), batch)  # and the batch came again
    assert (numbers(at, "even"), numbers(at, "odd")) == (list(range(0, 20, 2)) * 2, list(range(1, 20, 2)) * 2)
    swept(at)


def test_an_attempt_that_ends_after_the_commit_adds_nothing(tmp_path: Path) -> None:
    """Spark does not wait for those that it has no use for."""
    at = tmp_path / "at"
    writer = EntriesWriter(options(path=str(at)), schema(stream=TEXT, n=LONG), overwrite=False)
    writer.commit([written(writer, partition) for partition in range(3)])
    written(writer, 0)
    assert numbers(at, "even") == list(range(0, 20, 2))
    swept(at)


def swept(at: Path) -> None:
    """What was staged by attempts of which nobody heard goes after a day: until then they may still be heard of."""
    assert left(at)
    with diskstream.open(at) as store:
        finish_left(store)
        assert left(at)
        for folder in (at / "staging").iterdir():
            os.utime(folder, (time.time() - 90_000,) * 2)
        finish_left(store)
    assert left(at) == []


# --- jobs -------------------------------------------------------------------------------------------------------------


def test_what_two_attempts_archive_and_compact_is_there_once(tmp_path: Path) -> None:
    store, root = tmp_path / "store", tmp_path / "archive"
    for first in (0, 3):
        fill(store, "s", days(3, 50, first=first))
        fill(store, "t", [(f"{first + 1}-{n}", {"n": str(n)}) for n in range(50)])
        assert archive.run(NO_SPARK, ArchiveSettings(str(store), str(root), max_entries=40)).entries == 200
    assert len(parts(root)) == 2 * len(latest(Place(root)).files)  # neither attempt writes into the other's files
    assert compact.run(NO_SPARK, CompactSettings(str(root))).merged
    for name in ("s", "t"):
        assert kept(root, name) == stored(store, name)
    assert reconcile.run(NO_SPARK, ReconcileSettings(str(store), str(root))).ok
    # What the others made is garbage, once the grace time is over.
    for each in Place(root).list():
        os.utime(root / each.path, (time.time() - 3601,) * 2)
    collect(Place(root), 3600)
    assert sorted(parts(root)) == sorted(each.path for each in latest(Place(root)).files)


def test_what_two_attempts_replay_and_roll_up_is_there_once(tmp_path: Path) -> None:
    store, target = tmp_path / "store", tmp_path / "target"
    fill(store, "s", days(2, 500))
    replay.run(NO_SPARK, ReplaySettings(str(store), str(target), max_entries=100, tasks_per_round=3))
    assert stored(target, "s") == stored(store, "s")
    output = tmp_path / "windows.parquet"
    rollup.run(NO_SPARK, rollup.Settings(str(store), fields=("n",), window_ms=86_400_000, output=output))
    assert pq.read_table(output)["entries"].to_pylist() == [500, 500]
