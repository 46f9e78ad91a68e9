"""`splits` and `scan`: a stream cut into pieces, and read as Arrow record batches: the same entries as `range`."""

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

import diskstream
from diskstream import ArgumentError, EntryID, Store, Stream
from diskstream.engine.splits import Piece
from tests.streams.background import Background
from tests.streams.layers import MAX, Layered, Pairs, Row, kinds, layered, nth_id, rows, small_store

ALL_KINDS = {"compacted", "sealed", "rows", "active"}
# Nodes have seven entries, and up to six more where the rest would be a node of its own.
LARGEST_NODE = 13


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


def test_ids_are_all_that_the_layout_ids_has(made: Layered) -> None:
    found = table(made.stream.scan(layout="ids"))
    assert found.schema == pa.schema([("id_ms", pa.uint64()), ("id_seq", pa.uint64()), ("ts", pa.timestamp("us", "UTC"))])
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
    columns = [("n", "binary"), (b"odd\xff", "binary"), ("none", "binary")]
    found = table(made.stream.scan(layout="typed", columns=columns, duplicates=duplicates))
    assert found.column_names == ["id_ms", "id_seq", "ts", "n", "odd\\xff", "none", "bad"]
    assert found["n"].to_pylist() == [chosen(pairs).get(b"n") for _, pairs in made.live]
    assert found["odd\\xff"].to_pylist() == [dict(pairs).get(b"odd\xff") for _, pairs in made.live]
    assert found["none"].null_count == found["bad"].null_count == len(made.live)


@pytest.mark.parametrize("layout", ["map", "typed"])
def test_a_repeated_name_may_be_refused(store: Store, layout: str) -> None:
    stream = store.stream("x")
    stream.add([("a", 1), ("b", 2)], "1-0")
    stream.add([("a", 1), ("a", 2)], "2-0")
    wanted = {"layout": layout, "columns": {"a": "int64"}, "duplicates": "fail"}
    assert table(stream.scan(end="1-0", **wanted)).num_rows == 1
    with pytest.raises(ArgumentError, match="an entry holds one field name twice"):
        list(stream.scan(**wanted))


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    start=st.integers(0, 480), end=st.integers(0, 480), exclusive=st.booleans(), batch_rows=st.sampled_from([1, 20, 500])
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
    for _ in range(2):
        assert list(stream.scan()) == stream.splits() == []
        assert stream.count_from("-") == 0
        assert stream.id_further("-", 1) is stream.trimmed_to() is None
        store.stream("x").set_id("5-0") if store.exists("x") else store.stream("x").group("g", mkstream=True)


# --- types ------------------------------------------------------------------------------------------------------------

NOON = datetime(2026, 11, 21, 12, 0, 0, 250_000, tzinfo=UTC)
TYPES: dict[str, tuple[dict[str, Any], list[str | bytes]]] = {
    "bool": ({"true": True, "F": False, "Yes": True, "0": False}, ["", "2", "maybe"]),
    "int8": ({"-128": -128, "+127": 127}, ["128", "1.0", " 1", ""]),
    "int16": ({"-32768": -32768, "7": 7}, ["32768", "x"]),
    "int32": ({"2147483647": 2**31 - 1}, ["2147483648", "1e3"]),
    "int64": ({"-9223372036854775808": -(2**63), "00": 0}, ["9223372036854775808", "--1", "0x1"]),
    "float": ({"0.5": 0.5, "-1e3": -1000.0, "inf": float("inf")}, ["", "1,5", "one"]),
    "double": ({"0.1": 0.1, "1e308": 1e308}, ["1 000", "0x1p3", b"\xff"]),
    "decimal(5,2)": ({"1.005": Decimal("1.01"), "-999.99": Decimal("-999.99"), "2e1": 20}, ["1000", "1.2.3", "NaN"]),
    "timestamp": (
        {
            "2026-11-21T12:00:00.25Z": NOON,
            "2026-11-21 14:00:00,250+02:00": NOON,
            "1795262400250": NOON,
            "2026-11-21": NOON.replace(hour=0, microsecond=0),
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
    assert [column.to_pylist() for column in batch.columns[3:]] == [[7], ["7"], [None], [[{"name": b"v", "value": b"7"}]]]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"layout": "rows"}, "layout must be 'ids', 'fields', 'map', 'raw' or 'typed'"),
        ({"layout": "typed"}, "layout 'typed' needs columns"),
        ({"layout": "typed", "columns": {"v": "int"}}, "no such type of a column: int"),
        ({"layout": "typed", "columns": {"v": "decimal(39,0)"}}, "no such type of a column"),
        ({"layout": "map", "duplicates": "any"}, "duplicates must be 'first', 'last' or 'fail'"),
        ({"batch_rows": 0}, "a batch has at least one row"),
        ({"start": "x"}, "Invalid stream ID"),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_read(store: Store, options: dict[str, Any], says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        store.stream("x").scan(**options)


# --- large IDs --------------------------------------------------------------------------------------------------------


def test_ids_up_to_the_last_one_are_kept_whole_and_times_past_2_63_are_null(store: Store) -> None:
    latest_us = 2**63 // 1000 - 1
    given_ids = [EntryID(latest_us, 0), EntryID(latest_us + 1, 0), EntryID(2**63, 2**63), EntryID(MAX, MAX)]
    stream = store.stream("x")
    for entry_id in given_ids:
        stream.add({"n": 1}, entry_id)
    for _ in range(2):
        found = table(stream.scan(layout="ids"))
        assert scanned_ids(found) == given_ids
        assert found["ts"].cast(pa.int64()).to_pylist() == [latest_us * 1000, None, None, None]
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


def test_a_scan_ends_where_another_process_deletes_the_stream(small: Store, tmp_path: Path) -> None:
    """It looked for the stream again and again, and found the one that was gone."""
    many(small)
    with small_store(small.path) as other:
        found = other.stream("x").scan(batch_rows=10)
        read = numbers(iter([next(found)]))
        assert small.delete("x")
        read += Background(lambda: numbers(found)).result()
    assert read == list(range(1, len(read) + 1))


def test_a_scan_takes_what_was_added_until_it_began(small: Store) -> None:
    stream = many(small, 10)
    found = stream.scan(batch_rows=1)
    assert next(found).num_rows
    stream.add({"n": 1}, "99-0")
    assert 99 not in numbers(found)


# --- splits -----------------------------------------------------------------------------------------------------------


def check_pieces(pieces: list[Piece], low: EntryID, high: EntryID) -> None:
    """Each within the range, in order, none over another."""
    for piece in pieces:
        assert low <= piece.first <= piece.last <= high
        assert piece.entries > 0
    for before, after in zip(pieces, pieces[1:], strict=False):
        assert before.last < after.first
        assert before.segment <= after.segment


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    start=st.integers(0, 480),
    end=st.integers(0, 480),
    max_entries=st.sampled_from([1, 3, 7, 20, 10**6]),
    max_bytes=st.sampled_from([1, 1000, 4000, 10**9]),
    tail=st.booleans(),
)
def test_pieces_cover_any_range_exactly_once_within_their_limits(
    made: Layered, start: int, end: int, max_entries: int, max_bytes: int, tail: bool
) -> None:
    low, high = nth_id(start), nth_id(end)
    pieces = made.stream.splits(low, high, max_entries=max_entries, max_bytes=max_bytes, tail=tail)
    check_pieces(pieces, low, high)
    read: list[Row] = []
    for piece in pieces:
        part = rows(made.stream.range(piece.first, piece.last))
        assert len(part) <= piece.entries <= (max(max_entries, LARGEST_NODE) if piece.sealed else max_entries)
        read += part
    wanted = rows(made.stream.range(low, high))
    if not tail:
        active = kinds(made.store).index("active")
        assert len({piece.segment for piece in pieces}) <= active
        wanted = wanted[: len(read)]
        last_of_others = table(made.stream.scan(layout="ids", metadata=True))
        newest = max(last_of_others["segment"].to_pylist())
        assert newest not in {piece.segment for piece in pieces}
    assert read == wanted


def test_a_piece_lies_in_the_segment_that_it_names(made: Layered) -> None:
    for piece in made.stream.splits(max_entries=5):
        for batch in made.stream.scan(piece.first, piece.last, layout="ids", metadata=True):
            assert set(batch["segment"].to_pylist()) == {piece.segment}


def test_pieces_know_what_is_sealed_and_how_large_it_is_about(made: Layered) -> None:
    pieces = made.stream.splits()
    live = {piece.segment for piece in pieces}
    packed = sum(kind in ("sealed", "compacted") for kind in kinds(made.store))
    assert sum(piece.sealed for piece in pieces) <= packed
    assert len(pieces) == len(live)  # large limits: a segment is one piece
    for piece in pieces:
        assert 60 < piece.size_bytes / piece.entries < 250


def test_pieces_without_the_tail_leave_only_the_active_segment_out(made: Layered) -> None:
    pieces = made.stream.splits(max_entries=10, tail=False)
    assert pieces == made.stream.splits(max_entries=10)[: len(pieces)]
    read = [row for piece in pieces for row in rows(made.stream.range(piece.first, piece.last))]
    newest = max(table(made.stream.scan(metadata=True))["segment"].to_pylist())
    left = [batch.num_rows for batch in made.stream.scan(metadata=True) if batch["segment"][0].as_py() == newest]
    assert read == made.live[: len(made.live) - sum(left)]


@pytest.mark.parametrize("limits", [{"max_entries": 0}, {"max_bytes": 0}])
def test_a_piece_cannot_be_empty(store: Store, limits: dict[str, int]) -> None:
    with pytest.raises(ArgumentError, match="a piece holds at least one entry and one byte"):
        store.stream("x").splits(**limits)


def test_a_range_that_ends_before_it_begins_has_no_pieces(made: Layered) -> None:
    for low, high in [(40, 20), (12, 10), (197, 196)]:
        assert made.stream.splits(low, high) == []


def test_a_store_that_is_only_read_has_the_same(made: Layered) -> None:
    made.store.sync()
    with diskstream.open(made.store.path, read_only=True) as store:
        stream = store.stream("x")
        assert scanned(stream) == made.live
        assert stream.splits(max_entries=9) == made.stream.splits(max_entries=9)
        assert stream.count_from("-") == made.stream.count_from("-")
        assert stream.trimmed_to() == made.stream.trimmed_to()
        assert stream.id_further("-", 100) == made.stream.id_further("-", 100)


# --- counting, by brute force -----------------------------------------------------------------------------------------


class Model:
    """What became of each entry."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = small_store(path, segment_bytes=4096)
        self.entries: dict[EntryID, str] = {}
        self.compacted = False
        self.trimmed: EntryID | None = None

    @property
    def stream(self) -> Stream:
        return self.store.stream("x")

    def of(self, *states: str) -> list[EntryID]:
        return [entry_id for entry_id, state in self.entries.items() if state in states]

    def add(self, count: int) -> None:
        for _ in range(count):
            entry_id = nth_id(len(self.entries))
            self.stream.add({"pad": "." * 100}, entry_id)
            self.entries[entry_id] = "live"

    def delete(self, every: int) -> None:
        for entry_id in self.of("live")[every // 2 :: every]:
            self.stream.delete(entry_id)
            self.entries[entry_id] = "deleted"

    def trim(self, percent: int) -> None:
        live = self.of("live")
        left = len(live) * percent // 100
        assert self.stream.trim(maxlen=left) == len(live) - left
        for entry_id in live[: len(live) - left]:
            self.entries[entry_id] = "trimmed"
            self.trimmed = entry_id

    def seal(self) -> None:
        self.stream.seal()

    def compact(self) -> None:
        self.compacted = True
        self.stream.seal()
        self.stream.compact()

    def reopen(self) -> None:
        self.store.close()
        self.store = small_store(self.path, segment_bytes=4096)

    def check(self) -> None:
        """Every count from every kind of ID, against a walk over all entries."""
        live = set(self.of("live"))
        after_trim = [each for each in self.of("live", "deleted") if self.trimmed is None or each > self.trimmed]
        for low in [EntryID(0, 1), *list(self.entries)[::9], *[each.next() for each in list(self.entries)[4::31]]]:
            assert low is not None
            least, most = sum(each >= low for each in live), sum(each >= low for each in after_trim)
            total = self.stream.count_from(low)
            assert least <= total <= most
            if not self.compacted and self.trimmed is None:
                assert total == most
            if not total:
                assert self.stream.id_further(low, 1) is None
                continue
            for count in {1, 2, total // 2 or 1, total, total + 5}:
                found = self.stream.id_further(low, count)
                assert found in self.entries
                assert found >= low
                assert self.stream.count_from(found) == total - min(count, total) + 1
        trimmed = self.stream.trimmed_to()
        if self.compacted:
            assert trimmed is None or (self.trimmed is not None and trimmed <= self.trimmed)
        else:
            assert trimmed == self.trimmed
        assert [row[0] for row in scanned(self.stream)] == self.of("live")
        pieces = self.stream.splits(max_entries=10)
        assert sum(piece.entries for piece in pieces) >= len(live)


STEPS = st.one_of(
    st.tuples(st.just("add"), st.integers(1, 60)),
    st.tuples(st.just("delete"), st.integers(1, 9)),
    st.tuples(st.just("trim"), st.sampled_from([0, 10, 50, 90, 99])),
    st.tuples(st.sampled_from(["seal", "compact", "reopen"])),
)


@settings(max_examples=60)
@given(steps=st.lists(STEPS, max_size=9))
def test_counts_are_those_of_a_walk_whatever_happened_to_the_stream(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[Any, ...]]
) -> None:
    model = Model(tmp_path_factory.mktemp("model") / "store")
    model.add(30)
    try:
        for name, *arguments in steps:
            getattr(model, name)(*arguments)
            model.check()
    finally:
        model.store.close()


def test_a_count_is_of_at_least_one_entry(store: Store) -> None:
    with pytest.raises(ArgumentError, match="the count of entries is at least one"):
        store.stream("x").id_further("-", 0)


@pytest.mark.parametrize("state", ["active", "rows", "sealed", "compacted"])
def test_the_last_trimmed_id_is_known_in_every_kind_of_segment(small: Store, state: str) -> None:
    """Trimmed once within the kind of segment, and again behind the end of the first one."""
    stream = many(small, 30)
    if state == "rows":
        many_more(stream, 30, 90)
    elif state == "sealed":
        stream.seal()
    elif state == "compacted":
        stream.delete("5-0")
        stream.seal()
        stream.compact()
    if state != "rows":
        many_more(stream, 30, 90)
    length = len(stream)
    expected = [entry.id for entry in stream]
    for gone in (3, 11, 50, length - 1, length):
        stream.trim(maxlen=length - gone)
        assert stream.trimmed_to() == expected[gone - 1]
        with small_store(small.path) as again:
            assert again.stream("x").trimmed_to() == expected[gone - 1]


def many_more(stream: Stream, first: int, count: int) -> None:
    for number in range(first, first + count):
        stream.add({"n": number, "pad": "." * 100}, (number + 1, 0))


def test_a_time_is_that_of_the_id_to_the_millisecond(store: Store) -> None:
    at = datetime(2026, 11, 21, 10, 11, 12, 345_000, tzinfo=UTC)
    store.stream("x").add({"n": 1}, (int(at.timestamp() * 1000), 5))
    (found,) = table(store.stream("x").scan(layout="ids"))["ts"].to_pylist()
    assert found == at
    assert found - at == timedelta(0)
