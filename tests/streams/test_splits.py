"""`splits`, `count_from`, `id_further`, `trimmed_to`: what indexes tell of a stream, against a walk over all of it."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import diskstream
from diskstream import ArgumentError, CorruptionError, EntryID, Store, Stream
from diskstream.engine.splits import Piece
from diskstream.ids import MAX_ID, MIN_ID
from tests.streams.background import Background
from tests.streams.layers import Layered, Row, kinds, layered, nth_id, rows, small_store

# Nodes have seven entries, and up to six more where the rest would be a node of its own.
LARGEST_NODE = 13


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Layered]:
    """A stream in every kind of segment, with deleted and trimmed entries."""
    with small_store(tmp_path_factory.mktemp("splits") / "store") as store:
        made = layered(store)
        assert len(set(kinds(store))) == 4
        yield made


def segments_of(stream: Stream) -> dict[EntryID, int]:
    """The segment of each live entry."""
    return {
        EntryID(ms, seq): segment
        for batch in stream.scan(layout="ids", metadata=True)
        for ms, seq, segment in zip(*(batch[name].to_pylist() for name in ("id_ms", "id_seq", "segment")), strict=True)
    }


# --- splits -----------------------------------------------------------------------------------------------------------


def check_pieces(pieces: list[Piece], low: EntryID, high: EntryID) -> None:
    """Each within the range, in order, none over another."""
    for piece in pieces:
        assert low <= piece.first <= piece.last <= high
        assert piece.entries > 0
    for before, after in pairwise(pieces):
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
        segments = segments_of(made.stream)
        active = max(segments.values())
        assert active not in {piece.segment for piece in pieces}
        wanted = [row for row in wanted if segments[row[0]] != active]
    assert read == wanted


def test_a_piece_lies_in_the_segment_that_it_names(made: Layered) -> None:
    segments = segments_of(made.stream)
    for piece in made.stream.splits(max_entries=5):
        found = [segments[entry.id] for entry in made.stream.range(piece.first, piece.last)]
        assert set(found) <= {piece.segment}


def test_pieces_know_what_is_sealed_and_how_large_it_is_about(made: Layered) -> None:
    pieces = made.stream.splits()
    live = {piece.segment for piece in pieces}
    packed = sum(kind in ("sealed", "compacted") for kind in kinds(made.store))
    assert sum(piece.sealed for piece in pieces) <= packed
    assert len(pieces) == len(live)  # large limits: a segment is one piece
    for piece in pieces:
        assert 60 < piece.size_bytes / piece.entries < 250


@pytest.mark.parametrize("limits", [{"max_entries": 0}, {"max_bytes": 0}])
def test_a_piece_cannot_be_empty(store: Store, limits: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=r"max_entries and max_bytes must be at least 1, not -?\d+ and -?\d+"):
        store.stream("x").splits(**limits)


def test_a_range_that_ends_before_it_begins_has_no_pieces(made: Layered) -> None:
    for low, high in [(40, 20), (12, 10), (197, 196)]:
        assert made.stream.splits(low, high) == []


def test_a_store_that_is_only_read_has_the_same(made: Layered) -> None:
    made.store.sync()
    with diskstream.open(made.store.path, read_only=True) as store:
        stream = store.stream("x")
        assert stream.splits(max_entries=9) == made.stream.splits(max_entries=9)
        assert stream.count_from("-") == made.stream.count_from("-")
        assert stream.trimmed_to() == made.stream.trimmed_to()
        assert stream.id_further("-", 100) == made.stream.id_further("-", 100)


def test_a_segment_whose_file_is_missing_is_told(small: Store) -> None:
    """Whoever looked for it looked again for ever."""
    many(small.stream("x"), 0, 300)
    small.seal()
    small.stream("x").trim(maxlen=290)
    small.close()
    for file in (small.path / "streams" / "x").glob("*.seg"):
        file.unlink()
    with small_store(small.path) as store:
        stream = store.stream("x")
        calls: list[Callable[[], object]] = [
            stream.splits,
            stream.trimmed_to,
            lambda: stream.count_from("100-1"),
            lambda: stream.id_further("-", 100),
        ]
        for call in calls:
            with pytest.raises(CorruptionError, match="found no file"):
                Background(call).result()
        pieces = stream.splits(max_entries=10, damaged=True)
        assert len({piece.segment for piece in pieces}) == len(pieces)
        assert sum(piece.entries for piece in pieces) == 300
        for piece in pieces:
            with pytest.raises(CorruptionError, match="found no file"):
                list(stream.scan(piece.first, piece.last))


# --- counting, by brute force -----------------------------------------------------------------------------------------


class Model:
    """What became of each entry."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = small_store(path)
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
        self.store = small_store(self.path)

    def check(self) -> None:
        """Every count from every kind of ID, against a walk over all entries."""
        live = set(self.of("live"))
        after_trim = [each for each in self.of("live", "deleted") if self.trimmed is None or each > self.trimmed]
        for low in [EntryID(0, 1), *list(self.entries)[::17], *[each.next() for each in list(self.entries)[4::37]]]:
            assert low is not None
            least, most = sum(each >= low for each in live), sum(each >= low for each in after_trim)
            total = self.stream.count_from(low)
            assert least <= total <= most
            if not total:
                assert self.stream.id_further(low, 1) is None
                continue
            for count in {1, 2, total // 2 or 1, total, total + 5}:
                found = self.stream.id_further(low, count)
                assert found in self.entries
                assert found >= low
                assert self.stream.count_from(found) == total - min(count, total) + 1
        trimmed = self.stream.trimmed_to()
        if not self.compacted and not self.of("deleted"):
            assert trimmed == self.trimmed
        if trimmed is not None:
            assert self.trimmed is not None
            assert all(trimmed < each for each in live)
        assert list(segments_of(self.stream)) == self.of("live")
        pieces = self.stream.splits(max_entries=10)
        assert sum(piece.entries for piece in pieces) >= len(live)


STEPS = st.one_of(
    st.tuples(st.just("add"), st.integers(1, 60)),
    st.tuples(st.just("delete"), st.integers(1, 9)),
    st.tuples(st.just("trim"), st.sampled_from([0, 10, 50, 90, 99])),
    st.tuples(st.sampled_from(["seal", "compact", "reopen"])),
)


@settings(max_examples=30)
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


def test_entries_count_that_were_deleted_where_others_of_their_segment_are_there(small: Store) -> None:
    made = Layered(small, small.stream("x"))
    made.add(200)
    made.stream.seal()
    made.add(120)
    made.delete(range(0, 320, 3))
    for number in range(320):
        assert made.stream.count_from(nth_id(number)) == 320 - number
        for count in (1, 2, 50, 320):
            assert made.stream.id_further(nth_id(number), count) == nth_id(min(number + count - 1, 319))


def test_a_count_is_of_at_least_one_entry(store: Store) -> None:
    with pytest.raises(ArgumentError, match=r"count must be at least 1, not -?\d+"):
        store.stream("x").id_further("-", 0)


def many(stream: Stream, first: int, count: int) -> None:
    for number in range(first, first + count):
        stream.add({"n": number, "pad": "." * 100}, (number + 1, 0))


@pytest.mark.parametrize("state", ["active", "rows", "sealed", "compacted"])
def test_the_last_trimmed_id_is_known_in_every_kind_of_segment(small: Store, state: str) -> None:
    """Trimmed once within the kind of segment, and again behind the end of the first one."""
    stream = small.stream("x")
    many(stream, 0, 30)
    if state == "rows":
        many(stream, 30, 90)
    elif state == "sealed":
        stream.seal()
    elif state == "compacted":
        stream.delete("5-0")
        stream.seal()
        stream.compact()
    if state != "rows":
        many(stream, 30, 90)
    length = len(stream)
    expected = [entry.id for entry in stream]
    for gone in (3, 11, 50, length - 1, length):
        stream.trim(maxlen=length - gone)
        assert stream.trimmed_to() == expected[gone - 1]
        for behind in [*expected, MIN_ID, MAX_ID]:
            found = stream.trimmed_to(behind)
            assert found == expected[gone - 1] if behind < expected[gone - 1] else (found or MIN_ID) <= behind
        with small_store(small.path) as again:
            assert again.stream("x").trimmed_to() == expected[gone - 1]
