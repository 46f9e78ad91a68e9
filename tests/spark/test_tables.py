"""Groups as tables of Spark, and the real logs: what the embedded calls say, and what pandas counts."""

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

import diskstream
from diskstream import leases
from diskstream.errors import ArgumentError, NotAStoreError
from diskstream.spark.options import ReadOptions
from diskstream.spark.tables import SCHEMAS, StreamPartition, TableReader, table_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two groups at work, in a stream that was sealed in between, and one stream without any."""
    where = tmp_path / "store"
    with diskstream.open(where) as store:
        stream = store.stream("jobs")
        ids = stream.add_many([{"n": n} for n in range(20)])
        group = stream.group("g%", start="0")
        for entry in group.consumer("ann").read(count=6)[:2]:
            entry.ack()
        store.seal()
        group.consumer("bob").read(count=3)
        group.consumer("eve").claim_ids(ids[2])
        group.nack(ids[3])
        stream.group("idle", start="$")
        store.stream("other").add({"n": 0})
    return where


def rows(path: Path, table: str, **options: str) -> list[dict[str, Any]]:
    """As a task makes them, without a session."""
    parsed = ReadOptions.parse({"path": str(path), "table": table, **options}).check()
    reader = TableReader(parsed, table_schema(table))
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def test_the_tables_say_what_the_group_says(path: Path) -> None:
    groups = {row["group"]: row for row in rows(path, "groups")}
    assert set(groups) == {"g%25", "idle"}
    found = groups["g%25"]
    assert (found["consumers"], found["pending"], found["refused"], found["lag"]) == (3, 7, 1, 11)
    assert {row["consumer"]: row["pending"] for row in rows(path, "consumers")} == {"ann": 2, "bob": 3, "eve": 1}
    pending = rows(path, "pending")
    with diskstream.open(path, read_only=True) as store:
        said = store.stream("jobs").group("g%", create=False).pending_range(count=100)
    assert [row["id"] for row in pending] == [str(each.id) for each in said]
    assert [row["consumer"] or "" for row in pending] == [each.consumer.decode() for each in said]
    assert [row["deliveries"] for row in pending] == [each.deliveries for each in said]


def test_a_consumer_without_a_name_is_not_taken_for_nobody(path: Path) -> None:
    with diskstream.open(path) as store:
        group = store.stream("jobs").group("g%", create=False)
        (entry,) = group.consumer("").read(count=1)
    found = {row["id"]: row for row in rows(path, "pending") if row["consumer"] in ("", None)}
    own = found.pop(str(entry.id))
    assert (own["consumer"], own["delivered"] is None, own["idle_ms"] is None) == ("", False, False)
    (refused,) = found.values()
    assert (refused["consumer"], refused["delivered"], refused["idle_ms"]) == (None, None, None)


def test_the_audit_tells_who_got_what_across_the_sealing(path: Path) -> None:
    found = rows(path, "audit")
    actions = [(row["action"], row["consumer"]) for row in found if row["id"]]
    assert actions.count(("deliver", "ann")) == 6
    assert actions.count(("deliver", "bob")) == 3
    assert actions.count(("claim", "eve")) == 1
    assert [row["action"] for row in found].count("ack") == 2
    assert [row["lsn"] for row in found] == sorted(row["lsn"] for row in found)
    assert rows(path, "audit", startingTimestamp="2100-01-01") == []
    assert rows(path, "audit", endingTimestamp="0") == rows(path, "audit", endingTimestamp="1969-12-31") == []


def test_a_table_has_its_own_columns(path: Path) -> None:
    with pytest.raises(ArgumentError, match="has its own columns: stream string, group string"):
        TableReader(ReadOptions.parse({"path": str(path), "table": "groups"}), table_schema("pending"))


def test_a_lease_that_is_gone_or_not_seen_is_told_as_for_entries(path: Path, tmp_path: Path) -> None:
    options: ReadOptions = ReadOptions.parse({"path": str(path), "table": "pending"})
    reader = TableReader(options, table_schema("pending"))
    partition, *_ = reader.partitions()
    assert isinstance(partition, StreamPartition)
    assert list(reader.read(partition))
    leases.release(Path(partition.path))
    with pytest.raises(NotAStoreError, match=r"the lease has run out or was removed: driver and workers .* leaseTtl"):
        list(reader.read(partition))
    path.rename(tmp_path / "elsewhere")
    with pytest.raises(NotAStoreError, match="it is not there: driver and workers must see the store"):
        list(reader.read(partition))


def test_sql_over_the_tables(spark: "SparkSession", path: Path) -> None:
    for table in SCHEMAS:
        frame = spark.read.format("diskstream").option("table", table).load(str(path))
        assert frame.count() == len(rows(path, table))
        frame.createOrReplaceTempView(table)
    [row] = spark.sql(
        "select count(*) n from pending join audit using (stream, group, id) where audit.action = 'deliver'"
    ).collect()
    assert row.n == 7


def test_the_real_logs_are_counted_as_pandas_does(spark: "SparkSession", shared_dir: Path, tmp_path: Path) -> None:
    """Each log of the data, a stream; its lines by level (or the first column that is one)."""
    import pandas as pd
    from pyspark.sql import functions

    with zipfile.ZipFile(shared_dir / "data" / "loghub.zip") as packed:
        packed.extractall(tmp_path)
    expected: dict[tuple[str, str], int] = {}
    with diskstream.open(tmp_path / "store", segment_bytes=65536) as store:
        for file in sorted((tmp_path / "loghub").glob("*.csv")):
            read = pd.read_csv(file, dtype=str, keep_default_na=False)
            by = "Level" if "Level" in read else "EventId"
            store.stream(file.stem).add_many([{**row, "by": row[by]} for row in read.to_dict("records")])
            expected.update({(file.stem, str(key)): int(n) for key, n in read[by].value_counts().items()})
        store.seal()
    frame = (
        spark.read.format("diskstream").schema("stream string, by string, Content string").load(str(tmp_path / "store"))
    )
    counted = frame.groupBy("stream", "by").agg(functions.count("*").alias("n"), functions.count("Content").alias("c"))
    found = {(row.stream, row.by): row.n for row in counted.collect()}
    assert found == expected
    assert sum(expected.values()) > 10_000
