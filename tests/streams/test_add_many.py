"""`add_many`: many entries as one frame, all or none."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from diskstream import ArgumentError, EntryID, IDOrderError, LimitError, Store, Stream
from tests.streams.layers import MAX, Pairs, frames, ids, rows

MIB = 1 << 20


@pytest.fixture
def stream(store: Store) -> Stream:
    return store.stream("x")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.lists(st.lists(st.tuples(st.binary(max_size=3), st.binary(max_size=9)), min_size=1), min_size=1, max_size=9))
def test_rows_come_back_in_order_under_ids_that_follow_each_other(store: Store, added: list[Pairs]) -> None:
    stream = store.stream("x")
    before = len(stream)
    made = stream.add_many(added)
    first = made[0]
    assert made == [EntryID(first.ms, first.seq + step) for step in range(len(added))]
    assert rows(stream.range(first, "+")) == list(zip(made, added, strict=True))
    assert len(stream) == before + len(added)


def test_they_are_one_frame_however_many(store: Store, stream: Stream) -> None:
    stream.add({"a": 0}, "1-1")
    for count in (1, 2, 500):
        before = frames(store)
        stream.add_many([{"n": number} for number in range(count)])
        assert frames(store) == before + 1
    before = frames(store)
    stream.add_many([{"n": 1}, {"m": 2}], ids=[f"{MAX}-1", f"{MAX}-{MAX}"])
    assert frames(store) == before + 1
    stream.add_many([])
    assert frames(store) == before + 1


def test_a_call_for_each_entry_is_a_frame_for_each(store: Store, stream: Stream) -> None:
    """What the test above would not notice if frames were counted otherwise."""
    stream.add({"a": 0})
    before = frames(store)
    for number in range(7):
        stream.add({"n": number})
    assert frames(store) == before + 7


def test_ids_may_be_given_with_any_gaps(stream: Stream) -> None:
    wanted = ["0-1", "0-2", "5-0", "5-9", f"5-{MAX}", "6-0", f"{2**63}-{2**63}", f"{MAX}-{MAX}"]
    made = stream.add_many([{"n": number} for number in range(8)], ids=[wanted[0], b"0-2", 5, (5, 9), *wanted[4:]])
    assert [str(entry_id) for entry_id in made] == ids(stream) == wanted


@pytest.mark.parametrize("given", [["5-3", "5-4"], ["6-1", "6-1"], ["6-2", "6-1"], ["7-0", "6-0"]])
def test_ids_must_rise_from_the_last_one_of_the_stream_on(store: Store, stream: Stream, given: list[str]) -> None:
    stream.add({"a": 1}, "5-3")
    before = frames(store)
    with pytest.raises(
        IDOrderError, match=r"^The ID specified in XADD is equal or smaller than the target stream top item$"
    ):
        stream.add_many([{"n": 1}, {"n": 2}], ids=given)
    assert ids(stream) == ["5-3"]
    assert frames(store) == before


@pytest.mark.parametrize(("count", "text"), [(1, "fewer ids than rows"), (3, "more ids than rows")])
def test_there_is_one_id_for_each_row(stream: Stream, count: int, text: str) -> None:
    with pytest.raises(ArgumentError, match=text):
        stream.add_many([{"n": 1}, {"n": 2}], ids=[(number, 0) for number in range(1, count + 1)])
    assert len(stream) == 0


def test_no_rows_are_no_entries_and_no_stream(store: Store, stream: Stream) -> None:
    assert stream.add_many([]) == []
    assert stream.add_many(iter(())) == []
    with pytest.raises(ArgumentError, match="more ids than rows"):
        stream.add_many([], ids=["1-1"])
    assert not store.exists("x")


def test_rows_and_ids_may_be_iterators(small: Store) -> None:
    stream = small.stream("x")
    for part in range(1, 30):
        made = stream.add_many(({"n": number} for number in range(40)), ids=((part, number) for number in range(40)))
        assert made == [EntryID(part, number) for number in range(40)]
    assert [int(entry["n"]) for entry in stream] == list(range(40)) * 29


@pytest.mark.parametrize("bad", [{}, {"a": None}, [("a",)], 5], ids=repr)
def test_one_bad_row_refuses_them_all(store: Store, stream: Stream, bad: Any) -> None:
    stream.add({"a": 1}, "5-3")
    before = frames(store)
    for position in range(3):
        given: list[Any] = [{"n": 1}, {"n": 2}]
        given.insert(position, bad)
        with pytest.raises(ArgumentError):
            stream.add_many(given)
    assert ids(stream) == ["5-3"]
    assert frames(store) == before
    assert stream.add_many([{"n": 1}, {"n": 2}], ids=["5-4", "5-5"]) == [EntryID(5, 4), EntryID(5, 5)]


def test_trims_come_behind_the_whole_batch(stream: Stream) -> None:
    given = [{"n": number} for number in range(10)]
    made = stream.add_many(given, ids=[(number + 1, 0) for number in range(10)], maxlen=3)
    assert len(made) == 10
    assert ids(stream) == ["8-0", "9-0", "10-0"]
    stream.add_many(given, ids=[(number + 11, 0) for number in range(10)], minid="19")
    assert ids(stream) == ["19-0", "20-0"]
    stream.add_many([{"n": 1}] * 300, ids=[(number, 0) for number in range(21, 321)], maxlen=10, approximate=True)
    assert 10 <= len(stream) < 110


def test_a_sequence_that_would_run_over_moves_the_whole_batch_on(stream: Stream) -> None:
    future = 2**63
    stream.add({"a": 1}, (future, MAX - 1))
    assert stream.add_many([{"n": 1}] * 3) == [EntryID(future + 1, step) for step in range(3)]
    stream.add({"a": 1}, (future + 5, MAX - 3))
    assert stream.add_many([{"n": 1}] * 3) == [EntryID(future + 5, MAX - 2 + step) for step in range(3)]


def test_a_batch_is_at_most_64_mib(store: Store, stream: Stream) -> None:
    value = b"0123456789abcdef" * (MIB // 16)
    made = stream.add_many([{"a": value}] * 63)
    assert len(made) == 63
    before = frames(store)
    with pytest.raises(LimitError, match=r"^Elements are too large to be stored: batch of ") as caught:
        stream.add_many([{"a": value}] * 64)
    assert caught.value.what == "batch"
    assert caught.value.limit < 64 * MIB
    assert (len(stream), frames(store)) == (63, before)
    assert all(entry["a"] == value for entry in stream)


def test_batches_roll_over_into_new_segments(small: Store) -> None:
    stream = small.stream("x")
    batches = [[(b"n", b"%d" % number), (b"pad", b"." * 50)] for number in range(900)]
    made = []
    for start in range(0, 900, 45):
        made += stream.add_many(batches[start : start + 45])
    assert rows(stream) == list(zip(made, batches, strict=True))
    assert stream.info().segments > 5
    assert stream.seal() > 5
    assert rows(stream.revrange()) == list(zip(made, batches, strict=True))[::-1]
