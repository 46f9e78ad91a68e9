"""Reads as streams go by columns as batch reads do, give what goes by rows gives, and are counted as these are."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.engine.children import until
from tests.streams.layers import Layered, layered, small_store

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from diskstream.spark import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "columnar_streams"
TYPED = (
    "n bigint, text string, stream string, id string, ts timestamp, _corrupt array<struct<name:binary,value:binary>>"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Layered]:
    """A stream `x` in every kind of segment, and `t`, of which some values do not parse, some are missing."""
    with small_store(tmp_path_factory.mktemp("streams") / "s") as store:
        found = layered(store)
        rows: list[dict[Any, Any]] = [{"n": 7, "text": "żółw"}, {"n": "?", "text": b"\xff"}, {"other": 1}, {"n": ""}]
        store.stream("t").add_many(rows * 25)
        yield found


@pytest.fixture
def spark_by(spark: "SparkSession") -> "Iterator[Callable[[bool], SparkSession]]":
    def by(columns: bool) -> "SparkSession":
        register(spark, columnar=columns)
        return spark

    yield by
    register(spark)


def load(spark: "SparkSession", made: Layered, schema: str = "", **options: Any) -> "DataFrame":
    reader = spark.readStream.format("diskstream").options(startingIds="earliest", **options)
    return (reader.schema(schema) if schema else reader).load(str(made.store.path))


def drained(frame: "DataFrame", place: Path, mode: str = "append") -> tuple[list[str], int, bool]:
    """The rows of all batches, sorted; how many Spark says came in; and whether they came as columns."""
    writer = frame.writeStream.format("memory").queryName(place.name).outputMode(mode)
    query = writer.option("checkpointLocation", str(place)).trigger(availableNow=True).start()
    query.awaitTermination()
    plan = query._jsq.explainInternal(False)
    assert "MicroBatchScan[" in plan
    came = sum(progress["numInputRows"] for progress in query.recentProgress)
    return sorted(map(str, frame.sparkSession.table(place.name).collect())), came, "ColumnarMicroBatchScan[" in plan


QUERIES: "dict[str, tuple[str, Callable[[SparkSession, Layered], DataFrame]]]" = {
    "fields": ("append", load),
    "metadata, in parts": ("append", lambda spark, made: load(spark, made, includeMetadata="true", minPartitions=3)),
    "typed": ("append", lambda spark, made: load(spark, made, TYPED, streams="t", batchRows=7)),
    "in several batches": (
        "append",
        lambda spark, made: load(spark, made, TYPED, streams="t", maxEntriesPerTrigger=40),
    ),
    "a filter": ("append", lambda spark, made: load(spark, made, TYPED).where("n = 7 or text is null")),
    "groups over batches": (  # whose state is carried on from one to the next
        "complete",
        lambda spark, made: load(spark, made, TYPED, streams="t", maxEntriesPerTrigger=40).groupBy("text").count(),
    ),
    "both of two": (
        "append",
        lambda spark, made: load(spark, made, TYPED).union(load(spark, made, TYPED, streams="t")),
    ),
}


@pytest.mark.parametrize(("mode", "query"), QUERIES.values(), ids=QUERIES)
def test_a_stream_by_columns_gives_what_one_by_rows_gives(
    spark_by: "Callable[[bool], SparkSession]",
    made: Layered,
    mode: str,
    query: "Callable[[SparkSession, Layered], DataFrame]",
    tmp_path: Path,
) -> None:
    found, came, is_by_columns = drained(query(spark_by(True), made), tmp_path / "columns", mode)
    assert is_by_columns
    assert drained(query(spark_by(False), made), tmp_path / "rows", mode) == (found, came, False)
    assert found
    assert came >= 100


def test_all_rows_that_come_are_counted(
    spark_by: "Callable[[bool], SparkSession]", made: Layered, tmp_path: Path
) -> None:
    entries = sum(len(made.store.stream(name)) for name in ("x", "t"))
    found, came, _ = drained(load(spark_by(True), made, "id string"), tmp_path / "all")
    assert len(found) == came == entries


def test_what_is_wrong_with_an_entry_is_told_in_our_words(
    spark_by: "Callable[[bool], SparkSession]", made: Layered, tmp_path: Path
) -> None:
    with pytest.raises(Exception, match=r"the field n does not parse as int64: b'\?'"):
        drained(load(spark_by(True), made, "n bigint", streams="t", mode="FAILFAST"), tmp_path / "strict")


def test_a_query_frees_its_batches(spark_by: "Callable[[bool], SparkSession]", made: Layered, tmp_path: Path) -> None:
    spark = spark_by(True)
    jvm: Any = spark._jvm
    allocator = jvm.org.apache.spark.sql.util.ArrowUtils.rootAllocator()
    before = allocator.getAllocatedMemory()  # a task of mapInArrow that failed keeps some, whatever it reads
    seen: list[int] = []
    frame = load(spark, made, batchRows=10)
    writer = frame.writeStream.option("checkpointLocation", str(tmp_path / "at"))
    query = writer.foreachBatch(lambda batch, _: seen.append(len(batch.limit(1).collect()))).start()
    query.processAllAvailable()
    query.stop()
    assert seen == [1]
    until(lambda: allocator.getAllocatedMemory() <= before)  # a task that is cut short ends after its query
