"""The digest of rows is what docs/format/digest.md says: held against a slow one that follows it word for word."""

import re
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

import diskstream
from tests.slow_reader.digest import LANES, MASK, chained, mix, of_bytes, of_id, of_list
from tests.spark.archives import fill

pytest.importorskip("pyarrow")

import pyarrow as pa

from diskstream._native import RowDigests
from diskstream.errors import ArgumentError
from diskstream.spark.jobs.digest import digest_of, row_hashes
from diskstream.spark.jobs.parts import archived

PAIRS = pa.list_(pa.struct([("name", pa.binary()), ("value", pa.binary())]))


# --- slowly, by the definition ----------------------------------------------------------------------------------------


def of_value(value: Any, kind: "pa.DataType", lane: int) -> int:
    if isinstance(value, list):
        return of_list([(pair["name"], pair["value"]) for pair in value], lane)
    if isinstance(value, str | bytes):
        return of_bytes(value.encode() if isinstance(value, str) else value, lane)
    if isinstance(value, Decimal):
        number = int(value.scaleb(kind.scale)) & (1 << 128) - 1
        return chained(lane, [number & MASK, number >> 64], lane)
    if pa.types.is_float32(kind):
        (value,) = struct.unpack("<i", struct.pack("<f", value))
    elif pa.types.is_float64(kind):
        (value,) = struct.unpack("<Q", struct.pack("<d", value))
    elif isinstance(value, datetime):
        value = int((value - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000)
    elif isinstance(value, date):
        value = (value - date(1970, 1, 1)).days
    return int(value) * lane & MASK


def slowly(batch: "pa.RecordBatch", lane: int) -> list[int]:
    found = []
    for row in range(batch.num_rows):
        ms, seq = (batch[name][row].as_py() & MASK for name in ("id_ms", "id_seq"))
        total = of_id(ms, seq, lane)
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            value = column[row].as_py()
            if name not in ("id_ms", "id_seq", "ts") and value is not None:
                total += mix(of_value(value, column.type, lane) + of_bytes(name.encode(), lane) & MASK, lane)
        found.append(mix(total & MASK, lane))
    return found


# --- and as it is done ------------------------------------------------------------------------------------------------

texts = some.binary(max_size=12) | some.binary(min_size=60, max_size=70)
pairs = some.lists(some.fixed_dictionaries({"name": texts, "value": texts}), max_size=4)
kinds: dict[str, tuple["pa.DataType", some.SearchStrategy[Any]]] = {
    "text": (pa.string(), some.text(max_size=20)),
    "bytes": (pa.binary(), texts),
    "long": (pa.int64(), some.integers(-(1 << 63), (1 << 63) - 1)),
    "short": (pa.int16(), some.integers(-(1 << 15), (1 << 15) - 1)),
    "double": (pa.float64(), some.floats(allow_nan=False)),
    "float": (pa.float32(), some.floats(width=32, allow_nan=False)),
    "flag": (pa.bool_(), some.booleans()),
    "price": (pa.decimal128(20, 2), some.decimals(-(10**15), 10**15, places=2)),
    "day": (pa.date32(), some.dates()),
    "fields": (PAIRS, pairs),
}


def among(lists: "pa.Array", pad: int) -> "pa.Array":
    """The same lists with names as places among those that occur, behind some others."""
    names = lists.values.field(0)
    known = [b"", b"never"][:pad] + sorted(set(names.to_pylist()))
    places = pa.array([known.index(name) if name else known.index(b"") for name in names.to_pylist()], pa.int32())
    coded = pa.DictionaryArray.from_arrays(places, pa.array(known, pa.binary()))
    structs = pa.StructArray.from_arrays([coded, lists.values.field(1)], names=["name", "value"])
    kind = pa.list_(structs.type)
    return pa.Array.from_buffers(
        kind, len(lists), lists.buffers()[:2], null_count=lists.null_count, offset=lists.offset, children=[structs]
    )


@given(some.data())
def test_each_kind_of_column_counts_as_the_page_says_with_nulls_and_in_slices(data: some.DataObject) -> None:
    rows = data.draw(some.integers(1, 6))
    ids = some.lists(some.integers(-(1 << 63), (1 << 63) - 1), min_size=rows, max_size=rows)
    names = data.draw(some.lists(some.sampled_from(sorted(kinds)), unique=True))
    columns = {"id_ms": pa.array(data.draw(ids), pa.int64()), "id_seq": pa.array(data.draw(ids), pa.int64())}
    for name in names:
        kind, values = kinds[name]
        drawn = data.draw(some.lists(some.none() | values, min_size=rows, max_size=rows))
        columns[name] = pa.array(drawn, kind)
    if "fields" in columns and data.draw(some.booleans()):
        columns["fields"] = among(columns["fields"], pad=data.draw(some.integers(0, 2)))
    whole = pa.RecordBatch.from_pydict(columns)
    first = data.draw(some.integers(0, rows - 1))
    batch = whole.slice(first, data.draw(some.integers(1, rows - first)))
    expected = [slowly(batch, lane) for lane in LANES]
    assert [lane.tolist() for lane in row_hashes(batch)] == expected
    assert digest_of([batch]).lanes == tuple(sum(lane) & MASK for lane in expected)


def test_a_batch_without_rows_or_with_nothing_but_nulls_is_no_different() -> None:
    ids = {"id_ms": pa.array([1], pa.int64()), "id_seq": pa.array([0], pa.int64())}
    bare = pa.RecordBatch.from_pydict(ids)
    nothing = pa.RecordBatch.from_pydict({**ids, "text": pa.nulls(1, pa.string())})
    assert digest_of([nothing]) == digest_of([bare]) == digest_of([bare, bare.slice(0, 0), bare.slice(1)])


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        pa.array(["a"]).dictionary_encode(),  # whose bits are those of an index
        pa.array([1 << 31], pa.uint32()),
        pa.array([1], pa.timestamp("ns")),
        pa.array([1], pa.duration("us")),
        pa.array([b"ab"], pa.binary(2)),
        pa.array([Decimal(1)], pa.decimal256(3)),
        pa.array([[1]], pa.list_(pa.int64())),
        pa.array(
            [[{"name": b"n", "value": b"v"}]], pa.list_(pa.struct([("name", pa.binary()), ("jame", pa.binary())]))
        ),
    ],
    ids=lambda column: str(column.type),
)
def test_what_archives_do_not_have_is_refused(column: pa.Array) -> None:
    ids = {"id_ms": pa.array([1], pa.int64()), "id_seq": pa.array([0], pa.int64())}
    with pytest.raises(ArgumentError, match=f"archives have no columns of type {re.escape(str(column.type))}"):
        digest_of([pa.RecordBatch.from_pydict({**ids, "column": column})])


def test_columns_that_do_not_fit_their_rows_are_refused() -> None:
    two = np.array([1, 2], np.uint64)
    rows = RowDigests(two, two)
    with pytest.raises(ArgumentError, match="offsets beyond their bytes, or fewer values than rows"):
        rows.numbers(b"n", None, two[:1])
    with pytest.raises(ArgumentError, match="columns that do not fit"):
        rows.texts(b"t", None, (np.array([0, 1, 9], np.int32), np.zeros(3, np.uint8)))
    with pytest.raises(ArgumentError, match="columns that do not fit"):
        RowDigests(two, two[:1])


def test_digests_tell_rows_apart_and_add_up(tmp_path: Path) -> None:
    def digest(*entries: Any) -> str:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        fill(folder, "s", list(entries))
        with diskstream.open(folder, read_only=True) as store:
            batches = list(store.stream("s").scan())
            whole = digest_of(batches)
            assert whole == digest_of(row for batch in reversed(batches) for row in rows_of(batch))
            assert whole == digest_of(archived(batch) for batch in batches)
            assert whole.lanes == tuple(
                sum(sum(slowly(archived(batch), lane)) for batch in batches) & MASK for lane in LANES
            )
            return str(whole)

    seen = [
        digest(("1-0", [(b"a", b"b")])),
        digest(("1-1", [(b"a", b"b")])),
        digest(("0-1", [(b"a", b"b")])),
        digest(("1-0", [(b"b", b"a")])),
        digest(("1-0", [(b"a", b"b\0")])),
        digest(("1-0", [(b"ab", b"")])),
        digest(("1-0", [(b"a", b"b"), (b"a", b"b")])),
        digest(("1-0", [(b"a", b"1"), (b"b", b"2")])),
        digest(("1-0", [(b"b", b"2"), (b"a", b"1")])),
        digest(("1-0", [(b"a", b"2"), (b"b", b"1")])),
        digest(("1-0", [(b"a", b"x" * 64)])),
        digest(("1-0", [(b"a", b"x" * 65)])),
        digest(("1-0", [(b"a", b"x" * 64 + b"y")])),
        digest(("1-0", [(b"a", b"1")]), ("1-1", [(b"a", b"2")])),
        digest(("1-0", [(b"a", b"2")]), ("1-1", [(b"a", b"1")])),
    ]
    assert len(set(seen)) == len(seen)
    # The format's own example: it never changes.
    assert seen[0] == "8dfd6c6a3e06741def1bb3b698253014"


def rows_of(batch: Any) -> Any:
    return (batch.slice(row, 1) for row in reversed(range(batch.num_rows)))
