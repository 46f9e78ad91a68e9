"""Scans by columns give what scans by rows give; and where they cannot be, scans go by rows."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from diskstream import DiskstreamError
from tests.engine.children import until
from tests.streams.layers import Layered, layered, small_store

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark.sql.functions import broadcast

from diskstream.spark import register
from diskstream.spark.columnar import compile_jar, scan_by_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TYPED = (
    "b boolean, i8 tinyint, i16 smallint, i32 int, i64 bigint, f float, d double, n decimal(10,2), "
    "wide decimal(38,10), s string, y binary, day date, at timestamp, local timestamp_ntz, none string, stream string, "
    "_corrupt array<struct<name:binary,value:binary>>, id string, id_ms bigint, id_seq bigint, ts timestamp"
)


@pytest.fixture(scope="module")
def made(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Layered]:
    """A stream `x` in every kind of segment, and `t` with fields of each type, some that do not parse, some missing."""
    with small_store(tmp_path_factory.mktemp("columnar") / "s") as store:
        found = layered(store)
        good = {"b": "yes", "i8": -128, "i16": 7, "i32": 7, "i64": 2**63 - 1, "f": 0.5, "d": "1e300", "n": "12.345"}
        good |= {"wide": "-9999999999999999999999999999.5", "s": "żółw", "y": b"\xff", "day": "2026-11-21"}
        good |= {"at": "2026-11-21T12:00:00.25", "local": "2026-11-21T12:00:00.25"}
        rows: list[dict[Any, Any]] = [good, dict.fromkeys(good, b"?\xff"), {"other": 1}, dict.fromkeys(good, "")]
        store.stream("t").add_many(rows * 25)
        yield found


@pytest.fixture
def by_columns(spark: "SparkSession") -> "Iterator[SparkSession]":
    register(spark)
    yield spark
    register(spark)


def load(spark: "SparkSession", made: Layered, schema: str = "", **options: Any) -> "DataFrame":
    reader = spark.read.format("diskstream").options(**options)
    return (reader.schema(schema) if schema else reader).load(str(made.store.path))


def goes_by_columns(frame: "DataFrame") -> bool:
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "BatchScan diskstream" in plan
    return "(Python) columnar" in plan


QUERIES: "dict[str, Callable[[SparkSession, Layered], DataFrame]]" = {
    "fields": load,
    "fields, metadata": lambda spark, made: load(spark, made, includeMetadata="true", minPartitions=3),
    "map": lambda spark, made: load(spark, made, layout="map").selectExpr("id_ms", "array_sort(map_entries(fields))"),
    "raw": lambda spark, made: load(spark, made, layout="raw"),
    "typed": lambda spark, made: load(spark, made, TYPED, streams="t", batchRows=7),
    "no rows": lambda spark, made: load(spark, made, TYPED, startingIds="9999999999999-0"),
    "a few columns": lambda spark, made: load(spark, made).select("id_seq", "fields.value"),
    "a filter": lambda spark, made: load(spark, made, TYPED).where("i32 = 7 or s is null"),
    "groups": lambda spark, made: load(spark, made, TYPED).groupBy("s").agg({"s": "max", "i64": "max", "*": "count"}),
    "a join": lambda spark, made: load(spark, made, TYPED).join(load(spark, made, "id string, b boolean"), "id"),
    "a broadcast join": lambda spark, made: load(spark, made, TYPED).join(
        broadcast(load(spark, made, "id string, b boolean").where("b")), "id"
    ),
    "a broadcast of groups": lambda spark, made: load(spark, made, TYPED).join(
        broadcast(load(spark, made, TYPED).groupBy("s").count()), "s"
    ),
    "a union": lambda spark, made: load(spark, made, TYPED).unionAll(load(spark, made, TYPED)),
    "text from rows": lambda spark, made: load(spark, made, "y binary, s string").selectExpr("to_json(struct(*))"),
    "no columns": lambda spark, made: load(spark, made).selectExpr("count(*)"),
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_a_scan_by_columns_gives_what_one_by_rows_gives(
    by_columns: "SparkSession", made: Layered, query: "Callable[[SparkSession, Layered], DataFrame]"
) -> None:
    frame = query(by_columns, made)
    assert goes_by_columns(frame)
    found = sorted(map(str, frame.collect()))
    register(by_columns, columnar=False)
    frame = query(by_columns, made)
    assert not goes_by_columns(frame)
    assert found == sorted(map(str, frame.collect()))
    assert found or query is QUERIES["no rows"]


def test_batches_lie_in_memory_that_the_jvm_has_mapped(by_columns: "SparkSession", tmp_path: Path) -> None:
    """As long as a task reads, and no longer; nothing is left where the task and its worker met."""
    with small_store(tmp_path / "s") as store:
        store.stream("x").add_many([{"text": f"{n:0500}"} for n in range(20_000)])  # more than what sockets hold
    java: Any = by_columns._jvm
    jvm = java.java.lang.ProcessHandle.current().pid()
    met_in = Path(java.java.lang.System.getProperty("java.io.tmpdir"))  # of this session alone
    shared = "memfd:diskstream-columns"

    def mapped(batches):  # type: ignore[no-untyped-def]  # unpickled where names of types are none
        import pyarrow as pa

        for batch in batches:
            with Path(f"/proc/{jvm}/maps").open() as maps:
                yield pa.record_batch({"mapped": [shared in maps.read()], "text": batch["text"][:1]})

    reader = by_columns.read.format("diskstream").schema("text string").options(batchRows=500, minPartitions=1)
    found = reader.load(str(tmp_path / "s")).mapInArrow(mapped, "mapped boolean, text string").collect()
    assert found[0].text == f"{0:0500}"
    assert found[0].mapped
    until(lambda: not list(met_in.glob("diskstream-*")))  # a task of an earlier test that was cut short ends late
    until(lambda: shared not in Path(f"/proc/{jvm}/maps").read_text())


def test_a_query_that_wants_no_more_rows_frees_its_batches(by_columns: "SparkSession", made: Layered) -> None:
    jvm: Any = by_columns._jvm
    allocator = jvm.org.apache.spark.sql.util.ArrowUtils.rootAllocator()
    before = allocator.getAllocatedMemory()  # a task of mapInArrow that failed keeps some, whatever it reads
    for _ in range(3):
        assert load(by_columns, made, batchRows=10).limit(1).count() == 1
        assert len(load(by_columns, made, batchRows=10).take(2)) == 2
    until(lambda: allocator.getAllocatedMemory() <= before)  # a task that is cut short ends after its query


def test_a_program_that_wants_no_more_rows_does_not_take_the_jvm_along(
    by_columns: "SparkSession", tmp_path: Path
) -> None:
    """What feeds it is a thread of its own, which may be reading a batch when the task is over."""
    with small_store(tmp_path / "s") as store:
        store.stream("x").add_many([{"text": f"{n:0100}"} for n in range(60_000)])
    jvm: Any = by_columns._jvm
    reader = by_columns.read.format("diskstream").schema("text string").options(batchRows=5000)
    frame: Any = reader.load(str(tmp_path / "s"))
    allocator = jvm.org.apache.spark.sql.util.ArrowUtils.rootAllocator()
    before = allocator.getAllocatedMemory()  # a task of mapInArrow that failed keeps some, whatever it reads
    for _ in range(3):
        assert frame._jdf.javaRDD().pipe("head -n 1").count() >= 1
    until(lambda: allocator.getAllocatedMemory() <= before)


def test_what_is_wrong_with_an_entry_is_told_in_our_words(by_columns: "SparkSession", made: Layered) -> None:
    frame = load(by_columns, made, "i8 tinyint", streams="t", mode="FAILFAST")
    assert goes_by_columns(frame)
    with pytest.raises(Exception, match=r"the field i8 does not parse as int8: b'\?\\xff'"):
        frame.collect()


def test_other_sources_are_left_alone(by_columns: "SparkSession", tmp_path: Path) -> None:
    from pyspark.sql.datasource import DataSource, DataSourceReader

    class Other(DataSource):
        @classmethod
        def name(cls) -> str:
            return "other"

        def schema(self) -> str:
            return "n int"

        def reader(self, schema: Any) -> DataSourceReader:
            class Reader(DataSourceReader):
                def read(self, partition):  # type: ignore[no-untyped-def]  # unpickled where `Any` is no name
                    yield (7,)

            return Reader()

    by_columns.dataSource.register(Other)
    frame = by_columns.read.format("other").load()
    assert "columnar" not in frame._jdf.queryExecution().executedPlan().toString()
    assert frame.collect() == [(7,)]


def test_registering_twice_changes_nothing(by_columns: "SparkSession") -> None:
    rules = by_columns._jsparkSession.experimental().extraStrategies().size()
    register(by_columns)
    assert by_columns._jsparkSession.experimental().extraStrategies().size() == rules


def test_a_session_on_a_server_is_left_as_it_is() -> None:
    class Connected:
        version = "4.3.0"

    assert not scan_by_columns(Connected())  # type: ignore[arg-type]  # a stand-in


# --- the jar ----------------------------------------------------------------------------------------------------------


def test_a_spark_without_a_compiler_is_told(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(
        DiskstreamError, match=r"without them scans go by rows\. The compiler says:\n.*\n.*ClassNotFound"
    ):
        compile_jar(tmp_path)
    assert list(tmp_path.iterdir()) == []
