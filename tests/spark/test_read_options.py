"""What a read may be told: the options, and the schemas."""

from typing import Any

import pytest

from diskstream import ArgumentError, EntryID

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark.sql.types import StructType

from diskstream.spark.options import Bounds, ReadOptions, WriteOptions
from diskstream.spark.schemas import plan
from diskstream.spark.source import DiskstreamSource


def options(**given: Any) -> ReadOptions:
    parsed: ReadOptions = ReadOptions.parse({name: str(value) for name, value in given.items()})
    return parsed


def ddl(text: str) -> StructType:
    """A schema as users write it, without the JVM that Spark parses it with: names, types and NOT NULL."""
    from pyspark.sql import types as st

    kinds: dict[str, Any] = {
        "string": st.StringType(),
        "bigint": st.LongType(),
        "int": st.IntegerType(),
        "timestamp": st.TimestampType(),
        "binary": st.BinaryType(),
        "array<int>": st.ArrayType(st.IntegerType()),
        "map": st.MapType(st.BinaryType(), st.BinaryType()),
        "fields": st.ArrayType(
            st.StructType([st.StructField("name", st.BinaryType()), st.StructField("value", st.BinaryType())])
        ),
    }
    found = StructType()
    for column in filter(None, text.split(", ")):
        name, kind = column.rsplit(" ", 1)
        found.add(name, kinds[kind])
    return found


# --- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("stream", "streams"),
        ("startingId", "startingIds"),
        ("startingOffsets", "startingIds"),
        ("endingtimestmap", "endingTimestamp"),
        ("maxBytes", "maxBytesPerTrigger"),
        ("minPartition", "minPartitions"),
        ("failOnDataLos", "failOnDataLoss"),
        ("layuot", "layout"),
    ],
)
def test_a_misspelt_option_is_told_with_the_one_that_was_meant(name: str, meant: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        options(path="p", **{name: "x"})
    assert str(caught.value) == f"the diskstream source has no option {name}; did you mean {meant}?"


def test_an_option_like_none_is_told_alone() -> None:
    with pytest.raises(ArgumentError, match=r"^the diskstream source has no option zzz$"):
        options(zzz=1)


def test_options_come_in_lower_case_and_are_known_in_any() -> None:
    """Trap 10: so no name of a stream is part of a key."""
    assert options(maxbytesperpartition="1k", MinPartitions="3").max_bytes_per_partition == 1024
    assert options(minpartitions="3").min_partitions == 3


@pytest.mark.parametrize(
    ("time", "ms"),
    [
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01T00:00:01.0005Z", 1001),
        ("1970-01-01T09:00:01.001+09:00", 1001),
        ("1969-12-31T23:59:59.9995Z", 0),
        ("1001", 1001),
    ],
)
def test_a_time_between_two_milliseconds_is_that_of_the_first_id_behind_it(time: str, ms: int) -> None:
    """So an entry of before is neither behind a start nor left out before an end."""
    assert options(startingtimestamp=time).starting_timestamp == ms
    assert options(endingtimestamp=time).ending_timestamp == ms


def test_what_spark_adds_is_passed_over() -> None:
    assert options(path="p", checkpointLocation="/c", queryName="q").path == "p"


@pytest.mark.parametrize(
    ("name", "value", "takes"),
    [
        ("minPartitions", "0", "a whole number from 1 on"),
        ("batchRows", "-1", "a whole number from 1 on"),
        ("batchRows", "1.5", "a whole number from 1 on"),
        ("maxBytesPerPartition", "64x", "bytes, as 67108864 or 64m"),
        ("maxBytesPerPartition", "0", "bytes, as 67108864 or 64m"),
        ("includeTail", "yes", "true or false"),
        ("leaseTtl", "soon", "a duration, as 500ms, 10s, 15m, 2h or 1d"),
        ("layout", "columns", "one of fields, map, typed, raw"),
        ("mode", "DROPMALFORMED", "one of PERMISSIVE, FAILFAST"),
        ("duplicateFields", "any", "one of first, last, fail"),
        ("largeIds", "null", "one of fail, wrap"),
        ("onCorruption", "ignore", "one of fail, skip"),
        ("table", "streams", "one of entries, groups, consumers, pending, audit"),
        ("streams", "a,,b", "names apart by commas, none of them empty"),
        ("streams", "[]", "names apart by commas, or a JSON list of names"),
        ("streams", "[1]", "names apart by commas, or a JSON list of names"),
        ("streams", '["a"', "names apart by commas, or a JSON list of names; this is no JSON"),
        ("startingIds", "first", "earliest, latest, an ID as 1692632086370-0, or JSON of these by stream; not 'first'"),
        ("startingIds", '{"a": 5}', "earliest, latest, an ID as 1692632086370-0, or JSON of these by stream"),
        (
            "endingIds",
            '{"a"',
            "earliest, latest, an ID as 1692632086370-0, or JSON of these by stream; this is no JSON",
        ),
        (
            "endingIds",
            '{"a": "5", "b": "6", "%61": "7"}',
            "earliest, latest, an ID as 1692632086370-0, or JSON of these by stream; '%61' is a second bound for one",
        ),
        ("startingIds", '{"*": "5", "*": "6"}', "earliest, latest, an ID as 1692632086370-0, or JSON of these by"),
        ("startingTimestamp", "yesterday", "milliseconds since 1970, or a time as 2026-11-21T10:00:00Z"),
        (
            "endingTimestamp",
            "18446744073709551616",
            "milliseconds since 1970 up to 18446744073709551615, the greatest of an ID",
        ),
    ],
)
def test_a_value_that_does_not_fit_is_told_with_what_the_option_takes(name: str, value: str, takes: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        options(path="p", **{name: value})
    assert str(caught.value).startswith(f"option {name}={value!r}: it takes {takes}")


@pytest.mark.parametrize(
    ("name", "value", "meaning"),
    [
        ("maxBytesPerPartition", "64m", 64 << 20),
        ("maxBytesPerPartition", "1 KiB", 1024),
        ("leaseTtl", "1.5h", 5400.0),
        ("leaseTtl", "250ms", 0.25),
        ("includeTail", "FALSE", False),
        ("mode", "failfast", "FAILFAST"),
        ("streams", " b , a,b", (b"b", b"a")),
        ("streams", '["a,b", "50%25", "caf%E9"]', (b"a,b", b"50%", b"caf\xe9")),
        ("startingIds", "LATEST", Bounds("latest")),
        ("startingIds", "7", Bounds(EntryID(7, 0))),
        ("endingIds", "5-3", Bounds(EntryID(5, 3))),
        ("startingIds", '{"a": "5-1", "*": "latest"}', Bounds("latest", {b"a": EntryID(5, 1)})),
        ("startingIds", '{"%2A": "5-1", "*": "latest"}', Bounds("latest", {b"*": EntryID(5, 1)})),
        ("startingTimestamp", "1700000000000", 1_700_000_000_000),
        ("endingTimestamp", "18446744073709551615", 2**64 - 1),
        ("startingTimestamp", "2026-11-21T10:00:00.345Z", 1_795_255_200_345),
        ("startingTimestamp", "2026-11-21T12:00:00.345+02:00", 1_795_255_200_345),
        ("startingTimestamp", "2026-11-21", 1_795_219_200_000),
        ("startingTimestamp", "1950-01-01", 0),
    ],
)
def test_a_value_may_be_written_in_several_ways(name: str, value: str, meaning: object) -> None:
    parsed = options(**{name: value})
    spelt = "".join("_" + letter.lower() if letter.isupper() else letter for letter in name)
    assert getattr(parsed, spelt) == meaning


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, r"needs a path: \.option\('path', '/data/store'\) or \.load\(path\)"),
        ({"path": "p", "startingIds": "5", "startingTimestamp": "0"}, "startingIds and startingTimestamp exclude"),
        ({"path": "p", "endingIds": "5", "endingTimestamp": "9"}, "endingIds and endingTimestamp exclude"),
        ({"path": "p", "streams": "a", "streamPattern": "b*"}, "streams and streamPattern exclude each other"),
    ],
)
def test_options_that_contradict_each_other_are_refused(given: dict[str, str], says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        options(**given).check()


def test_reading_and_writing_have_options_of_their_own() -> None:
    with pytest.raises(ArgumentError, match="no option minPartitions"):
        WriteOptions.parse({"path": "p", "minPartitions": "3"})
    with pytest.raises(ArgumentError, match="no option txnId"):
        options(path="p", txnId="7")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("group", "g"),
        ("maxEntriesPerTrigger", "5"),
        ("maxBytesPerTrigger", "1k"),
        ("minEntriesPerTrigger", "5"),
        ("maxTriggerDelay", "1s"),
    ],
)
@pytest.mark.parametrize("table", ["entries", "pending"])
def test_a_batch_read_has_no_options_that_it_would_not_heed(name: str, value: str, table: str) -> None:
    """A group that was to follow it stood still, and a limit was none."""
    source = DiskstreamSource({"path": "p", name: value, "table": table})
    with pytest.raises(ArgumentError, match=f"option {name} is for streaming reads"):
        source.reader(source.schema())


# --- schemas ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "given", "says"),
    [
        ("id_ms string", {}, "column id_ms is string, .* is bigint; a field of that name is column `field:id_ms`"),
        ("ts bigint", {}, "column ts is bigint, but it stands for part of an entry, which is timestamp"),
        ("fields string", {}, "column fields is string, but .* or map<binary,binary>"),
        ("_corrupt string, n int", {}, "column _corrupt is string"),
        ("n array<int>", {}, "column n: a field cannot be read as array<int>; choose a number, boolean, string"),
        ("_corrupt fields, id string", {}, "column _corrupt tells which typed columns did not parse, but"),
        ("n int, n string", {}, "two columns are called n"),
        ("ts timestamp, n int, ts timestamp", {}, "two columns are called ts"),
        ("n int", {"layout": "fields"}, "layout=fields, but the schema asks for typed"),
        ("fields map", {"layout": "fields"}, "layout=fields, but the schema asks for map"),
        ("fields map, n int", {}, "one read has one layout; the schema asks for map and typed"),
        ("entry binary, fields fields", {}, "one read has one layout; the schema asks for fields and raw"),
    ],
)  # fmt: skip
def test_a_schema_that_does_not_fit_is_refused(schema: str, given: dict[str, str], says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        plan(ddl(schema), options(path="p", **given))


def test_typed_columns_need_a_schema() -> None:
    with pytest.raises(
        ArgumentError, match=r"layout=typed needs the columns: \.schema\('sensor string, value double'\)"
    ):
        DiskstreamSource({"path": "p", "layout": "typed"}).schema()


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({}, "stream id_ms id_seq ts fields"),
        ({"layout": "map"}, "stream id_ms id_seq ts fields"),
        ({"layout": "raw"}, "stream id_ms id_seq ts entry"),
        ({"includeMetadata": "true"}, "stream id_ms id_seq ts segment position size_bytes fields"),
    ],
)
def test_without_a_schema_the_layout_tells_the_columns(given: dict[str, str], names: str) -> None:
    schema = DiskstreamSource({"path": "p", **given}).schema()
    assert schema.names == names.split()
    assert plan(schema, options(path="p", **given)).layout == given.get("layout", "fields")


def test_an_end_without_a_sequence_is_the_whole_millisecond_as_in_xrange() -> None:
    parsed = ReadOptions.parse({"startingIds": "5", "endingIds": '{"a": "5", "*": "7-1"}'})
    assert parsed.starting_ids.of(b"x") == EntryID(5, 0)
    assert parsed.ending_ids.of(b"a") == EntryID(5, 2**64 - 1)
    assert parsed.ending_ids.of(b"b") == EntryID(7, 1)


@pytest.mark.parametrize(
    ("table", "given"),
    [("pending", {"startingids": "5-0"}), ("audit", {"endingids": "5-0"}), ("groups", {"startingtimestamp": 5})],
)
def test_a_table_has_no_bounds_that_it_would_not_heed(table: str, given: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=f"table={table} is read as a whole"):
        options(path="/s", table=table, **given).check()
    options(path="/s", table="audit", startingtimestamp=5).check()


@pytest.mark.parametrize("table", ["groups", "consumers", "pending", "audit"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("layout", "map"),
        ("includeMetadata", "true"),
        ("includeTail", "false"),
        ("duplicateFields", "first"),
        ("mode", "FAILFAST"),
        ("largeIds", "wrap"),
        ("minPartitions", "4"),
        ("maxBytesPerPartition", "1m"),
        ("maxEntriesPerPartition", "10"),
        ("batchRows", "100"),
        ("failOnDataLoss", "false"),
        ("corruptionPath", "/tmp/skipped"),
    ],
)
def test_a_table_has_no_options_that_are_for_entries(table: str, name: str, value: str) -> None:
    """Its columns were its own, whatever `layout` said, and the deliveries of the active segment were among them."""
    with pytest.raises(ArgumentError, match=f"option {name} is for entries: table={table} "):
        options(path="/s", table=table, **{name: value}).check()
    options(path="/s", **{name: value}).check()


@pytest.mark.parametrize("table", ["groups", "consumers", "pending", "audit"])
def test_a_table_has_the_options_that_it_heeds(table: str) -> None:
    options(path="/s", table=table, streamPattern="a*", lease="false", leaseTtl="1m", onCorruption="skip").check()


# --- paths ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ReadOptions, WriteOptions])
def test_a_path_may_be_a_url_of_this_machine_and_no_other(kind: type[ReadOptions] | type[WriteOptions]) -> None:
    """A write made a store in a folder `s3:` of wherever the driver was started."""
    for given in ("/data/a store", "file:///data/a store", "file:/data/a store"):
        assert kind.parse({"path": given}).path == "/data/a store"
    assert kind.parse({"path": "data:2024/s"}).path == "data:2024/s"
    for given in ("s3://bucket/store", "hdfs://name/store", "file://data/store", "s3a:/bucket"):
        with pytest.raises(ArgumentError, match=rf"option path='{given}': it takes a directory of this machine"):
            kind.parse({"path": given})
