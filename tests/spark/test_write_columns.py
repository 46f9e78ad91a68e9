"""Writing from Spark: which columns are fields, which are parts of an entry, and which are refused, in words."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import ArgumentError

pa = pytest.importorskip("pyarrow")
types = pytest.importorskip("pyspark.sql.types")

from diskstream.spark.options import ReadOptions
from diskstream.spark.rows import Target, by_stream
from diskstream.spark.schemas import default_schema
from diskstream.spark.writers import EntriesWriter
from tests.spark.staged_rows import LONG, TEXT, options, schema

CORRUPT = types.ArrayType(schema(name=types.BinaryType(), value=types.BinaryType()))
BINARY, TIME, DOUBLE = types.BinaryType(), types.TimestampType(), types.DoubleType()
PARTS = ["position", "segment", "size_bytes", "ts", "entry", "_corrupt", "id", "id_ms", "id_seq", "stream", "fields"]


def written(at: Path, kinds: Any, columns: dict[str, Any], **given: str) -> list[tuple[str, dict[bytes, bytes]]]:
    """What a batch of one task becomes in stream x: its IDs, and its fields."""
    said = options(path=str(at), stream="x", **given)
    writer = EntriesWriter(said, kinds, overwrite=False)
    writer.commit([writer.write(iter([pa.record_batch(columns)]))])
    with diskstream.open(at) as store:
        return [(str(entry.id), dict(entry.fields)) for entry in store.stream("x")]


# --- columns ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["fields", "map"])
def test_what_a_read_gives_beside_the_fields_stays_out(layout: str) -> None:
    read: ReadOptions = ReadOptions.parse({"path": "unused", "layout": layout, "includemetadata": "true"})
    assert Target.of(default_schema(read), options()).columns == ("fields",)


def test_an_entry_as_it_is_stored_is_no_field() -> None:
    """A raw read that was written again nested each entry in a field of another."""
    read: ReadOptions = ReadOptions.parse({"path": "unused", "layout": "raw"})
    with pytest.raises(ArgumentError, match=r"no column that could be a field.*layout=fields"):
        Target.of(default_schema(read), options())


@pytest.mark.parametrize(
    ("columns", "given", "left"),
    [
        ({"id": TEXT}, {}, "column id would not be written.*`field:id`.*drop.*ids=columns"),
        ({"id_ms": LONG, "id_seq": LONG}, {}, "columns id_ms, id_seq would not be written.*ids=columns"),
        ({"ts": TIME, "id": TEXT}, {"ids": "columns"}, r"column ts would not be written.*\.drop\('ts'\)\)$"),
        ({"id_ms": LONG, "id_seq": LONG, "id": TEXT}, {"ids": "columns"}, "column id would not"),
        ({"position": LONG}, {}, "column position would not"),
        ({"segment": LONG, "size_bytes": LONG}, {}, "columns segment, size_bytes would not"),
        ({"entry": BINARY}, {}, "column entry would not"),
        ({"_corrupt": CORRUPT}, {}, "column _corrupt would not"),
        ({"stream": TEXT}, {}, "column stream would not.*leave out the option stream"),
    ],
)
def test_no_column_goes_without_a_word(columns: dict[str, Any], given: dict[str, str], left: str) -> None:
    """An order's `id` or `ts` was taken for the entry's, and was in no stream."""
    with pytest.raises(ArgumentError, match=left):
        Target.of(schema(**columns, n=LONG), options(stream="x", **given))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("position", TEXT),
        ("segment", types.IntegerType()),
        ("size_bytes", DOUBLE),
        ("ts", TEXT),
        ("entry", TEXT),
        ("_corrupt", TEXT),
        ("id", LONG),
        ("id_ms", TIME),
        ("id_ms", TEXT),
        ("id_ms", DOUBLE),
        ("id_seq", types.DecimalType(20, 1)),
        ("id_seq", types.DecimalType(21, 0)),
        ("stream", LONG),
        ("stream", BINARY),
        ("fields", TEXT),
        ("fields", LONG),
        ("fields", types.ArrayType(TEXT)),
        ("fields", schema(name=TEXT, value=TEXT)),
        ("fields", types.ArrayType(schema(name=TEXT))),
    ],
)
@pytest.mark.parametrize("given", [{"ids": "columns"}, {}], ids=["ids=columns", "ids=auto"])
def test_a_column_named_as_a_part_but_of_another_type_is_refused(name: str, kind: Any, given: dict[str, str]) -> None:
    """It went without a word, or was misunderstood."""
    columns = {"id_ms": LONG, "id_seq": LONG} | ({} if name == "fields" else {"n": LONG}) | {name: kind}
    with pytest.raises(
        ArgumentError,
        match=f"column {name} is {kind.simpleString()}.*is column `field:{name}`".replace("(", r"\(").replace(
            ")", r"\)"
        ),
    ):
        Target.of(schema(**columns), options(stream="x", **given))


@pytest.mark.parametrize(
    "kind",
    [
        types.ArrayType(TEXT),
        types.MapType(TEXT, LONG),
        schema(n=LONG),
        types.DayTimeIntervalType(),
        types.YearMonthIntervalType(),
        types.VariantType(),
    ],
    ids=lambda kind: kind.typeName(),
)
def test_what_no_field_can_be_made_of_is_refused_before_any_task(kind: Any) -> None:
    """Tasks found out when their rows were computed, and only where there were any."""
    with pytest.raises(ArgumentError, match=r"column deep is .*, of which no field can be made: .*to_json"):
        Target.of(schema(deep=kind, n=LONG), options(stream="x"))


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        (types.ArrayType(schema(name=TEXT, value=TEXT)), pa.array([[{"name": "a", "value": "1"}]])),
        (types.ArrayType(schema(value=BINARY, name=TEXT)), pa.array([[{"value": b"1", "name": "a"}]])),
        (types.MapType(TEXT, LONG), pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))),
    ],
    ids=["text", "text and binary", "numbers"],
)
def test_fields_may_be_of_other_types_where_they_have_names_and_values(tmp_path: Path, kind: Any, column: Any) -> None:
    ((_, fields),) = written(tmp_path, schema(fields=kind), {"fields": column})
    assert fields == {b"a": b"1"}


@pytest.mark.parametrize("kind", [types.ByteType(), types.ShortType(), types.IntegerType(), types.DecimalType(20, 0)])
def test_ids_may_be_any_whole_numbers(kind: Any) -> None:
    columns = {"id_ms": kind, "id_seq": kind, "n": LONG}
    assert Target.of(schema(**columns), options(stream="x", ids="columns")).given


def test_a_field_may_have_any_name_by_the_prefix(tmp_path: Path) -> None:
    """As when it is read: one prefix is taken off."""
    names = [*PARTS, "plain", "field:plain", ""]
    columns = {f"field:{name}": [name] for name in names}
    (entry,) = written(tmp_path, schema(**dict.fromkeys(columns, TEXT)), columns)
    assert entry[1] == {name.encode(): name.encode() for name in names}


def test_a_field_by_the_prefix_stands_beside_the_part_of_its_name(tmp_path: Path) -> None:
    kinds = schema(**{"id_ms": LONG, "id_seq": LONG, "field:id_ms": TEXT, "position": LONG, "field:position": TEXT})
    columns = {"id_ms": [7], "id_seq": [8], "field:id_ms": ["a"], "position": [9], "field:position": ["b"]}
    assert written(tmp_path, kinds, columns, ids="columns") == [("7-8", {b"id_ms": b"a", b"position": b"b"})]


def test_two_columns_that_mean_one_field_are_refused() -> None:
    with pytest.raises(ArgumentError, match="two columns, n and field:n, are one field"):
        Target.of(schema(**{"n": LONG, "field:n": LONG}), options(stream="x"))


def test_the_one_name_that_no_column_can_stand_for_is_refused() -> None:
    """`Stream.add_arrow` would take the second prefix off as well."""
    with pytest.raises(ArgumentError, match=r"no column .*'field:id'.* column fields"):
        Target.of(schema(**{"field:field:id": TEXT}), options(stream="x"))


# --- times ------------------------------------------------------------------------------------------------------------

US = pa.timestamp("us", "UTC")
DAY_US = 24 * 3600 * 1_000_000
# What `date` and `timestamp` can be read from.
FIRST, LAST = -719_528, 2_932_896


@pytest.mark.parametrize(
    ("days", "text"),
    [
        (FIRST - 1, "-0001-12-31"),
        (-12_688_149, "-32769-01-11"),
        (LAST + 1, "10000-01-01"),
        (11_248_748, "32768-01-11"),
        (19_675_925, "55840-11-08"),  # of 1700000000000, milliseconds that were cast as seconds
        (-12_688_149 * 8, "-275942-03-23"),
    ],
)
def test_times_that_could_not_be_read_back_are_refused(tmp_path: Path, days: int, text: str) -> None:
    """They became other times, and dates `<value out of range: ...>`, without a word."""
    columns = [
        (types.DateType(), pa.array([0, days, None], pa.int32()).cast(pa.date32())),
        (types.DateType(), pa.array([0, days * DAY_US // 1000, None], pa.int64()).cast(pa.date64())),
        (TIME, pa.array([0, days * DAY_US + DAY_US - 1, None], pa.int64()).cast(US)),
        (types.TimestampNTZType(), pa.array([0, days * DAY_US, None], pa.int64()).cast(pa.timestamp("us"))),
        (TIME, pa.array([0, days * DAY_US // 1_000_000, None], pa.int64()).cast(pa.timestamp("s", "Asia/Tokyo"))),
    ]
    for kind, column in columns:
        with pytest.raises(ArgumentError, match=rf"'at' holds a time of {text}, and only the years 0000 to 9999"):
            written(tmp_path, schema(at=kind, n=LONG), {"at": column, "n": [1, 2, 3]})
    assert not list(tmp_path.glob("staging/*/*"))


def test_times_at_the_ends_of_what_can_be_read_back_come_back(tmp_path: Path) -> None:
    ends = [FIRST * DAY_US, LAST * DAY_US + DAY_US - 1]
    times, days = pa.array(ends, pa.int64()).cast(US), pa.array([FIRST, LAST], pa.int32()).cast(pa.date32())
    written(tmp_path, schema(at=TIME, day=types.DateType()), {"at": times, "day": days})
    with diskstream.open(tmp_path) as store:
        (read,) = store.stream("x").scan(layout="typed", columns=[("at", "timestamp"), ("day", "date")])
    assert (read["at"].equals(times), read["day"].equals(days)) == (True, True)


# --- IDs --------------------------------------------------------------------------------------------------------------

SIGNED = [pa.int8(), pa.int32(), pa.int64(), pa.decimal128(20, 0)]


def ids_of(kind: Any, ms: int, **given: str) -> list[int]:
    target = Target.of(schema(id_ms=LONG, id_seq=LONG, n=LONG), options(stream="x", ids="columns", **given))
    value = Decimal(ms) if pa.types.is_decimal(kind) else ms
    batch = pa.record_batch({"id_ms": pa.array([value], kind), "id_seq": pa.array([0], pa.int64()), "n": [1]})
    return [each for _, part in by_stream(target, batch) for each in part["id_ms"].to_pylist()]


@pytest.mark.parametrize("kind", SIGNED, ids=str)
def test_an_id_below_zero_is_refused(kind: Any) -> None:
    """It became one far beyond any other, after which no clock's ID can follow."""
    with pytest.raises(ArgumentError, match="id_ms holds -1"):
        ids_of(kind, -1)
    assert ids_of(kind, 5) == [5]


def test_what_a_read_has_wrapped_is_written_as_it_was() -> None:
    assert ids_of(pa.int64(), -1, largeids="wrap") == [2**64 - 1]


def test_ids_from_2_to_the_63_on_are_whole_as_decimals(tmp_path: Path) -> None:
    kinds = schema(id_ms=types.DecimalType(20, 0), id_seq=LONG, n=LONG)
    columns = {"id_ms": pa.array([Decimal(2**63 + 1)], pa.decimal128(20, 0)), "id_seq": [0], "n": [1]}
    assert written(tmp_path, kinds, columns, ids="columns") == [(f"{2**63 + 1}-0", {b"n": b"1"})]


def test_a_decimal_past_64_bits_is_refused() -> None:
    with pytest.raises(ArgumentError, match=f"id_ms holds {2**64}"):
        ids_of(pa.decimal128(20, 0), 2**64)
