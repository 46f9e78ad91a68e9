"""`range`, `revrange` and `get`, over entries in every kind of segment, against a plain list."""

import gc
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import diskstream
from diskstream import ArgumentError, EntryID, InvalidIDError, Store
from diskstream.ids import IDLike
from tests.streams.layers import MAX, MAX_ID, Layered, Row, ids, layered, nth_id, rows, small_store

INTERVAL_ID = "Invalid stream ID specified as stream command argument"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Layered]:
    with small_store(tmp_path_factory.mktemp("range") / "store") as store:
        yield layered(store)


def least(bound: str) -> tuple[int, int]:
    """What the lower end of a range means, spelled out anew."""
    if bound in "-+":
        return (0, 0) if bound == "-" else (MAX, MAX)
    ms, _, seq = bound.removeprefix("(").partition("-")
    meant = int(ms), int(seq or 0)
    if not bound.startswith("("):
        return meant
    return (meant[0], meant[1] + 1) if meant[1] < MAX else (meant[0] + 1, 0)


def greatest(bound: str) -> tuple[int, int]:
    if bound in "-+":
        return least(bound)
    ms, _, seq = bound.removeprefix("(").partition("-")
    meant = int(ms), int(seq or MAX)
    if not bound.startswith("("):
        return meant
    return (meant[0], meant[1] - 1) if meant[1] > 0 else (meant[0] - 1, MAX)


def between(live: list[Row], start: str, end: str) -> list[Row]:
    return [row for row in live if least(start) <= (row[0].ms, row[0].seq) <= greatest(end)]


LAST_MS = nth_id(470).ms + 2
bounds = st.one_of(
    st.sampled_from(["-", "+"]),
    st.builds(
        lambda exclusive, ms, seq: f"{'(' if exclusive else ''}{ms}{'' if seq is None else f'-{seq}'}",
        st.booleans(),
        st.integers(1, LAST_MS),
        st.none() | st.integers(0, 11) | st.just(MAX),
    ),
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(start=bounds, end=bounds, count=st.none() | st.integers(0, 20) | st.integers(21, 400))
def test_a_range_is_what_lies_between_its_ends_both_ways(
    made: Layered, start: str, end: str, count: int | None
) -> None:
    expected = between(made.live, start, end)
    assert rows(made.stream.range(start, end, count)) == expected[:count]
    assert rows(made.stream.revrange(end, start, count)) == expected[::-1][:count]


def test_every_entry_is_found_by_its_id_and_nothing_else_is(made: Layered) -> None:
    live = dict(made.live)
    for number in range(made.added):
        entry_id = nth_id(number)
        found = made.stream.get(entry_id)
        assert (None if found is None else found.pairs) == live.get(entry_id)
        assert made.stream.get((entry_id.ms, entry_id.seq + 1)) is None
        assert rows(made.stream.range(entry_id, entry_id)) == [row for row in made.live if row[0] == entry_id]


def test_each_entry_may_begin_or_end_a_range(made: Layered) -> None:
    for index in range(0, len(made.live), 3):
        entry_id = made.live[index][0]
        assert rows(made.stream.range(entry_id, "+", 4)) == made.live[index : index + 4]
        assert rows(made.stream.range(f"({entry_id}", "+", 4)) == made.live[index + 1 : index + 5]
        assert rows(made.stream.revrange(entry_id, "-", 4)) == made.live[max(0, index - 3) : index + 1][::-1]
        assert rows(made.stream.revrange(f"({entry_id}", "-", 4)) == made.live[max(0, index - 4) : index][::-1]


def test_an_id_may_be_text_bytes_a_number_a_pair_or_an_entry_id(made: Layered) -> None:
    first, last = made.live[10][0], made.live[200][0]
    expected = made.live[10:201]
    ends: list[tuple[IDLike, IDLike]] = [
        (str(first), str(last)),
        (bytes(first), bytes(last)),
        ((first.ms, first.seq), (last.ms, last.seq)),
        (first, last),
        ("(" + str(made.live[9][0]), b"(" + bytes(made.live[201][0])),
    ]
    for start, end in ends:
        assert rows(made.stream.range(start, end)) == expected
    assert rows(made.stream.range(first.ms, last.ms)) == between(made.live, str(first.ms), str(last.ms))


def test_counts_of_nothing_and_less_give_nothing(made: Layered) -> None:
    assert list(made.stream.range(count=0)) == []
    assert list(made.stream.range(count=-1)) == []
    assert list(made.stream.revrange(count=0)) == []


def test_ends_the_wrong_way_round_give_nothing(made: Layered) -> None:
    assert list(made.stream.range("+", "-")) == []
    assert list(made.stream.revrange("-", "+")) == []
    assert list(made.stream.range(made.live[5][0], made.live[4][0])) == []


@pytest.mark.parametrize(
    "bad", ["", "x", "5-", "-5", "5-x", "5-1-1", "(", "(-", "(+", "((5", "5.0", "--", str(MAX + 1)]
)
def test_what_is_no_id_is_refused_before_anything_is_read(store: Store, bad: str) -> None:
    missing = store.stream("missing")
    for call in (missing.range, missing.revrange):
        for start, end in ((bad, "+"), ("-", bad)):
            with pytest.raises(InvalidIDError) as caught:
                call(start, end)
            assert str(caught.value).startswith(INTERVAL_ID)


def test_nothing_lies_beyond_the_last_id_or_before_the_first(store: Store) -> None:
    stream = store.stream("x")
    for call, arguments in ((stream.range, (f"({MAX_ID}",)), (stream.revrange, ("+", f"({MAX_ID}"))):
        with pytest.raises(ArgumentError, match=r"^invalid start ID for the interval$"):
            call(*arguments)
    for call, arguments in ((stream.range, ("-", "(0-0")), (stream.revrange, ("(0-0",))):
        with pytest.raises(ArgumentError, match=r"^invalid end ID for the interval$"):
            call(*arguments)


def test_missing_and_empty_streams_have_empty_ranges(store: Store) -> None:
    stream = store.stream("x")
    assert list(stream.range()) == list(stream.revrange()) == []
    assert not store.exists("x")
    stream.add({"a": 1}, "5-1")
    stream.delete("5-1")
    assert list(stream.range()) == list(stream.revrange()) == []
    assert stream.get("5-1") is None


def test_a_range_ends_with_the_last_entry_there_was_when_it_began(small: Store) -> None:
    made = layered(small)
    entries = made.stream.range()
    first = next(entries)
    made.stream.add({"late": 1}, "99999-1")
    assert [first.id, *(entry.id for entry in entries)] == [row[0] for row in made.live]


def test_a_range_goes_on_while_others_append_roll_seal_compact_and_delete(small: Store) -> None:
    made = layered(small)
    forward, backward = made.stream.range(), made.stream.revrange()
    seen = rows(itertools.islice(forward, 60)), rows(itertools.islice(backward, 60))
    made.stream.add({"late": 1}, "99999-1")
    made.stream.seal()
    made.stream.compact()
    assert seen[0] + rows(forward) == made.live
    assert seen[1] + rows(backward) == made.live[::-1]


def test_a_range_that_the_trim_overtakes_goes_on_with_what_is_left(small: Store) -> None:
    made = layered(small)
    forward = made.stream.range()
    seen = rows(itertools.islice(forward, 5))
    made.stream.trim(maxlen=10)
    made.stream.seal()
    seen += rows(forward)
    assert [row for row in made.live if row in seen] == seen
    assert seen[-10:] == made.live[-10:]


def test_a_range_makes_a_few_entries_at_a_time(tmp_path: Path) -> None:
    """Python looks for garbage each time 700 objects more were made than let go: among a million entries, a lot."""
    began: list[str] = []

    def note(phase: str, info: dict[str, int]) -> None:
        began.append(phase)

    with diskstream.open(tmp_path / "store", fsync="os") as store:
        stream = store.stream("readings")
        stream.add_many([{"field": str(number)} for number in range(20_000)])
        threshold = gc.get_threshold()
        gc.collect()
        gc.callbacks.append(note)
        try:
            gc.set_threshold(700, 10, 10)
            assert sum(1 for _ in stream.range()) == sum(1 for _ in stream.revrange()) == 20_000
        finally:
            gc.callbacks.remove(note)
            gc.set_threshold(*threshold)
    assert len(began) <= 4  # one or two for what else there is; 20 and more where a block's entries are made at once


@pytest.mark.parametrize("count", [1, 127, 128, 129, 300, 1023, 1024, 1025, 1500, None])
def test_a_count_may_end_anywhere_in_a_block_with_gaps(tmp_path: Path, count: int | None) -> None:
    with diskstream.open(tmp_path / "store", fsync="os") as store:
        stream = store.stream("readings")
        added = stream.add_many([{"field": str(number)} for number in range(1600)])
        stream.delete(*added[100:300], *added[1000:1010])
        left = [entry_id for at, entry_id in enumerate(added) if not (100 <= at < 300 or 1000 <= at < 1010)]
        assert [entry.id for entry in stream.range(count=count)] == left[:count]
        assert [entry.id for entry in stream.revrange(count=count)] == left[::-1][:count]


def test_a_stream_is_iterated_as_its_range(small: Store) -> None:
    made = layered(small)
    assert rows(made.stream) == made.live


def test_the_greatest_id_comes_once_though_its_segment_is_sealed_behind_it(store: Store) -> None:
    """Nothing is greater, so a reader that looks again from there on would be given it once more."""
    stream = store.stream("x")
    stream.add_many([{"n": 1}, {"n": 2}], ids=["1-0", f"{MAX}-{MAX}"])
    entries = stream.range()
    assert ids([next(entries), next(entries)]) == ["1-0", f"{MAX}-{MAX}"]
    stream.seal()
    assert ids(entries) == []


def test_ids_reach_over_all_of_128_bits(tmp_path: Path) -> None:
    wanted = ["0-1", f"0-{MAX}", "1-0", f"{2**63}-{2**63}", f"{MAX}-0", f"{MAX}-{MAX}"]
    with diskstream.open(tmp_path / "store", seal="manual") as store:
        stream = store.stream("x")
        for entry_id in wanted:
            stream.add({"a": entry_id}, entry_id)
        for step in range(2):
            assert ids(stream.range()) == wanted
            assert ids(stream.revrange()) == wanted[::-1]
            for index, entry_id in enumerate(wanted):
                assert ids(stream.range(entry_id, "+")) == wanted[index:]
                assert ids(stream.range("-", entry_id)) == wanted[: index + 1]
                assert ids(stream.revrange(entry_id, "-", 1)) == [entry_id]
                found = stream.get(EntryID(entry_id))
                assert found is not None
                assert found["a"] == entry_id.encode()
            assert ids(stream.range("0", "0")) == wanted[:2]
            assert ids(stream.range(MAX, MAX)) == wanted[4:]
            assert stream.seal() == (1 if step == 0 else 0)


def test_what_is_in_a_stream(store: Store) -> None:
    stream = store.stream("s")
    assert "5-3" not in stream
    first, second = stream.add({"a": 1}, id="5-3"), stream.add({"a": 2}, id="6-0")
    assert all(given in stream for given in (first, "5-3", b"5-3", (5, 3), 6))
    assert "5-2" not in stream
    entry, other = stream.range()
    store.stream("t").add({"a": 9}, id="5-3")
    assert entry in stream
    assert other in stream
    assert entry not in store.stream("t")  # it has another one of that ID
    stream.delete(second)
    assert second not in stream
    assert other not in stream
    with pytest.raises(InvalidIDError):
        assert "x" in stream
