"""`add_arrow`: record batches of Arrow as entries."""

import datetime as dt
import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from diskstream import (
    ArgumentError,
    ArgumentTypeError,
    Commit,
    EntryID,
    IDOrderError,
    InvalidIDError,
    LimitError,
    ReadOnlyError,
    Store,
    Stream,
    ZeroIDError,
    arrow_rows,
)
from diskstream._native import pack_columns
from diskstream.commits import COMPLETE
from tests.streams.layers import MAX, frames, ids, small_store

PAIR = pa.struct([("name", pa.binary()), ("value", pa.binary())])
LISTED = pa.list_(PAIR)


@pytest.fixture
def stream(store: Store) -> Stream:
    return store.stream("x")


def pairs(stream: Stream) -> list[list[tuple[bytes, bytes]]]:
    return [entry.pairs for entry in stream]


def listed(rows: list[Any], kind: Any = LISTED) -> pa.RecordBatch:
    """Rows of (name, value) pairs as a column of lists."""
    cells = [
        None if row is None else [pair and dict(zip(("name", "value"), pair, strict=True)) for pair in row]
        for row in rows
    ]
    return pa.record_batch({"fields": pa.array(cells, kind)})


# --- columns ----------------------------------------------------------------------------------------------------------


def test_each_column_is_a_field_and_each_row_an_entry(store: Store, stream: Stream) -> None:
    batch = pa.record_batch({"rider": ["Ann", "Bob"], "speed": [30, 31]})
    stream.add({"n": 0}, "1-1")
    before = frames(store)
    made = stream.add_arrow(batch)
    assert frames(store) == before + 1
    assert pairs(stream)[1:] == [[(b"rider", b"Ann"), (b"speed", b"30")], [(b"rider", b"Bob"), (b"speed", b"31")]]
    assert made is not None
    assert ids(stream)[1:] == [str(each) for each in made]


MOMENT = dt.datetime(2024, 5, 6, 7, 8, 9, 120_000, dt.UTC)


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (b"\x00\xff", pa.binary(), b"\x00\xff"),
        (b"\x00\xff", pa.large_binary(), b"\x00\xff"),
        (b"abcd", pa.binary(4), b"abcd"),
        (b"abcd", pa.binary_view(), b"abcd"),
        (b"\x00\xff" * 20, pa.binary_view(), b"\x00\xff" * 20),
        ("ü", pa.string(), "ü".encode()),
        ("ü", pa.large_string(), "ü".encode()),
        ("ü" * 20, pa.string_view(), "ü".encode() * 20),
        ("ü", pa.dictionary(pa.int8(), pa.string()), "ü".encode()),
        ("", pa.string(), b""),
        (-5, pa.int8(), b"-5"),
        (2**64 - 1, pa.uint64(), b"18446744073709551615"),
        (True, pa.bool_(), b"true"),
        (False, pa.bool_(), b"false"),
        (1.5, pa.float64(), b"1.5"),
        (-0.25, pa.float32(), b"-0.25"),
        (decimal.Decimal("12.30"), pa.decimal128(10, 2), b"12.30"),
        (decimal.Decimal(0), pa.decimal128(38, 18), b"0.000000000000000000"),
        (decimal.Decimal("-1E-9"), pa.decimal128(38, 9), b"-0.000000001"),
        (decimal.Decimal(1200), pa.decimal128(4, -2), b"1200"),
        (MOMENT.replace(tzinfo=None), pa.timestamp("ms"), b"2024-05-06T07:08:09.120"),
        (MOMENT.replace(microsecond=0, tzinfo=None), pa.timestamp("s"), b"2024-05-06T07:08:09"),
        (MOMENT, pa.timestamp("us", "Asia/Tokyo"), b"2024-05-06T07:08:09.120000Z"),
        (MOMENT.date(), pa.date32(), b"2024-05-06"),
        (MOMENT.time(), pa.time32("ms"), b"07:08:09.120"),
    ],
    ids=repr,
)
def test_what_is_not_bytes_is_written_as_text(stream: Stream, value: Any, kind: Any, text: bytes) -> None:
    column = pa.array([value, None, value], kind)
    stream.add_arrow(pa.record_batch({"v": column, "n": ["1", "2", "3"]}))
    assert pairs(stream) == [[(b"v", text), (b"n", b"1")], [(b"n", b"2")], [(b"v", text), (b"n", b"3")]]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1]], pa.list_(pa.int64())),
        pa.array([{"a": 1}]),
        pa.array([dt.timedelta(1)], pa.duration("s")),
    ],
    ids=lambda column: str(column.type),
)
def test_what_has_no_plain_text_is_refused_by_its_name(store: Store, stream: Stream, column: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="'odd' is"):
        stream.add_arrow(pa.record_batch({"good": ["1"], "odd": column}))
    assert not store.exists("x")


def test_a_null_leaves_its_field_out_and_a_row_without_any_is_refused(store: Store, stream: Stream) -> None:
    batch = pa.record_batch({"a": ["1", None, None], "b": [None, "2", None]})
    stream.add_arrow(batch.slice(0, 2))
    assert pairs(stream) == [[(b"a", b"1")], [(b"b", b"2")]]
    before = frames(store)
    with pytest.raises(ArgumentError, match="row 2 has no field"):
        stream.add_arrow(batch, commit=Commit(b"w", 1))
    assert (len(stream), frames(store), stream.committed(b"w")) == (2, before, None)
    with pytest.raises(ArgumentError, match="row 0 has no field"):
        stream.add_arrow(pa.record_batch({"a": pa.nulls(2)}))
    with pytest.raises(ArgumentError, match="row 0 has no field"):
        stream.add_arrow(pa.record_batch({"id_ms": [1], "id_seq": [1]}))


def test_two_columns_of_one_name_are_a_field_twice(stream: Stream) -> None:
    stream.add_arrow(pa.RecordBatch.from_arrays([pa.array(["1"]), pa.array(["2"])], names=["a", "a"]))
    assert pairs(stream) == [[(b"a", b"1"), (b"a", b"2")]]


def test_some_names_are_no_fields_unless_it_is_said(stream: Stream) -> None:
    names = ["id", "id_ms", "id_seq", "stream", "ts"]
    plain: dict[str, Any] = {name: ["no"] for name in names}
    told = {f"field:{name}": [name] for name in [*names, "fields"]}
    stream.add_arrow(pa.record_batch({**plain, **told, "field:other": ["as it is"]}))
    wanted = [(name.encode(), name.encode()) for name in [*names, "fields"]]
    assert pairs(stream) == [[*wanted, (b"field:other", b"as it is")]]


@pytest.mark.parametrize("name", ["id", "stream", "ts"])
@pytest.mark.parametrize("values", [["5-0"], [b"5-0"], [5], [dt.datetime(2024, 5, 6, tzinfo=dt.UTC)]], ids=repr)
@pytest.mark.parametrize("ids", ["none", "looked at", "passed over"])
def test_a_column_that_may_be_data_does_not_go_without_a_word(
    store: Store, stream: Stream, name: str, values: list[Any], ids: str
) -> None:
    """An order's `id`, an event's `ts`: what the name stands for it is not, and so it was lost."""
    parts = {} if ids == "none" else {"id_ms": [6], "id_seq": [0]}
    batch = pa.record_batch({**parts, "n": ["1"], name: values})
    with pytest.raises(ArgumentError, match=f"'{name}' would not be added.*'field:{name}'"):
        stream.add_arrow(batch, ids="columns" if ids == "looked at" else "auto")
    assert not store.exists("x")


@pytest.mark.parametrize("how", ["auto", "columns"])
def test_what_reads_and_exports_give_beside_fields_goes(stream: Stream, how: str) -> None:
    times = pa.array([dt.datetime(1970, 1, 1, 0, 0, 5, tzinfo=dt.UTC), None], pa.timestamp("us", "UTC"))
    parts: dict[str, Any] = {"id_ms": pa.array([5000, MAX], pa.uint64()), "id_seq": [7, 0]}
    stream.add_arrow(pa.record_batch({"stream": [b"x", b"x"], **parts, "ts": times, "n": ["1", "2"]}), ids=how)
    assert (ids(stream) == ["5000-7", f"{MAX}-0"]) is (how == "columns")
    assert [pair for row in pairs(stream) for pair in row] == [(b"n", b"1"), (b"n", b"2")]


def test_beside_ids_of_text_their_times_go(stream: Stream) -> None:
    times = pa.array([5, 6], pa.timestamp("ms"))
    stream.add_arrow(
        pa.record_batch({"stream": ["x"] * 2, "id": ["5-1", "6-2"], "ts": times, "n": [1, 2]}), ids="columns"
    )
    assert ids(stream) == ["5-1", "6-2"]
    with pytest.raises(ArgumentError, match="'ts' would not be added"):
        stream.add_arrow(pa.record_batch({"id": ["7-1", "8-2"], "ts": times, "n": [1, 2]}), ids="columns")


def test_an_id_beside_its_parts_goes_where_it_says_the_same(stream: Stream) -> None:
    parts = {"id_ms": [5, 6], "id_seq": [1, 2], "n": [1, 2]}
    with pytest.raises(ArgumentError, match="'id' would not be added"):
        stream.add_arrow(pa.record_batch({"id": ["5-1", "6-3"], **parts}), ids="columns")
    stream.add_arrow(pa.record_batch({"id": ["5-1", "6-2"], **parts}), ids="columns")
    assert ids(stream) == ["5-1", "6-2"]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.int64(), pa.bool_()], ids=str)
def test_a_slice_of_a_batch_is_its_rows_only(stream: Stream, kind: Any) -> None:
    values = [None if number % 3 == 0 else number % 2 if kind == pa.bool_() else number for number in range(100)]
    column = pa.array(values, pa.int64()).cast(pa.string() if kind == pa.binary() else kind).cast(kind)
    batch = pa.record_batch({"n": [str(number) for number in range(100)], "v": column})
    for start, count in ((0, 5), (7, 1), (13, 30), (99, 1)):
        before = len(stream)
        stream.add_arrow(batch.slice(start, count))
        found = list(stream)[before:]
        assert [int(entry["n"]) for entry in found] == list(range(start, start + count))
        assert [b"v" in entry for entry in found] == [value is not None for value in values[start : start + count]]


# --- lists of fields --------------------------------------------------------------------------------------------------

KINDS = [
    LISTED,
    pa.large_list(PAIR),
    pa.list_(pa.struct([("value", pa.large_string()), ("name", pa.string())])),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_list_of_fields_keeps_order_and_repeated_names(stream: Stream, kind: Any) -> None:
    rows = [[("a", "1"), ("b", ""), ("a", "2")], [("", "x")], [("b", "9"), ("a", "8")]]
    stream.add_arrow(listed(rows, kind))
    wanted = [[(name.encode(), value.encode()) for name, value in row] for row in rows]
    assert pairs(stream) == wanted
    stream.add_arrow(listed([[("z", "0")], *rows], kind).slice(2, 1))
    assert pairs(stream) == [*wanted, wanted[1]]


def test_a_map_is_a_list_of_fields_too(stream: Stream) -> None:
    stream.add_arrow(
        pa.record_batch({"fields": pa.array([[("a", 1)], [("b", 2), ("c", None)]], pa.map_(pa.string(), pa.int64()))})
    )
    assert pairs(stream) == [[(b"a", b"1")], [(b"b", b"2")]]


def test_nulls_in_lists_leave_fields_out(stream: Stream) -> None:
    stream.add_arrow(listed([[("a", None), ("b", "1"), None, (None, None)], [("c", "2")]]))
    assert pairs(stream) == [[(b"b", b"1")], [(b"c", b"2")]]
    for bad in ([], None, [None], [("a", None)]):
        with pytest.raises(ArgumentError, match="row 1 has no field"):
            stream.add_arrow(listed([[("a", "1")], bad, [("b", "1")]]))
    with pytest.raises(ArgumentError, match="row 1 has a value without a name"):
        stream.add_arrow(listed([[("a", "1")], [(None, "2")]]))
    assert len(stream) == 2


def test_other_columns_beside_a_list_of_fields_are_not_dropped_in_silence(stream: Stream) -> None:
    batch = listed([[("a", "1")]]).append_column("ts", pa.array([5]))
    stream.add_arrow(batch)
    assert pairs(stream) == [[(b"a", b"1")]]
    with pytest.raises(ArgumentError, match="no other columns: 'more'"):
        stream.add_arrow(batch.append_column("more", pa.array([5])))


def test_a_list_of_something_else_is_refused_and_no_list_is_a_field(stream: Stream) -> None:
    with pytest.raises(ArgumentTypeError, match="have a name and a value"):
        stream.add_arrow(pa.record_batch({"fields": [["a"]]}))
    with pytest.raises(ArgumentTypeError, match="have a name and a value"):
        stream.add_arrow(pa.record_batch({"fields": [[{"name": "a", "other": "b"}]]}))
    stream.add_arrow(pa.record_batch({"fields": ["text"]}))
    assert pairs(stream) == [[(b"fields", b"text")]]


# --- IDs --------------------------------------------------------------------------------------------------------------


def with_ids(given: list[tuple[Any, Any]], kind: Any = None) -> pa.RecordBatch:
    ms, seq = (pa.array(column, kind or pa.uint64()) for column in zip(*given, strict=True))
    return pa.record_batch({"id_ms": ms, "id_seq": seq, "n": [str(number) for number in range(len(given))]})


def test_ids_of_columns_are_the_ids_of_the_entries(stream: Stream) -> None:
    wanted = [(0, 1), (5, 0), (5, MAX), (2**63, 2**63), (MAX, MAX)]
    assert stream.add_arrow(with_ids(wanted), ids="columns") == (EntryID(0, 1), EntryID(MAX, MAX))
    assert [(entry.id.ms, entry.id.seq) for entry in stream] == wanted


def test_signed_numbers_keep_their_bits(stream: Stream) -> None:
    signed = [(number - 2**64 if number >= 2**63 else number, -1) for number in (5, 2**63 - 1, 2**63, MAX)]
    stream.add_arrow(with_ids(signed, pa.int64()), ids="columns")
    assert ids(stream) == [f"{number}-{MAX}" for number in (5, 2**63 - 1, 2**63, MAX)]


def test_decimals_and_small_numbers_are_numbers_too(stream: Stream) -> None:
    stream.add_arrow(with_ids([(1, 2), (3, 4)], pa.int16()), ids="columns")
    stream.add_arrow(with_ids([(MAX, MAX)], pa.decimal128(20, 0)), ids="columns")
    assert ids(stream) == ["1-2", "3-4", f"{MAX}-{MAX}"]


def test_ids_may_be_text(stream: Stream) -> None:
    batch = pa.record_batch({"id": ["5-1", "5-2", "7"], "n": ["1", "2", "3"]})
    assert stream.add_arrow(batch, ids="columns") == (EntryID(5, 1), EntryID(7, 0))
    assert pairs(stream) == [[(b"n", b"1")], [(b"n", b"2")], [(b"n", b"3")]]
    stream.add_arrow(listed([[("a", "1")]]).append_column("id", pa.array(["8-1"])), ids="columns")
    assert ids(stream) == ["5-1", "5-2", "7-0", "8-1"]


@pytest.mark.parametrize(
    "given", [[(6, 1), (6, 1)], [(6, 2), (6, 1)], [(7, 0), (6, 0)], [(5, 3), (9, 9)], [(1, 1), (9, 9)]]
)
def test_ids_must_rise_from_the_last_one_of_the_stream_on(store: Store, stream: Stream, given: Any) -> None:
    stream.add({"a": 1}, "5-3")
    before = frames(store)
    with pytest.raises(IDOrderError):
        stream.add_arrow(with_ids(given), ids="columns", commit=Commit(b"w", 1))
    assert (ids(stream), frames(store), stream.committed(b"w")) == (["5-3"], before, None)


@pytest.mark.parametrize(
    ("batch", "error", "text"),
    [
        (with_ids([(0, 0), (1, 1)]), ZeroIDError, "greater than 0-0"),
        (with_ids([(1, 1), (2, None)]), ArgumentError, "row 1 has no ID"),
        (pa.record_batch({"id": ["1-1", None], "n": [1, 2]}), ArgumentError, "row 1 has no ID"),
        (pa.record_batch({"id": ["1-1", "1-x"], "n": [1, 2]}), InvalidIDError, "row 1"),
        (pa.record_batch({"n": [1]}), ArgumentError, "wants the columns"),
        (pa.record_batch({"id_ms": [1], "n": [1]}), ArgumentError, "wants the columns"),
        (pa.record_batch({"id": [1], "n": [1]}), ArgumentTypeError, "not text"),
        (with_ids([(1.5, 1.5)], pa.float64()), ArgumentTypeError, "'id_ms' is double"),
        (with_ids([(-1, 1)], pa.decimal128(20, 0)), ArgumentError, "'id_ms' does not hold"),
    ],
    ids=str,
)
def test_ids_that_cannot_be_used(store: Store, stream: Stream, batch: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        stream.add_arrow(batch, ids="columns")
    assert not store.exists("x")


def test_ids_are_looked_at_only_if_asked_for(stream: Stream) -> None:
    made = stream.add_arrow(with_ids([(9, 9), (1, None)]))
    assert made is not None
    assert made[0].ms > 9
    assert made[1] == made[0].next()


# --- what is given ----------------------------------------------------------------------------------------------------


def test_no_rows_are_no_entries_and_no_stream(store: Store, stream: Stream) -> None:
    empty = pa.record_batch({"a": pa.array([], pa.string())})
    for batch in (empty, empty.slice(0), listed([]), pa.record_batch({})):
        assert stream.add_arrow(batch, commit=Commit(b"w", 1)) is None
    assert stream.add_arrow(with_ids([(1, 1)]).slice(1), ids="columns") is None
    assert not store.exists("x")


@pytest.mark.parametrize("wrong", [pa.table({"a": [1]}), [{"a": 1}], None], ids=lambda wrong: type(wrong).__name__)
def test_what_is_no_batch_is_refused(stream: Stream, wrong: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="RecordBatch"):
        stream.add_arrow(wrong)


def test_ids_are_one_of_two_words(stream: Stream) -> None:
    with pytest.raises(ArgumentError, match="'auto' or 'columns'"):
        stream.add_arrow(pa.record_batch({"a": [1]}), ids="column")


def test_an_entry_has_its_limits_here_too(store: Store, stream: Stream) -> None:
    with pytest.raises(LimitError, match="entry of"):
        stream.add_arrow(pa.record_batch({"a": [b"." * (32 << 20)]}))
    with pytest.raises(LimitError, match="fields of an entry"):
        stream.add_arrow(listed([[(b"", b"")] * 65_537]))
    assert not store.exists("x")


def test_a_store_for_reading_only_takes_nothing(tmp_path: Path) -> None:
    with small_store(tmp_path / "s") as store:
        store.stream("x").add({"a": 1})
    with small_store(tmp_path / "s", read_only=True) as store, pytest.raises(ReadOnlyError):
        store.stream("x").add_arrow(pa.record_batch({"a": [1]}))


# --- commits, and batches of several frames ---------------------------------------------------------------------------


@pytest.fixture
def small_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames of 1000 bytes, as if that were the limit."""

    def packed(columns: Any, rows: int, ids: Any) -> Any:
        return pack_columns(columns, rows, ids, 1000)

    monkeypatch.setattr(arrow_rows, "pack_columns", packed)


def numbers(count: int) -> pa.RecordBatch:
    return pa.record_batch({"n": [str(number) for number in range(count)], "pad": ["." * 90] * count})


def found(stream: Stream) -> list[int]:
    return [int(entry["n"]) for entry in stream]


@pytest.mark.parametrize("durable", [False, True])
def test_a_part_is_added_once(stream: Stream, durable: bool) -> None:
    batch = numbers(10)
    assert stream.add_arrow(batch, commit=Commit(b"w", 3), durable=durable) is not None
    assert stream.add_arrow(batch, commit=Commit(b"w", 3), durable=durable) is None
    assert stream.add_arrow(with_ids([(1, 1)]), ids="columns", commit=Commit(b"w", 3)) is None
    assert stream.add_arrow(batch, commit=Commit(b"w", 3, 1), durable=durable) is not None
    assert found(stream) == [*range(10), *range(10)]
    assert stream.committed(b"w") == (3, 1)


@pytest.mark.usefixtures("small_frames")
@pytest.mark.parametrize("fsync", ["always", "os"])
def test_a_batch_that_does_not_fit_becomes_several_frames_and_parts(tmp_path: Path, fsync: str) -> None:
    with small_store(tmp_path / "s", fsync=fsync) as store:
        stream = store.stream("x")
        stream.add({"n": -1}, "1-1")
        before = frames(store)
        made = stream.add_arrow(numbers(200), commit=Commit(b"w", 1, 5), durable=True)
        assert made is not None
        assert ids(stream)[1::199] == [str(each) for each in made]
        count = len(arrow_rows.pack(numbers(200)))
        assert count > 15
        assert stream.committed(b"w") == (1, 5 + count - 1)
        assert stream.info().segments > 2, "it rolled in between"
        assert frames(store) >= before + count
        assert found(stream) == list(range(-1, 200))
        assert stream.add_arrow(numbers(200), commit=Commit(b"w", 1, 5)) is None
    with small_store(tmp_path / "s") as store:
        assert found(store.stream("x")) == list(range(-1, 200))
        assert store.stream("x").add_arrow(numbers(200), commit=Commit(b"w", 1, 5)) is None


@pytest.mark.usefixtures("small_frames")
@pytest.mark.parametrize("how", ["auto", "columns"])
def test_who_tries_again_after_half_of_the_frames_adds_the_other_half(store: Store, stream: Stream, how: str) -> None:
    batch = numbers(100)
    batch = batch.append_column("id_ms", pa.array(range(1, 101))).append_column("id_seq", pa.array([0] * 100))
    rows = arrow_rows.pack(batch, how)
    stream.note_commit(Commit(b"other", 1))
    log = store._log(b"x", create=False)
    assert log is not None
    done = 0
    for part, frame in enumerate(rows[: len(rows) // 2]):  # as if the process had died then
        assert log.native.add_packed(frame, commit=(b"w", 1, part)) is not None
        done += frame.rows
    assert 0 < len(stream) == done < 100
    made = stream.add_arrow(batch, ids=how, commit=Commit(b"w", 1))
    assert made is not None
    assert found(stream) == list(range(100))
    assert ids(stream)[done :: 99 - done] == [str(each) for each in made]


@pytest.mark.usefixtures("small_frames")
def test_parts_do_not_run_into_the_one_that_says_complete(store: Store, stream: Stream) -> None:
    count = len(arrow_rows.pack(numbers(100)))
    with pytest.raises(LimitError, match="the part of the last frame"):
        stream.add_arrow(numbers(100), commit=Commit(b"w", 1, COMPLETE - count + 1))
    assert not store.exists("x")
    assert stream.add_arrow(numbers(100), commit=Commit(b"w", 1, COMPLETE - count))


def test_frames_are_cut_at_the_limit_and_alike_each_time() -> None:
    value = b"." * (1 << 20)
    batch = pa.record_batch({"a": [value] * 130})
    rows = [[frame.rows for frame in arrow_rows.pack(batch)] for _ in range(2)]
    assert rows == [[63, 63, 4]] * 2


def test_what_comes_out_as_a_table_goes_in_again(store: Store, stream: Stream) -> None:
    copy = store.stream("copy")
    stream.add_many([{"a": number, "id_ms": "mine"} for number in range(50)], ids=[(number, 7) for number in range(50)])
    table = stream.to_arrow()
    for batch in table.to_batches(max_chunksize=7):
        copy.add_arrow(batch, ids="columns")
    there = [(entry.id, entry.fields) for entry in copy]
    assert there == [(entry.id, entry.fields) for entry in stream]


@pytest.mark.parametrize("name", ["id", "stream", "ts"])
def test_what_a_table_calls_like_a_part_of_an_entry_is_not_lost_on_the_way_back(
    store: Store, stream: Stream, name: str
) -> None:
    stream.add({"a": 1, name: "mine"}, "5-5")
    (batch,) = stream.to_arrow().to_batches()
    with pytest.raises(ArgumentError, match=f"'field:{name}'"):
        store.stream("copy").add_arrow(batch, ids="columns")
    told = batch.rename_columns([f"field:{each}" if each == name else each for each in batch.schema.names])
    store.stream("copy").add_arrow(told, ids="columns")
    assert [entry.fields for entry in store.stream("copy")] == [entry.fields for entry in stream]
