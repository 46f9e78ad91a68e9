"""Reading in a local session: what users see, and each trap of Spark's Python sources that concerns it."""

import gc
import pickle
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import diskstream
from diskstream import Store
from tests.streams.layers import Layered, layered, small_store

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyarrow as pa

import diskstream.spark
from diskstream.spark.options import ReadOptions
from diskstream.spark.schemas import default_schema
from diskstream.spark.source import DiskstreamSource, EntriesReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(autouse=True, scope="module")
def _registered(spark: "SparkSession") -> None:
    diskstream.spark.register(spark)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Layered]:
    """A stream `x` in every kind of segment. No test changes it."""
    with small_store(tmp_path_factory.mktemp("read") / "s") as store:
        yield layered(store)


def load(spark: "SparkSession", store: Store, schema: str = "", **options: Any) -> "DataFrame":
    reader = spark.read.format("diskstream").options(**options)
    return (reader.schema(schema) if schema else reader).load(str(store.path))


# --- layouts ----------------------------------------------------------------------------------------------------------


def test_the_default_schema_loses_nothing(spark: "SparkSession", made: Layered) -> None:
    """Trap 6: repeated names are there, in their order, as a map would not have them."""
    frame = load(spark, made.store, minPartitions=4)
    assert frame.schema.simpleString() == (
        "struct<stream:string,id_ms:bigint,id_seq:bigint,ts:timestamp,fields:array<struct<name:binary,value:binary>>>"
    )
    rows = frame.collect()
    assert {row.stream for row in rows} == {"x"}
    found = [((row.id_ms, row.id_seq), [(bytes(name), bytes(value)) for name, value in row.fields]) for row in rows]
    assert found == [((entry_id.ms, entry_id.seq), pairs) for entry_id, pairs in made.live]
    assert [row.ts.timestamp() * 1000 for row in rows[:3]] == [entry_id.ms for entry_id, _ in made.live[:3]]


def test_a_map_has_one_value_of_each_name(spark: "SparkSession", made: Layered) -> None:
    for duplicates, first in (("first", True), ("last", False)):
        rows = load(spark, made.store, layout="map", duplicateFields=duplicates).select("fields").collect()
        wanted = [dict(reversed(pairs)) if first else dict(pairs) for _, pairs in made.live]
        found = [{bytes(name): bytes(value) for name, value in row.fields.items()} for row in rows]
        assert found == wanted


def test_raw_entries_are_bytes(spark: "SparkSession", made: Layered) -> None:
    rows = load(spark, made.store, layout="raw", includeMetadata="true").collect()
    assert [len(row.entry) - row.size_bytes for row in rows] == [8 * len(pairs) for _, pairs in made.live]
    assert [row.segment for row in rows] == sorted(row.segment for row in rows)
    assert len({(row.segment, row.position) for row in rows}) == len(rows)


TYPED = (
    "b boolean, i8 tinyint, i16 smallint, i32 int, i64 bigint, f float, d double, n decimal(10,2), s string, y binary, "
    "day date, at timestamp, local timestamp_ntz, _corrupt array<struct<name:binary,value:binary>>, id string"
)
TYPED_NAMES = ("b", "i8", "i16", "i32", "i64", "f", "d", "n", "s", "y", "day", "at", "local")
NOON = datetime(2026, 11, 21, 12, 0, 0, 250_000, tzinfo=UTC)


@pytest.fixture
def typed(store: Store) -> Store:
    """An entry that fits, one that does not, one without the fields."""
    at = NOON.isoformat()
    good: dict[str, Any] = {"b": "yes", "i8": -128, "i16": 7, "i32": 7, "i64": 2**63 - 1, "f": 0.5, "d": "1e300"}
    good |= {"n": "12.345", "s": "żółw", "y": b"\xff", "day": "2026-11-21", "at": at, "local": at}
    store.stream("t").add(good, "1-0")
    store.stream("t").add(dict.fromkeys(good, b"?\xff"), "2-0")
    store.stream("t").add({"other": 1}, "3-0")
    return store


@pytest.mark.parametrize("rows", [1, 100])
def test_fields_become_typed_columns_and_what_does_not_parse_stands_beside_them(
    spark: "SparkSession", typed: Store, rows: int
) -> None:
    good, bad, none = load(spark, typed, TYPED, batchRows=rows).collect()
    assert (good.b, good.i8, good.i16, good.i32, good.i64) == (True, -128, 7, 7, 2**63 - 1)
    assert (good.f, good.d, good.n, good.s, bytes(good.y)) == (0.5, 1e300, Decimal("12.35"), "żółw", b"\xff")
    assert (good.day, good.at.astimezone(UTC), good.local) == (date(2026, 11, 21), NOON, NOON.replace(tzinfo=None))
    assert good._corrupt is None
    assert bytes(bad.y) == b"?\xff"
    assert {bytes(name).decode() for name, _ in bad._corrupt} == set(TYPED_NAMES) - {"y"}
    assert [value for value in bad if value is not None][1:] == [bad._corrupt, "2-0"]
    assert set(none) == {None, "3-0"}


def test_whether_a_row_has_bad_fields_does_not_depend_on_its_neighbours(spark: "SparkSession", typed: Store) -> None:
    """It was an empty list where another row of its batch had some, and null where none had."""
    for rows in (1, 100):
        frame = load(spark, typed, "i8 tinyint, _corrupt array<struct<name:binary,value:binary>>", batchRows=rows)
        assert frame.where("_corrupt is not null").count() == 1


def test_failfast_names_entry_field_and_value(spark: "SparkSession", typed: Store) -> None:
    with pytest.raises(Exception, match=r"entry 2-0: the field i8 does not parse as int8: b'\?\\xff'"):
        load(spark, typed, "i8 tinyint", mode="FAILFAST").collect()


def test_the_tail_may_be_left_out(spark: "SparkSession", made: Layered) -> None:
    whole = load(spark, made.store, includeMetadata="true")
    segments = [row.segment for row in whole.select("segment").collect()]
    assert load(spark, made.store, includeTail="false").count() == len(
        [each for each in segments if each < max(segments)]
    )


# --- names ------------------------------------------------------------------------------------------------------------

NAMES = {b"caf\xe9": "caf%E9", "żółw".encode(): "żółw", b"50%": "50%25", b"a,B": "a,B", b"Upper": "Upper", b"up": "up"}


@pytest.fixture
def named(store: Store) -> Store:
    for name in NAMES:
        store.stream(name).add({"n": 1})
    return store


def test_streams_of_any_name_are_read_and_named(spark: "SparkSession", named: Store) -> None:
    """Trap 10: names are in values of options, where case and commas stay; Spark would put a key into lower case."""
    frame = load(spark, named, "stream string")
    assert {row.stream for row in frame.collect()} == set(NAMES.values())
    for given, found in [
        ({"streams": "Upper"}, {"Upper"}),
        ({"streams": '["a,B", "caf%E9", "50%25"]'}, {"a,B", "caf%E9", "50%25"}),
        ({"streamPattern": "[Uc]*"}, {"Upper", "caf%E9"}),
        ({"streams": "Upper,up", "startingIds": '{"Upper": "latest"}'}, {"up"}),
    ]:
        assert {row.stream for row in load(spark, named, "stream string", **given).collect()} == found


# --- traps ------------------------------------------------------------------------------------------------------------


def test_filters_are_not_pushed_down_and_counts_stay_right(spark: "SparkSession", made: Layered) -> None:
    """Trap 1: with push-down, a count after a filter is the filter's, in silence."""
    assert "pushFilters" not in vars(EntriesReader)
    total, low = len(made.live), made.live[100][0].ms
    some = sum(entry_id.ms >= low for entry_id, _ in made.live)
    frame = load(spark, made.store)
    above = frame.filter(frame.id_ms >= low)
    assert [frame.count(), above.count(), frame.count()] == [total, some, total]
    assert frame.union(above).count() == total + some
    assert above.alias("a").join(frame.alias("b"), ["id_ms", "id_seq"]).count() == some
    assert frame.filter(frame.id_ms < low).union(above).count() == total


def test_behind_a_task_the_collector_has_little_to_look_at(spark: "SparkSession", tmp_path: Path) -> None:
    """PySpark collects garbage after each task: what a worker has imported by then is not to be looked at each time."""
    frozen_before = gc.get_freeze_count()  # Python 3.12 begins with some

    def frozen(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for _ in batches:
            rows = sum(batch.num_rows for each in partitions for batch in reader.read(each))
            yield pa.RecordBatch.from_pydict({"rows": [rows], "objects": [gc.get_freeze_count()]})

    with small_store(tmp_path / "s") as store:
        Layered(store, store.stream("x")).add(200)
        reader = EntriesReader(ReadOptions.parse({"path": str(store.path)}), default_schema(ReadOptions()))
        partitions = reader.partitions()
        (told,) = spark.range(0, 1, 1, 1).mapInArrow(frozen, "rows long, objects long").collect()
        assert told.rows == 200
        assert told.objects > 10_000
        assert sum(batch.num_rows for each in partitions for batch in reader.read(each)) == 200
    assert gc.get_freeze_count() == frozen_before  # a process that is no worker is left as it is


def test_a_frame_is_of_its_first_action_whatever_comes_or_goes(spark: "SparkSession", tmp_path: Path) -> None:
    """Trap 3: what is added later is not seen, and what is trimmed later is: the lease has it."""
    with small_store(tmp_path / "s") as store:
        made = Layered(store, store.stream("x"))
        made.add(200)
        store.seal()
        frame = load(spark, store, "id string", minPartitions=3)
        made.add(50)  # before the first action
        assert frame.count() == 250
        made.add(50)
        made.stream.trim(maxlen=10)
        store.seal()
        store.compact()
        assert frame.count() == 250
        assert len({row.id for row in frame.collect()}) == 250
        assert load(spark, store, "id string").count() == 10
        store.delete("x")
        assert frame.count() == 250


def test_whatever_read_needs_is_in_the_partition(made: Layered) -> None:
    """Trap 4: tasks have the reader as it was before `partitions` ran."""
    options = ReadOptions.parse({"path": str(made.store.path), "minpartitions": "3"})
    reader = EntriesReader(options, DiskstreamSource({"path": str(made.store.path)}).schema())
    sent = pickle.dumps(reader)
    partitions = [pickle.dumps(partition) for partition in reader.partitions()]
    assert pickle.dumps(reader) == sent
    found = [batch for each in partitions for batch in pickle.loads(sent).read(pickle.loads(each))]
    assert sum(batch.num_rows for batch in found) == len(made.live)


def test_every_batch_is_of_exactly_the_schema(spark: "SparkSession", store: Store) -> None:
    """Trap 5: Spark looks at the first one only; here null-only, empty and full batches, in any order of columns."""
    from pyspark.sql.pandas.types import to_arrow_schema

    for number in range(12):
        store.stream("x").add({"other": 1} if number < 6 else {"a": "?" if number % 2 else 5, "s": "text"})
    corrupt = "_corrupt array<struct<name:binary,value:binary>>"
    for text in [
        f"s string, {corrupt}, ts timestamp, a int, id string, stream string, id_seq bigint, a2 decimal(5,1)",
        "fields array<struct<name:binary,value:binary>>, id_ms bigint, stream string",
        "stream string, fields map<binary,binary>",
        "size_bytes bigint, entry binary",
        "n timestamp_ntz, id_ms bigint",
        "id_ms bigint not null, fields array<struct<name:binary,value:binary>>",
    ]:
        frame = load(spark, store, text, batchRows=1)
        options = ReadOptions.parse({"path": str(store.path), "batchrows": "1"})
        reader = EntriesReader(options, frame.schema)
        (partition,) = reader.partitions()
        batches = list(reader.read(partition))
        assert sum(batch.num_rows for batch in batches) == 12
        for batch in batches:
            batch.validate(full=True)
            assert batch.schema.equals(to_arrow_schema(frame.schema, timezone="UTC"))
        assert len(frame.collect()) == 12
        assert load(spark, store, text, startingIds="latest").collect() == []


def test_an_empty_store_has_no_rows(spark: "SparkSession", store: Store) -> None:
    assert load(spark, store).count() == 0
    store.stream("x").add({"n": 1})
    store.stream("x").trim(maxlen=0)
    assert load(spark, store).collect() == []


def test_a_field_that_must_be_there_and_is_not_is_told(spark: "SparkSession", store: Store) -> None:
    """NOT NULL is a promise that fields may not keep: Spark ended with a Java stack, or took what stood there."""
    store.stream("x").add({"a": 5}, "1-0")
    store.stream("x").add({"b": 6}, "2-0")
    assert load(spark, store, "a bigint not null", endingIds="1").first() == (5,)
    with pytest.raises(Exception, match="column a is NOT NULL, but entries of stream x have no value for it"):
        load(spark, store, "a bigint not null").collect()


# --- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "schema", "says"),
    [
        ({"stream": "x"}, "", "has no option stream; did you mean streams\\?"),
        ({"streams": "none"}, "", "the store has no stream 'none'"),
        ({"layout": "typed"}, "", "layout=typed needs the columns"),
        ({}, "id_ms string", "column id_ms is string, but it stands for part of an entry"),
        ({"startingIds": "x"}, "", "option startingIds='x': it takes earliest, latest, an ID"),
    ],
)
def test_a_mistake_is_told_in_our_words(
    spark: "SparkSession", made: Layered, options: dict[str, str], schema: str, says: str
) -> None:
    with pytest.raises(Exception, match=says):
        load(spark, made.store, schema, **options).collect()


def test_no_such_path_is_told_in_our_words(spark: "SparkSession", tmp_path: Path) -> None:
    with pytest.raises(Exception, match="there is no such directory on the driver"):
        spark.read.format("diskstream").load(str(tmp_path / "none")).collect()


# --- registration -----------------------------------------------------------------------------------------------------


def test_the_format_is_known_without_being_registered(spark: "SparkSession", made: Layered) -> None:
    """Trap 12: Spark finds `pyspark_diskstream` by its name; what was registered is known to one session only."""
    another = spark.newSession()
    assert load(another, made.store).count() == len(made.live)
