"""Streaming and batch writes in a real session: each entry once, in order, through restarts and tasks that fail."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import diskstream
from diskstream import Store
from tests.engine.children import until

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@pytest.fixture
def session(spark: "SparkSession") -> "SparkSession":
    """The session, to which the format is known."""
    from diskstream.spark import register

    register(spark)
    return spark


def fill(store: Store, numbers: range, name: str = "in") -> None:
    store.stream(name).add_many([{"n": number} for number in numbers])


def numbers(store: Store, name: str = "out") -> list[int]:
    return [int(entry[b"n"]) for entry in store.stream(name)]


class Copies:
    """A query that doubles the numbers of `in` into `out`, started again and again from its checkpoint."""

    def __init__(self, session: "SparkSession", store: Store, folder: Path) -> None:
        self.session, self.path, self.checkpoint = session, str(store.path), folder / "checkpoint"

    def run(self, change: "Callable[[DataFrame], DataFrame] | None" = None, **options: Any) -> "StreamingQuery":
        """Drains what is there."""
        said = {"streams": "in", "startingIds": "earliest", **options}
        frame = self.session.readStream.format("diskstream").schema("n long").options(**said).load(self.path)
        doubled = (change(frame) if change else frame).selectExpr("n * 2 as n")
        to = doubled.writeStream.format("diskstream").option("path", self.path).option("stream", "out")
        query = to.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()
        return query


def rows_in_batches(query: "StreamingQuery") -> list[int]:
    progress: Any = query.recentProgress
    return [each["numInputRows"] for each in progress if each["numInputRows"]]


# --- from stream to stream --------------------------------------------------------------------------------------------


def test_a_query_that_is_started_again_goes_on_where_it_was(
    session: "SparkSession", store: Store, tmp_path: Path
) -> None:
    copies = Copies(session, store, tmp_path)
    for upto in (50, 50, 90):
        fill(store, range(len(store.stream("in")), upto))
        copies.run()
        assert numbers(store) == list(range(0, 2 * upto, 2))
    assert list((store.path / "commits").glob("*/0*.json")) == []
    assert list((store.path / "staging").iterdir()) == []


def test_available_now_drains_within_the_limit(session: "SparkSession", store: Store, tmp_path: Path) -> None:
    """Trap 7: without the mixin for it, Spark would ignore the limit in silence."""
    fill(store, range(100))
    query = Copies(session, store, tmp_path).run(maxEntriesPerTrigger=30)
    assert rows_in_batches(query) == [30, 30, 30, 10]
    assert numbers(store) == list(range(0, 200, 2))


def test_a_trigger_that_takes_no_heed_of_limits_reads_all_that_there_is(
    session: "SparkSession", store: Store, tmp_path: Path
) -> None:
    """Once read as much as the limit lets one batch have, or nothing where that was to wait, and the query ended."""
    fill(store, range(100))
    limited = session.readStream.format("diskstream").schema("n long").option("startingIds", "earliest")
    limited = limited.options(maxEntriesPerTrigger=30, minEntriesPerTrigger=500)
    to = limited.load(str(store.path)).writeStream.format("diskstream").option("stream", "out").trigger(once=True)
    query = to.option("checkpointLocation", str(tmp_path / "checkpoint")).start(str(store.path))
    query.awaitTermination()
    assert rows_in_batches(query) == [100]


@pytest.mark.parametrize("forgotten", [1, 3])
def test_batches_that_come_again_cut_differently_double_nothing(
    session: "SparkSession", store: Store, tmp_path: Path, forgotten: int
) -> None:
    """Trap 9: Spark forgot that these were complete: it makes the last of them again, with the same number."""
    copies = Copies(session, store, tmp_path)
    fill(store, range(100))
    copies.run(maxEntriesPerTrigger=30, minPartitions=3)
    for batch in range(4 - forgotten, 4):
        (copies.checkpoint / "commits" / str(batch)).unlink()
        (copies.checkpoint / "commits" / f".{batch}.crc").unlink(missing_ok=True)
    fill(store, range(100, 120))
    copies.run(maxEntriesPerTrigger=30, minPartitions=1)
    assert numbers(store) == list(range(0, 240, 2))


def test_tasks_that_fail_when_they_have_written_double_nothing(
    session: "SparkSession", store: Store, tmp_path: Path
) -> None:
    folder = tmp_path / "attempts"
    folder.mkdir()

    def flaky(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        from pyspark import TaskContext

        yield from batches
        context: Any = TaskContext.get()
        try:
            (folder / f"{context.stageId()}-{context.partitionId()}").touch(exist_ok=False)
        except FileExistsError:
            return
        raise RuntimeError("the first attempt fails")

    fill(store, range(100))
    copies = Copies(session, store, tmp_path)
    copies.run(lambda frame: frame.mapInArrow(flaky, "n long"), minPartitions=3, maxEntriesPerTrigger=60)
    assert numbers(store) == list(range(0, 200, 2))
    assert len(list(folder.iterdir())) >= 4
    again = session.createDataFrame([(n,) for n in range(50)], "n long").repartition(3).mapInArrow(flaky, "n long")
    again.write.format("diskstream").mode("append").option("stream", "batch").save(str(store.path))
    assert sorted(numbers(store, "batch")) == list(range(50))


def test_a_group_follows_the_query_and_lets_go_what_was_read(
    session: "SparkSession", store: Store, tmp_path: Path
) -> None:
    """Trap 8: Spark commits a batch when it plans the next, and the last one never: its progress tells it at once."""
    from diskstream.spark import register

    fill(store, range(100))
    stream = store.stream("in")
    group = stream.group("spark", start="0")
    assert stream.trim(maxlen=0, ref="ACKED") == 0
    follower = register(session, groups=True)
    assert follower is not None
    try:
        Copies(session, store, tmp_path).run(group="spark", maxEntriesPerTrigger=40)
        until(lambda: group.info().lag == 0)
    finally:
        session.streams.removeListener(follower)
    assert stream.trim(maxlen=0, ref="ACKED") == 100
    assert numbers(store) == list(range(0, 200, 2))


def test_new_streams_join_a_running_query(session: "SparkSession", store: Store, tmp_path: Path) -> None:
    fill(store, range(5), "s1")
    frame = session.readStream.format("diskstream").schema("stream string, n long")
    frame = frame.option("streamPattern", "s*").option("startingIds", "earliest")
    renamed = frame.load(str(store.path)).selectExpr("concat('to-', stream) as stream", "n")
    to = renamed.writeStream.format("diskstream").option("path", str(store.path))
    query = to.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        query.processAllAvailable()
        fill(store, range(7), "s2")
        until(lambda: len(store.stream("to-s2")) == 7 or not query.isActive)
    finally:
        query.stop()
    assert (numbers(store, "to-s1"), numbers(store, "to-s2")) == (list(range(5)), list(range(7)))


def test_what_was_trimmed_unread_ends_the_query_with_the_reason(
    session: "SparkSession", store: Store, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    copies = Copies(session, store, tmp_path)
    fill(store, range(10))
    copies.run()
    fill(store, range(10, 30))
    store.stream("in").trim(maxlen=5)
    with pytest.raises(StreamingQueryException, match=r"stream in.*were trimmed away.*failOnDataLoss=false"):
        copies.run()
    copies.run(failOnDataLoss="false")
    assert numbers(store) == [*range(0, 20, 2), *range(50, 60, 2)]


# --- in a batch -------------------------------------------------------------------------------------------------------


def test_a_frame_is_written_to_the_stream_of_the_option_or_of_its_column(session: "SparkSession", store: Store) -> None:
    frame = session.range(0, 20, numPartitions=3).selectExpr("id as n", "if(id % 2 = 0, 'even', 'odd') as stream")
    frame.write.format("diskstream").mode("append").save(str(store.path))
    to_one = frame.drop("stream").write.format("diskstream").mode("append").option("stream", "all")
    to_one.save(str(store.path))
    assert numbers(store, "even") == list(range(0, 20, 2))
    assert numbers(store, "odd") == list(range(1, 20, 2))
    assert numbers(store, "all") == list(range(20))


def test_entries_written_with_their_ids_are_those_of_the_source(
    session: "SparkSession", store: Store, tmp_path: Path
) -> None:
    """Repeated names, values that are no text, and streams whose names have to be escaped: in any order of rows."""
    for name in (b"plain", b"per%cent", b"\xff"):
        store.stream(name).add_many([[("n", str(number)), ("n", b"\xff\x00"), ("", "")] for number in range(50)])
    frame = session.read.format("diskstream").option("minPartitions", 4).load(str(store.path))
    to = frame.repartition(3).write.format("diskstream").mode("append").option("ids", "columns").option("txnId", "t")
    to.save(str(tmp_path / "copy"))
    to.save(str(tmp_path / "copy"))
    with diskstream.open(tmp_path / "copy") as copy:
        assert copy.streams() == store.streams()
        for name in store.streams():
            assert list(copy.stream(name)) == list(store.stream(name))


def test_overwriting_is_refused(session: "SparkSession", store: Store) -> None:
    fill(store, range(3))
    with pytest.raises(Exception, match=r"streams are appended to: write with mode\('append'\)"):
        session.range(3).write.format("diskstream").mode("overwrite").option("stream", "in").save(str(store.path))
    assert numbers(store, "in") == [0, 1, 2]


def test_ids_that_do_not_follow_are_refused_in_words_and_nothing_is_added(
    session: "SparkSession", store: Store
) -> None:
    store.stream("x").add({"n": 1}, "10-0")
    frame = session.range(5, 20, numPartitions=2).selectExpr("id as id_ms", "0L as id_seq", "id as n")
    to = frame.write.format("diskstream").mode("append").option("stream", "x").option("ids", "columns")
    with pytest.raises(Exception, match="stream x ends at 10-0, but rows begin at 5-0"):
        to.save(str(store.path))
    assert numbers(store, "x") == [1]
    assert list((store.path / "staging").glob("*/*")) == []
