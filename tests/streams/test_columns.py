"""`columns()` and `to_arrow()`: the same entries as `range`, by columns."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import diskstream
from diskstream import ArgumentError, Columns, InvalidIDError, Store, Stream
from diskstream._native import ColumnBatch
from diskstream.columnar import _column_of, named_columns
from tests.streams.layers import MAX, MAX_ID, Layered, Pairs, Row, kinds, layered, nth_id, rows, small_store

Table = dict[str, list[Any]]


def test_columns_are_equal_where_all_they_hold_is(tmp_path: Path) -> None:
    """To compare two of them raised a ValueError of numpy, which has an answer for each row."""
    with diskstream.open(tmp_path / "store", fsync="os") as store:
        stream = store.stream("x")
        stream.add_many([{"a": 1}, {"a": 2}], ids=["1-1", "2-1"])
        found = stream.columns()
        assert found == stream.columns()
        assert found != stream.columns(end="1")
        assert found != stream.columns(fields=["b"])
        assert found != "columns"
        assert store.stream("none").columns() == store.stream("other").columns()


def expected(live: list[Row], duplicates: str, fields: list[bytes] | None = None) -> dict[bytes, list[bytes | None]]:
    """The columns of rows, made from their pairs alone."""

    def value(pairs: Pairs, name: bytes) -> bytes | None:
        found = [value for candidate, value in pairs if candidate == name]
        return (found[0] if duplicates == "first" else found[-1]) if found else None

    names = dict.fromkeys(name for _, pairs in live for name, _ in pairs) if fields is None else fields
    return {name: [value(pairs, name) for _, pairs in live] for name in names}


def check_columns(columns: Columns, live: list[Row], fields: dict[bytes, list[bytes | None]]) -> None:
    assert columns.ms.dtype == columns.seq.dtype == np.uint64
    assert list(zip(columns.ms.tolist(), columns.seq.tolist(), strict=True)) == [
        (row[0].ms, row[0].seq) for row in live
    ]
    assert columns.fields == fields
    assert len(columns) == len(live)


def check_table(table: pa.Table, live: list[Row], fields: dict[bytes, list[bytes | None]]) -> None:
    table.validate(full=True)
    assert table.column_names[:2] == ["id_ms", "id_seq"]
    names = named_columns(fields, _column_of)
    assert sorted(table.column_names[2:]) == sorted(names)
    assert table.schema.types == [pa.uint64(), pa.uint64(), *[pa.binary()] * len(fields)]
    assert table["id_ms"].to_pylist() == [row[0].ms for row in live]
    assert table["id_seq"].to_pylist() == [row[0].seq for row in live]
    for name, values in zip(names, fields.values(), strict=True):
        assert table[name].to_pylist() == values
        assert table[name].null_count == values.count(None)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with small_store(tmp_path_factory.mktemp("columns") / "store") as store:
        made = layered(store)
        assert len(set(kinds(store))) == 4
        yield made


@pytest.mark.parametrize("duplicates", ["first", "last"])
def test_all_entries_over_all_kinds_of_segments_with_deleted_and_trimmed_ones_left_out(
    made: Layered, duplicates: str
) -> None:
    fields = expected(made.live, duplicates)
    assert fields[b"odd\xff"].count(None) > 50
    check_columns(made.stream.columns(duplicates=duplicates), made.live, fields)
    check_table(made.stream.to_arrow(duplicates=duplicates), made.live, fields)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    start=st.integers(0, 480),
    end=st.integers(0, 480),
    exclusive=st.booleans(),
    fields=st.none() | st.lists(st.sampled_from(["n", "pad", b"odd\xff", "none"]), unique=True),
)
def test_any_range_of_it_has_the_columns_that_its_entries_have(
    made: Layered, start: int, end: int, exclusive: bool, fields: list[str | bytes] | None
) -> None:
    low, high = f"{'(' if exclusive else ''}{nth_id(start)}", str(nth_id(end))
    live = rows(made.stream.range(low, high))
    names = None if fields is None else [name.encode() if isinstance(name, str) else name for name in fields]
    wanted = expected(live, "last", names)
    columns = made.stream.columns(low, high, fields=fields, duplicates="last")
    table = made.stream.to_arrow(low, high, fields=fields, duplicates="last")
    check_columns(columns, live, wanted)
    check_table(table, live, wanted)
    if names is not None:
        assert list(columns.fields) == names
        assert table.column_names[2:] == named_columns(names, _column_of)


@pytest.fixture
def mixed(store: Store) -> Stream:
    """Three shapes, one of them with a repeated name."""
    stream = store.stream("x")
    stream.add({"a": 1, "b": ""}, "1-0")
    stream.add([("twice", 1), ("a", 2), ("twice", 2)], "2-0")
    stream.add({"b": 3}, "3-0")
    stream.add({"a": 4, "c": b"\x00\xff"}, "4-0")
    return stream


def both(stream: Stream, *args: Any, **options: Any) -> list[dict[Any, list[Any]]]:
    """Columns and the table, as dictionaries of the fields."""
    columns, table = stream.columns(*args, **options).fields, stream.to_arrow(*args, **options).to_pydict()
    return [columns, {name.encode(): values for name, values in table.items() if not name.startswith("id_")}]


@pytest.mark.parametrize("sealed", [False, True])
def test_a_repeated_name_is_refused_unless_told_which_of_its_values_counts(mixed: Stream, sealed: bool) -> None:
    if sealed:
        mixed.seal()
    for call in (mixed.columns, mixed.to_arrow):
        with pytest.raises(
            ArgumentError, match=r"entry .* holds the field .* twice: duplicates 'first' or 'last' says"
        ):
            call()
    for policy, value in (("first", b"1"), ("last", b"2")):
        assert both(mixed, duplicates=policy, fields=["twice"]) == [{b"twice": [None, value, None, None]}] * 2


@pytest.mark.parametrize("sealed", [False, True])
def test_an_entry_outside_the_range_or_deleted_has_no_say(mixed: Stream, sealed: bool) -> None:
    """Neither its repeated names nor its columns."""
    if sealed:
        mixed.seal()
    assert both(mixed, "1", "1") == [{b"a": [b"1"], b"b": [b""]}] * 2
    assert both(mixed, "3", "4") == [{b"b": [b"3", None], b"a": [None, b"4"], b"c": [None, b"\x00\xff"]}] * 2
    mixed.delete("2-0", "4-0")
    assert both(mixed) == [{b"a": [b"1", None], b"b": [b"", b"3"]}] * 2
    mixed.trim(maxlen=1)
    assert both(mixed) == [{b"b": [b"3"]}] * 2


def test_an_unknown_policy_is_refused(mixed: Stream) -> None:
    for call in (mixed.columns, mixed.to_arrow):
        with pytest.raises(ArgumentError, match=r"^duplicates must be 'first', 'last' or 'fail'$"):
            call(duplicates="any")


@pytest.mark.parametrize("sealed", [False, True])
def test_chosen_fields_come_in_the_order_asked_for_and_are_null_where_missing(mixed: Stream, sealed: bool) -> None:
    if sealed:
        mixed.seal()
    assert [list(fields.items()) for fields in both(mixed, fields=["c", b"none", "b"], duplicates="last")] == [
        [
            (b"c", [None, None, None, b"\x00\xff"]),
            (b"none", [None] * 4),
            (b"b", [b"", None, b"3", None]),
        ]
    ] * 2
    assert both(mixed, fields=["b", "b"], duplicates="last") == [{b"b": [b"", None, b"3", None]}] * 2
    assert both(mixed, fields=[], duplicates="last") == [{}] * 2
    assert (
        len(mixed.columns(fields=[], duplicates="last")) == mixed.to_arrow(fields=[], duplicates="last").num_rows == 4
    )


def test_an_empty_value_is_not_a_missing_one(mixed: Stream) -> None:
    table = mixed.to_arrow(fields=["b"], duplicates="last")
    assert table["b"].to_pylist() == [b"", None, b"3", None]


@pytest.mark.parametrize(
    "name",
    [5, 1.5, "é", b"\xff", bytearray(b"b"), memoryview(b"m"), np.float64(2.5)],
    ids=lambda name: type(name).__name__,
)
def test_a_field_is_asked_for_by_the_name_that_it_was_added_under(store: Store, name: Any) -> None:
    """The number 5 was taken for five bytes of zero, of which no entry has anything."""
    stream = store.stream("numbered")
    stream.add([(name, "value")], "1-1")
    assert list(stream.columns(fields=[name]).fields.values()) == [[b"value"]]
    assert stream.to_arrow(fields=[name]).column(2).to_pylist() == [b"value"]
    (batch,) = stream.scan(layout="typed", columns=[(name, "string")])
    assert batch.column(3).to_pylist() == ["value"]


@pytest.mark.parametrize(
    ("names", "column"), [([b"\xfe", b"\\xfe"], r"\\\\xfe"), (["id_ms", "field:id_ms"], "field:id_ms")]
)
def test_two_fields_that_would_be_one_column_of_a_table_are_refused(
    store: Store, names: list[str | bytes], column: str
) -> None:
    """Arrow has tables of columns of one name, of which a look-up by name gives neither."""
    stream = store.stream("named")
    stream.add([(name, at) for at, name in enumerate(names)], "1-1")
    with pytest.raises(ArgumentError, match=f"the fields b'.*' and b'.*' would both be the column '{column}': leave"):
        stream.to_arrow()
    assert stream.to_arrow(fields=names[:1]).column(2).to_pylist() == [b"0"]
    assert list(stream.columns().fields.values()) == [[b"0"], [b"1"]]


@pytest.mark.parametrize("name", [None, True, ["a"], np.int64(5), "\ud800"], ids=repr)
def test_what_is_no_name_is_refused_as_it_is_by_add(mixed: Stream, name: Any) -> None:
    for ask in (lambda: mixed.columns(fields=[name]), lambda: mixed.scan(layout="typed", columns=[(name, "string")])):
        with pytest.raises(ArgumentError) as refused:
            ask()
        with pytest.raises(ArgumentError) as by_add:
            mixed.add([(name, "value")])
        assert str(refused.value) == str(by_add.value)


@pytest.mark.parametrize("fields", [None, [], ["a", "b"]])
def test_where_there_is_nothing_the_chosen_columns_are_empty(store: Store, fields: list[str] | None) -> None:
    stream = store.stream("x")
    for _ in range(2):
        columns, table = stream.columns(fields=fields), stream.to_arrow(fields=fields)
        assert columns.fields == {name.encode(): [] for name in fields or []}
        assert len(columns) == len(columns.ms) == len(columns.seq) == 0
        assert columns.ms.dtype == np.uint64
        assert table.num_rows == 0
        assert table.column_names == ["id_ms", "id_seq", *(fields or [])]
        stream.add({"a": 1}, "5-*", maxlen=0)
    assert stream.columns("9", "+").ms.tolist() == []


def test_one_name_is_no_sequence_of_names(mixed: Stream) -> None:
    names: list[Any] = ["ab", b"ab"]
    for fields in names:
        with pytest.raises(ArgumentError):
            mixed.columns(fields=fields, duplicates="last")


@pytest.mark.parametrize("bad", ["", "x", "(", "5-", None])
def test_malformed_ends_are_refused(mixed: Stream, bad: Any) -> None:
    for call in (mixed.columns, mixed.to_arrow):
        with pytest.raises(InvalidIDError):
            call(bad, "+")
        with pytest.raises(InvalidIDError):
            call("-", bad)


@pytest.mark.timeout(20)
def test_ids_reach_over_all_of_128_bits(store: Store) -> None:
    stream = store.stream("x")
    for entry_id in ("0-1", f"{2**63}-{2**63}", f"{MAX}-0", MAX_ID):
        stream.add({"a": 1}, entry_id)
    for _ in range(2):
        assert stream.columns().ms.tolist() == stream.to_arrow()["id_ms"].to_pylist() == [0, 2**63, MAX, MAX]
        assert stream.columns().seq.tolist() == stream.to_arrow()["id_seq"].to_pylist() == [1, 2**63, 0, MAX]
        assert stream.columns(MAX_ID, MAX_ID).seq.tolist() == [MAX]
        stream.seal()


def test_names_that_are_no_utf8_are_escaped_in_the_table_and_kept_in_columns(store: Store) -> None:
    stream = store.stream("x")
    stream.add([(b"\xff\x00", 1), ("größe", 2), (b"", 3)])
    assert list(stream.columns().fields) == [b"\xff\x00", "größe".encode(), b""]
    names = stream.to_arrow().column_names
    assert (names[:2], names[3:]) == (["id_ms", "id_seq"], ["größe", ""])
    assert names[2].startswith("\\")
    assert names[2].isascii()


def test_a_store_of_text_gives_bytes_in_columns_too(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "store", decode_responses=True) as store:
        stream = store.stream("x")
        stream.add({"größe": "5 µm"}, "1-0")
        assert stream.columns(fields=["größe"]).fields == {"größe".encode(): ["5 µm".encode()]}
        assert stream.to_arrow()["größe"].to_pylist() == ["5 µm".encode()]


def test_many_shapes_come_together(small: Store) -> None:
    stream = small.stream("x")
    live = []
    for number in range(1, 400):
        pairs = [(b"f%d" % (number % 41), b"%d" % number), (b"pad", b"." * 60)]
        entry_id = stream.add(pairs, (number, 0))
        assert entry_id is not None
        live.append((entry_id, pairs))
        if number == 200:
            stream.seal()
    check_columns(stream.columns(), live, expected(live, "last"))
    check_table(stream.to_arrow(), live, expected(live, "last"))


def test_columns_are_the_same_after_sealing_compacting_and_reopening(made: Layered, tmp_path: Path) -> None:
    made.store.sync()
    shutil.copytree(made.store.path, tmp_path / "store")
    fields = expected(made.live, "last")
    for _ in range(2):
        with small_store(tmp_path / "store", node_max_entries=3) as store:
            check_columns(store.stream("x").columns(duplicates="last"), made.live, fields)
            store.seal()
            check_table(store.stream("x").to_arrow(duplicates="last"), made.live, fields)
            store.compact()
            check_columns(store.stream("x").columns(duplicates="last"), made.live, fields)


@pytest.mark.parametrize("seals", [(), (0, 1, 2), (1,)])
def test_more_fields_than_a_table_can_have_are_an_error_that_says_what_to_do(
    store: Store, seals: tuple[int, ...]
) -> None:
    """As of a dictionary whose keys are customers."""
    stream, each = store.stream("s"), ColumnBatch.MAX_FIELDS // 3 + 1
    for number in range(3):
        stream.add({"kind": "visit"} | {f"customer-{number * each + at}": "1" for at in range(each)})
        if number in seals:
            store.seal("s")
    for read in (stream.columns, stream.to_arrow):
        with pytest.raises(ArgumentError, match=r"more than 10,000 different fields: name those .*\(fields=\[...\]\)"):
            read()
    found = stream.columns(fields=["kind", "customer-9999"])
    assert found.fields == {b"kind": [b"visit"] * 3, b"customer-9999": [None, None, b"1"]}
    table = stream.to_arrow(fields=["customer-3", "kind"])
    assert (table["customer-3"].null_count, table["kind"].null_count) == (2, 0)
    assert len(stream.columns(end=next(stream.range()).id).fields) == each + 1


def test_of_fields_that_few_entries_have_a_table_has_one_array_of_nulls(store: Store) -> None:
    stream = store.stream("s")
    for number in range(60):
        stream.add({f"customer-{number}": "1"})
        store.seal("s")
    table = stream.to_arrow()
    table.validate(full=True)
    assert [table[f"customer-{number}"].null_count for number in (0, 30, 59)] == [59] * 3
    assert table["customer-30"][30].as_py() == b"1"
    addresses = {
        chunk.buffers()[1].address
        for name in table.column_names[2:]
        for chunk in table[name].chunks
        if chunk.null_count == len(chunk)
    }
    assert len(addresses) == 1
