"""Tables and views of Spark's catalog: which way their options reach the source, and what it says where none does."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import diskstream
from diskstream import ArgumentError, Store

pytest.importorskip("pyspark")

from diskstream.spark.options import ReadOptions, WriteOptions
from diskstream.spark.source import DiskstreamSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def session(spark: "SparkSession") -> "Iterator[SparkSession]":
    """A session with a table `readings`, of columns and a path; whatever a test makes in its catalog is dropped."""
    from diskstream.spark import register

    register(spark)
    spark.sql("CREATE TABLE readings (n BIGINT, s STRING) USING diskstream OPTIONS (path '/never', streams 'none')")
    yield spark
    for each in spark.catalog.listTables():
        spark.sql(f"DROP {'VIEW' if each.isTemporary else 'TABLE'} IF EXISTS {each.name}")


@pytest.fixture
def filled(store: Store) -> Store:
    store.stream("in").add_many([{"n": n, "s": f"s{n}"} for n in range(5)])
    return store


def numbers(store: Store, name: str) -> list[int]:
    return [int(entry[b"n"]) for entry in store.stream(name)]


# --- without Spark ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ReadOptions, WriteOptions])
def test_without_a_path_a_table_of_the_catalog_is_told_how_it_is_used(
    kind: type[ReadOptions] | type[WriteOptions],
) -> None:
    """Spark hands a table's options, its path among them, to nobody: all that comes is what the query gives."""
    with pytest.raises(ArgumentError, match=r"a table of the catalog .* WITH \(path = '/data/store'"):
        kind.parse({}).check()


def test_a_table_without_columns_is_told_that_it_needs_some() -> None:
    """So Spark asks for the columns of one: `location` was said to be an unknown option, though nobody had given it."""
    given = {
        "location": "file:/data/store",
        "option.streams": "in",
        "owner": "root",
        "path": "file:/data/store",
        "provider": "diskstream",
        "streams": "in",
    }
    with pytest.raises(ArgumentError, match=r"CREATE TABLE t \(sensor STRING, .*CREATE TEMPORARY VIEW"):
        DiskstreamSource(given).schema()


# --- in a session -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [
        lambda spark: spark.sql("SELECT * FROM readings").collect(),
        lambda spark: spark.read.table("readings").collect(),
        lambda spark: spark.sql("INSERT INTO readings VALUES (1, 'x')"),
        lambda spark: spark.sql("CREATE TABLE other USING diskstream OPTIONS (path '/data') AS SELECT 1 AS n"),
        lambda spark: spark.sql("CREATE TABLE other USING diskstream OPTIONS (path '/data', streams 'in')"),
        lambda spark: spark.sql("CREATE TABLE other USING diskstream LOCATION '/data'"),
        lambda spark: spark.catalog.createTable("other", path="/data", source="diskstream"),
    ],
)
def test_what_cannot_work_says_what_does(session: "SparkSession", use: "Callable[[SparkSession], object]") -> None:
    with pytest.raises(Exception, match=r"ArgumentError: .*a table of the catalog"):
        use(session)


def test_a_table_is_read_and_written_with_the_options_of_the_query(session: "SparkSession", filled: Store) -> None:
    said = f"path = '{filled.path}', streams = 'in'"
    assert session.sql(f"SELECT n FROM readings WITH ({said}) WHERE n > 2 ORDER BY n").collect() == [(3,), (4,)]
    assert session.read.options(path=str(filled.path), streams="in").table("readings").count() == 5
    session.sql(f"INSERT INTO readings WITH (path = '{filled.path}', stream = 'sql') VALUES (7, 'x'), (8, NULL)")
    assert [entry.fields for entry in filled.stream("sql")] == [{b"n": b"7", b"s": b"x"}, {b"n": b"8"}]


def test_a_query_that_names_a_table_twice_reads_it_with_the_options_of_each(
    session: "SparkSession", filled: Store
) -> None:
    """Spark makes one source for a name in a query, with the options that it saw first: `in` was read for `x`."""
    filled.stream("x").add_many([{"n": 100 + n, "s": "x"} for n in range(3)])
    one, other = (f"readings WITH (path = '{filled.path}', streams = '{name}')" for name in ("in", "x"))
    for query in (
        f"SELECT max(n) AS n FROM {one} UNION ALL SELECT max(n) FROM {other}",
        f"SELECT max(n) AS n FROM {one} UNION ALL SELECT (SELECT max(n) FROM {other})",
        f"WITH b AS (SELECT * FROM {other}) SELECT max(n) AS n FROM {one} UNION ALL SELECT max(n) FROM b",
    ):
        assert [row.n for row in session.sql(query).collect()] == [4, 102]
    assert session.sql(f"SELECT * FROM {one} a JOIN {other} b ON b.n = a.n + 100").count() == 3


def test_a_table_is_written_to_by_each_writer_of_frames(session: "SparkSession", filled: Store) -> None:
    frame = session.createDataFrame([(1, "x")], "n bigint, s string")
    path = str(filled.path)
    frame.writeTo("readings").option("path", path).option("stream", "a").append()
    frame.writeTo("made").using("diskstream").option("path", path).option("stream", "b").create()
    frame.write.format("diskstream").mode("append").options(path=path, stream="c").saveAsTable("readings")
    frame.write.format("diskstream").options(path=path, stream="d").saveAsTable("new")
    assert [numbers(filled, name) for name in "abcd"] == [[1]] * 4


def test_a_streaming_query_from_a_table_into_another(session: "SparkSession", filled: Store, tmp_path: Path) -> None:
    options = {"path": str(filled.path), "streams": "in", "startingIds": "earliest"}
    writer = session.readStream.options(**options).table("readings").writeStream
    writer = writer.options(path=str(filled.path), stream="out", checkpointLocation=str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).toTable("copies", format="diskstream").awaitTermination()
    assert numbers(filled, "out") == list(range(5))


def test_a_view_keeps_its_options_for_what_it_was_made_for(session: "SparkSession", filled: Store) -> None:
    for name, kind in (("seen", "streams"), ("sink", "stream")):
        session.sql(
            f"CREATE TEMPORARY VIEW {name} (n BIGINT, s STRING) USING diskstream OPTIONS (path '{filled.path}', "
            f"{kind} '{'in' if kind == 'streams' else 'out'}')"
        )
    session.sql("INSERT INTO sink SELECT n * 2, s FROM seen")
    assert sorted(numbers(filled, "out")) == [0, 2, 4, 6, 8]
    session.sql(f"CREATE TEMPORARY VIEW plain USING diskstream OPTIONS (path '{filled.path}', streams 'in')")
    assert session.table("plain").columns == ["stream", "id_ms", "id_seq", "ts", "fields"]


def test_a_view_shows_what_there_was_at_its_first_query_and_a_table_what_there_is(
    session: "SparkSession", filled: Store
) -> None:
    """As the docs have it: Spark keeps what a Python source has planned for a view, as for a DataFrame."""
    made = f"TEMPORARY VIEW kept (n BIGINT, s STRING) USING diskstream OPTIONS (path '{filled.path}', streams 'in')"
    session.sql(f"CREATE {made}")

    def counted() -> tuple[int, int]:
        table = session.sql(f"SELECT n FROM readings WITH (path = '{filled.path}', streams = 'in')")
        return session.sql("SELECT n FROM kept").count(), table.count()

    assert counted() == (5, 5)
    filled.stream("in").add({"n": "5"})
    session.sql("REFRESH TABLE kept")
    assert counted() == (5, 6)
    session.sql(f"CREATE OR REPLACE {made}")
    assert counted() == (6, 6)
    shutil.rmtree(filled.path / "leases")  # as who takes the next lease removes old ones
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match="a DataFrame or a view that is used for longer than leaseTtl"):
        counted()


def test_a_table_that_is_dropped_takes_nothing_of_the_store_along(session: "SparkSession", filled: Store) -> None:
    """Spark deletes the directory of a table that it takes for its own."""
    path = str(filled.path)
    session.sql(f"CREATE TABLE placed (n BIGINT) USING diskstream LOCATION '{path}'")
    session.sql(f"CREATE TABLE opted (n BIGINT) USING diskstream OPTIONS (path '{path}')")
    frame = session.createDataFrame([(1,)], "n bigint")
    frame.writeTo("made").using("diskstream").option("path", path).option("stream", "out").create()
    for name in ("placed", "opted", "made"):
        session.sql(f"DROP TABLE {name} PURGE")
    with diskstream.open(path, read_only=True) as again:
        assert numbers(again, "in") == list(range(5))
