"""`scan`: a stream as Arrow record batches, in every layout the same entries as `range`."""

import struct
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import isnan
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from diskstream import ArgumentError, ChangedError, EntryID, Store, Stream
from diskstream.batches import as_batch
from tests.streams.background import Background
from tests.streams.layers import MAX, Layered, Pairs, Row, kinds, layered, nth_id, rows, small_store

ALL_KINDS = {"compacted", "sealed", "rows", "active"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Layered]:
    """A stream in every kind of segment, with deleted and trimmed entries."""
    with small_store(tmp_path_factory.mktemp("scan") / "store") as store:
        made = layered(store)
        assert set(kinds(store)) == ALL_KINDS
        yield made


def table(batches: Iterator[pa.RecordBatch]) -> pa.Table:
    """One table of batches that must be sound, and all of one schema."""
    found = list(batches)
    for batch in found:
        batch.validate(full=True)
        assert batch.num_rows > 0
        assert batch.schema.equals(found[0].schema, check_metadata=True)
    return pa.Table.from_batches(found)


def scanned_ids(found: pa.Table) -> list[EntryID]:
    return [EntryID(*pair) for pair in zip(found["id_ms"].to_pylist(), found["id_seq"].to_pylist(), strict=True)]


def scanned(stream: Stream, *args: Any, **options: Any) -> list[Row]:
    """IDs and pairs of a scan in the lossless layout."""
    batches = list(stream.scan(*args, **options))
    if not batches:
        return []
    found = table(iter(batches))
    pairs = [[(field["name"], field["value"]) for field in fields] for fields in found["fields"].to_pylist()]
    return list(zip(scanned_ids(found), pairs, strict=True))


# --- layouts ----------------------------------------------------------------------------------------------------------


def test_fields_are_the_entries_of_range_in_every_kind_of_segment(made: Layered) -> None:
    assert scanned(made.stream) == made.live == rows(made.stream)


@pytest.mark.parametrize("batch_rows", [1, 7, 64, 1000])
def test_batches_that_share_names_are_right_whatever_comes_behind_them(tmp_path: Path, batch_rows: int) -> None:
    with small_store(tmp_path / "store") as store:
        stream = store.stream("readings")
        alike = [{"id": f"{number}", "much longer": "x" * (number % 20), "": "e"} for number in range(150)]
        for entries in (alike, [{"id": "other"}, {"": "fields"}], alike, alike[:5]):
            stream.add_many(entries)
            stream.seal()
        stream.delete(*[row[0] for row in rows(stream)[3:160:9]])
        held = list(stream.scan(batch_rows=batch_rows))
        assert scanned(stream, batch_rows=batch_rows) == rows(stream)
        assert table(iter(held)) == table(stream.scan(batch_rows=batch_rows))


def test_names_that_all_entries_have_are_laid_out_once_for_all_batches(tmp_path: Path) -> None:
    with small_store(tmp_path / "store") as store:
        stream = store.stream("readings")
        stream.add_many([{"id": f"{number}", "name": "x"} for number in range(200)])
        stream.seal()
        held = list(stream.scan(batch_rows=50))
        names = {batch["fields"].flatten().field("name").buffers()[2].address for batch in held}
        assert len(held) > 2
        assert len(names) == 1


def test_ids_are_all_that_the_layout_ids_has(made: Layered) -> None:
    found = table(made.stream.scan(layout="ids"))
    assert found.schema == pa.schema(
        [("id_ms", pa.uint64()), ("id_seq", pa.uint64()), ("ts", pa.timestamp("us", "UTC"))]
    )
    assert scanned_ids(found) == [row[0] for row in made.live]
    assert found["ts"].to_pylist() == [datetime.fromtimestamp(row[0].ms / 1000, UTC) for row in made.live]


def unpacked(entry: bytes) -> Pairs:
    """The pairs of an entry in the layout raw: each part behind its length."""
    parts, at = [], 0
    while at < len(entry):
        (length,) = struct.unpack_from("<I", entry, at)
        parts.append(entry[at + 4 : at + 4 + length])
        at += 4 + length
    return list(zip(parts[::2], parts[1::2], strict=True))


def test_raw_entries_hold_each_name_and_value_behind_its_length(made: Layered) -> None:
    found = table(made.stream.scan(layout="raw"))
    assert [unpacked(entry) for entry in found["entry"].to_pylist()] == [pairs for _, pairs in made.live]


def first_values(pairs: Pairs) -> dict[bytes, bytes]:
    return dict(reversed(pairs))


@pytest.mark.parametrize(("duplicates", "chosen"), [("first", first_values), ("last", dict)])
def test_a_map_has_one_value_of_a_repeated_name(
    made: Layered, duplicates: str, chosen: Callable[[Pairs], dict[bytes, bytes]]
) -> None:
    found = table(made.stream.scan(layout="map", duplicates=duplicates))
    assert found.schema.field("fields").type == pa.map_(pa.binary(), pa.binary())
    assert [dict(fields) for fields in found["fields"].to_pylist()] == [chosen(pairs) for _, pairs in made.live]
    assert [len(fields) for fields in found["fields"].to_pylist()] == [len(dict(pairs)) for _, pairs in made.live]


@pytest.mark.parametrize(("duplicates", "chosen"), [("first", first_values), ("last", dict)])
def test_a_typed_column_has_one_value_of_a_repeated_name(
    made: Layered, duplicates: str, chosen: Callable[[Pairs], dict[bytes, bytes]]
) -> None:
    columns: list[tuple[str | bytes, str]] = [("n", "binary"), (b"odd\xff", "binary"), ("none", "binary")]
    found = table(made.stream.scan(layout="typed", columns=columns, duplicates=duplicates))
    assert found.column_names == ["id_ms", "id_seq", "ts", "n", "odd\\xff", "none", "bad"]
    assert found["n"].to_pylist() == [chosen(pairs).get(b"n") for _, pairs in made.live]
    assert found["odd\\xff"].to_pylist() == [dict(pairs).get(b"odd\xff") for _, pairs in made.live]
    assert found["none"].null_count == found["bad"].null_count == len(made.live)


@pytest.mark.parametrize(("duplicates", "chosen"), [("first", b"x"), ("last", b"y")])
@pytest.mark.parametrize("sealed", [False, True])
def test_of_a_repeated_name_the_value_that_counts_is_told_where_it_does_not_parse(
    store: Store, duplicates: str, chosen: bytes, *, sealed: bool
) -> None:
    """With `first` the last one was told, which may even parse."""
    stream = store.stream("x")
    stream.add([("a", "x"), ("a", 7), ("a", "y")], "1-0")
    if sealed:
        stream.seal()
    wanted: dict[str, Any] = {"layout": "typed", "columns": {"a": "int64"}, "duplicates": duplicates}
    found = table(stream.scan(**wanted))
    assert (found["a"].to_pylist(), found["bad"].to_pylist()) == ([None], [[{"name": b"a", "value": chosen}]])
    with pytest.raises(ArgumentError, match=f"does not parse as int64: {chosen!r}"):
        table(stream.scan(**wanted, strict=True))


@pytest.mark.parametrize("layout", ["map", "typed"])
@pytest.mark.parametrize("sealed", [False, True])
def test_a_repeated_name_may_be_refused(store: Store, layout: str, *, sealed: bool) -> None:
    """By its entry, and no entry that is gone or out of range counts, though it is in the same node."""
    stream = store.stream("x")
    stream.add([("a", 1), ("b", 2)], "1-0")
    stream.add([("a", 1), ("b", 2), ("a", 2)], "2-0")
    stream.add([("b", 2)], "3-0")
    if sealed:
        stream.seal()
    wanted: dict[str, Any] = {
        "layout": layout,
        "columns": {"a": "int64"} if layout == "typed" else {},
        "duplicates": "fail",
    }
    assert table(stream.scan(end="1-0", **wanted)).num_rows == 1
    assert table(stream.scan("3-0", **wanted)).num_rows == 1
    with pytest.raises(ArgumentError, match="entry 2-0 holds the field a twice: duplicates 'first' or 'last' says"):
        list(stream.scan(**wanted))
    stream.delete("2-0")
    assert table(stream.scan(**wanted)).num_rows == 2


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    start=st.integers(0, 480),
    end=st.integers(0, 480),
    exclusive=st.booleans(),
    batch_rows=st.sampled_from([1, 20, 500]),
)
def test_any_range_has_the_entries_of_range(
    made: Layered, start: int, end: int, exclusive: bool, batch_rows: int
) -> None:
    low, high = f"{'(' if exclusive else ''}{nth_id(start)}", str(nth_id(end))
    assert scanned(made.stream, low, high, batch_rows=batch_rows) == rows(made.stream.range(low, high))


def test_metadata_tell_segment_place_and_size(made: Layered) -> None:
    found = list(made.stream.scan(metadata=True, batch_rows=10**6))
    assert table(iter(found)).column_names == ["id_ms", "id_seq", "ts", "segment", "position", "size_bytes", "fields"]
    for batch in found:
        positions = batch["position"].to_pylist()
        assert len(set(batch["segment"].to_pylist())) == 1
        assert positions == sorted(set(positions))
    # With batches as large as can be, each segment that holds something is one.
    segments = [batch["segment"][0].as_py() for batch in found]
    assert segments == sorted(set(segments))
    sizes = pa.Table.from_batches(found)["size_bytes"].to_pylist()
    assert sizes == [sum(len(name) + len(value) for name, value in pairs) for _, pairs in made.live]


@pytest.mark.parametrize("layout", ["ids", "fields", "raw", "typed"])
def test_times_are_left_out_where_nobody_wants_them(made: Layered, layout: str) -> None:
    columns: dict[str | bytes, str] = {"n": "string"} if layout == "typed" else {}
    with_times = table(made.stream.scan(layout=layout, columns=columns))
    without = table(made.stream.scan(layout=layout, columns=columns, times=False))
    assert without.column_names == [name for name in with_times.column_names if name != "ts"]
    assert without == with_times.drop_columns(["ts"])


def test_a_batch_lives_longer_than_what_it_was_made_of(store: Store) -> None:
    # Its buffers were taken over from the native core, not copied.
    stream = store.stream("x")
    stream.add_many([{"n": number, "text": "x" * number} for number in range(300)])
    stream.seal()
    batches = list(stream.scan(batch_rows=7))
    wanted = [{"name": b"text", "value": b"x" * number} for number in range(300)]
    store.delete("x")
    for number in range(50):
        store.stream("y").add_many([{"z": "z" * 300}] * 100)
        assert len(table(store.stream("y").scan())) == 100 * (number + 1)
    assert [fields[1] for fields in table(iter(batches))["fields"].to_pylist()] == wanted


def test_a_position_counts_the_entries_of_a_segment_before_it(store: Store) -> None:
    stream = store.stream("x")
    stream.add_many([{"n": number} for number in range(5)], ids=[(number + 1, 0) for number in range(5)])
    stream.delete("1-0", "3-0")
    for _ in range(2):
        assert table(stream.scan(layout="ids", metadata=True))["position"].to_pylist() == [1, 3, 4]
        stream.seal()


def test_batches_have_about_as_many_rows_as_wanted(made: Layered) -> None:
    few = [batch.num_rows for batch in made.stream.scan(batch_rows=5)]
    assert max(few) <= 17  # what the smallest unit of a rolled segment has here
    assert len(few) > len(list(made.stream.scan(batch_rows=100)))


def test_there_is_nothing_where_there_is_no_stream_or_no_entry(store: Store) -> None:
    stream = store.stream("x")
    for _ in range(3):
        assert list(stream.scan()) == stream.splits() == []
        assert stream.count_from("-") == 0
        assert stream.id_further("-", 1) is None
        assert stream.trimmed_to() is None
        stream.add({"n": 1})
        stream.delete(stream.last_id())
        stream.seal()


# --- types ------------------------------------------------------------------------------------------------------------

NOON = datetime(2026, 11, 21, 12, 0, 0, 250_000, tzinfo=UTC)
TYPES: dict[str, tuple[dict[str, Any], list[str | bytes]]] = {
    "bool": ({"true": True, "F": False, "Yes": True, "0": False}, ["", "2", "maybe"]),
    "int8": ({"-128": -128, "+127": 127}, ["128", "1.0", " 1", ""]),
    "int16": ({"-32768": -32768, "7": 7}, ["32768", "x"]),
    "int32": ({"2147483647": 2**31 - 1}, ["2147483648", "1e3"]),
    "int64": ({"-9223372036854775808": -(2**63), "00": 0}, ["9223372036854775808", "--1", "0x1"]),
    "float": ({"0.5": 0.5, "-1e3": -1000.0, "inf": float("inf")}, ["", "1,5", "one"]),
    "double": ({"0.1": 0.1, "1e308": 1e308, "-1e400": -float("inf")}, ["1 000", "0x1p3", "1d", b"\xff"]),
    "decimal(5,2)": ({"1.005": Decimal("1.01"), "-999.99": Decimal("-999.99"), "2e1": 20}, ["1000", "1.2.3", "NaN"]),
    "timestamp": (
        {
            "2026-11-21T12:00:00.25Z": NOON,
            "2026-11-21 14:00:00,250+02:00": NOON,
            "1795262400250": NOON,
            "2026-11-21": NOON.replace(hour=0, microsecond=0),
            "20260101": datetime(1970, 1, 1, 5, 37, 40, 101_000, tzinfo=UTC),
            "1969-12-31T23:59:59.9999999": datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        },
        ["2026-02-30", "noon", "2026-11-21T25:00"],
    ),
    "date": ({"2026-11-21": date(2026, 11, 21), "1969-12-31": date(1969, 12, 31)}, ["2026-11-21T00:00", "20261121"]),
    "string": ({"": "", "żółw": "żółw", "a\0b": "a\0b"}, [b"\xff", b"caf\xe9"]),
    "binary": ({"": b"", "\udcff\0": b"\xff\0"}, []),
}


def values_of(kind: str) -> tuple[list[bytes], list[bytes], list[Any]]:
    good, bad = TYPES[kind]
    texts = [text.encode("utf-8", "surrogateescape") for text in good]
    return texts, [text if isinstance(text, bytes) else text.encode() for text in bad], list(good.values())


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("kind", TYPES)
def test_each_type_takes_what_is_of_it_and_tells_what_is_not(small: Store, kind: str, sealed: bool) -> None:
    good, bad, values = values_of(kind)
    stream = small.stream("x")
    for text in [*good, *bad]:
        stream.add({"v": text, "other": "\x00"})
    stream.add({"other": "only"})
    if sealed:
        stream.seal()
    found = table(stream.scan(layout="typed", columns={"v": kind}))
    assert found["v"].to_pylist() == [*values, *[None] * len(bad), None]
    told: list[Any] = [[{"name": b"v", "value": text}] for text in bad]
    assert found["bad"].to_pylist() == [*[None] * len(good), *told, None]


def test_a_number_that_is_none_is_one(store: Store) -> None:
    store.stream("x").add({"v": "NaN"})
    (value,) = table(store.stream("x").scan(layout="typed", columns={"v": "double"}))["v"].to_pylist()
    assert isnan(value)


@pytest.mark.parametrize("batch_rows", [1, 3, 100])
def test_what_did_not_parse_is_the_same_however_batches_are_cut(small: Store, batch_rows: int) -> None:
    """A row without a bad field has none, whether the row beside it has one or not."""
    stream = small.stream("x")
    for number in range(40):
        stream.add({"a": number if number % 8 else "?", "b": number if number % 5 else "!"})
    small.seal()
    found = table(stream.scan(layout="typed", columns={"a": "int32", "b": "int8"}, batch_rows=batch_rows))
    expected = [
        [*[{"name": b"a", "value": b"?"}] * (number % 8 == 0), *[{"name": b"b", "value": b"!"}] * (number % 5 == 0)]
        for number in range(40)
    ]
    assert found["bad"].to_pylist() == [each or None for each in expected]


@pytest.mark.parametrize("kind", [kind for kind in TYPES if TYPES[kind][1]])
def test_a_strict_scan_names_the_entry_that_does_not_parse(store: Store, kind: str) -> None:
    good, bad, _ = values_of(kind)
    store.stream("x").add({"v": good[0]}, "1-0")
    store.stream("x").add({"v": bad[0]}, "2-7")
    batches = store.stream("x").scan(layout="typed", columns={"v": kind}, strict=True)
    with pytest.raises(ArgumentError) as caught:
        list(batches)
    assert str(caught.value) == f"entry 2-7: the field v does not parse as {kind}: {bad[0]!r}"


def test_one_field_may_be_read_as_several_types(store: Store) -> None:
    store.stream("x").add({"v": "7"})
    (batch,) = store.stream("x").scan(layout="typed", columns=[("v", "int8"), ("v", "string"), ("v", "bool")])
    assert [column.to_pylist() for column in batch.columns[3:]] == [
        [7],
        ["7"],
        [None],
        [[{"name": b"v", "value": b"7"}]],
    ]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"layout": "rows"}, "layout must be 'ids', 'fields', 'map', 'raw' or 'typed'"),
        ({"layout": "typed"}, "layout 'typed' needs columns"),
        ({"layout": "typed", "columns": {"v": "int"}}, "no such type of a column: int"),
        ({"layout": "typed", "columns": {"v": "decimal(39,0)"}}, "no such type of a column"),
        ({"layout": "map", "duplicates": "any"}, "duplicates must be 'first', 'last' or 'fail'"),
        ({"layout": "\ud800"}, "layout, duplicates and the types of columns are text"),
        ({"columns": {"v": "int8"}}, "columns are for layout 'typed', not for 'fields'"),
        ({"layout": "ids", "columns": {"v": "int"}}, "columns are for layout 'typed', not for 'ids'"),
        ({"batch_rows": 0}, "a batch has at least one row"),
        ({"start": "x"}, "Invalid stream ID"),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_read(store: Store, options: dict[str, Any], says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        store.stream("x").scan(**options)


# --- large IDs --------------------------------------------------------------------------------------------------------


def test_ids_up_to_the_last_one_are_kept_whole_and_times_past_2_63_are_null(store: Store) -> None:
    latest_ms = 2**63 // 1000
    given_ids = [EntryID(latest_ms, 0), EntryID(latest_ms + 1, 0), EntryID(2**63, 2**63), EntryID(MAX, MAX)]
    stream = store.stream("x")
    for entry_id in given_ids:
        stream.add({"n": 1}, entry_id)
    for _ in range(2):
        found = table(stream.scan(layout="ids"))
        assert scanned_ids(found) == given_ids
        assert found["ts"].cast(pa.int64()).to_pylist() == [latest_ms * 1000, None, None, None]
        (piece,) = stream.splits()
        assert (piece.first, piece.last, piece.entries) == (given_ids[0], given_ids[-1], 4)
        assert (stream.count_from(given_ids[-1]), stream.id_further("-", 99)) == (1, given_ids[-1])
        stream.seal()


# --- while others change the stream -----------------------------------------------------------------------------------


def many(store: Store, count: int = 400) -> Stream:
    stream = store.stream("x")
    for number in range(count):
        stream.add({"n": number, "pad": "." * 100}, (number + 1, 0))
    return stream


def numbers(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [number for batch in batches for number in batch["id_ms"].to_pylist()]


def test_a_scan_that_goes_on_while_the_stream_is_sealed_and_compacted_misses_nothing(small: Store) -> None:
    stream = many(small)
    found = stream.scan(batch_rows=10)
    read = numbers(iter([next(found)]))
    stream.seal()
    read += numbers(iter([next(found)]))
    stream.compact()
    assert read + numbers(found) == list(range(1, 401))


def deleted(by: Store) -> None:
    assert by.delete("x")


def made_anew(by: Store) -> None:
    deleted(by)
    many(by, 800)


def renamed(by: Store) -> None:
    by.rename("x", "y")


@pytest.mark.parametrize("change", [deleted, made_anew, renamed])
def test_a_part_of_a_stream_that_went_does_not_pass_for_all_of_it(
    small: Store, change: Callable[[Store], None]
) -> None:
    """It ended there, or went on with what has the name now; before that it looked for the stream for ever."""
    many(small)
    with small_store(small.path) as other:
        found = other.stream("x").scan(batch_rows=10)
        assert next(found).num_rows
        change(small)
        with pytest.raises(ChangedError, match="removed or renamed"):
            Background(lambda: numbers(found)).result()
        assert numbers(other.stream("x").scan()) == numbers(small.stream("x").scan())


def test_a_scan_goes_on_where_its_stream_is_back_under_its_name(small: Store) -> None:
    many(small)
    with small_store(small.path) as other:
        found = other.stream("x").scan(batch_rows=10)
        read = numbers(iter([next(found)]))
        small.rename("x", "y")
        small.rename("y", "x")
        assert read + numbers(found) == list(range(1, 401))


def test_a_scan_of_a_stream_that_went_before_it_began_gives_what_has_the_name_now(small: Store) -> None:
    many(small, 10)
    with small_store(small.path) as other:
        stream = other.stream("x")
        assert len(numbers(stream.scan())) == 10
        found = stream.scan()
        made_anew(small)
        assert len(numbers(found)) == 800
        found = stream.scan()
        deleted(small)
        assert numbers(found) == []


def test_a_stream_that_goes_before_anything_was_given_is_no_reason_to_begin_further_on(
    small: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that was read of it so far was gone: what has the name by then was read from behind that on."""
    stream = many(small, 10)
    stream.seal()
    for number in (11, 12):
        stream.add({"n": number}, (number, 0))
        stream.seal()
    stream.delete("10-0")
    with small_store(small.path) as other:

        def and_made_anew(*given: Any) -> pa.RecordBatch:
            monkeypatch.undo()
            made_anew(small)
            return as_batch(*given)

        monkeypatch.setattr("diskstream.scanned.as_batch", and_made_anew)
        assert numbers(other.stream("x").scan("10-0", "20-0")) == list(range(10, 21))


def test_a_scan_takes_what_was_added_until_it_began(small: Store) -> None:
    stream = many(small, 10)
    found = stream.scan(batch_rows=1)
    assert next(found).num_rows
    stream.add({"n": 1}, "99-0")
    assert 99 not in numbers(found)


def test_a_time_is_that_of_the_id_to_the_millisecond(store: Store) -> None:
    at = datetime(2026, 11, 21, 10, 11, 12, 345_000, tzinfo=UTC)
    store.stream("x").add({"n": 1}, (int(at.timestamp() * 1000), 5))
    (found,) = table(store.stream("x").scan(layout="ids"))["ts"].to_pylist()
    assert found == at
    assert found - at == timedelta(0)
