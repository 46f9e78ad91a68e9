"""Automatic IDs under a clock that stands still, steps back or leaps; trims by time."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import diskstream
from diskstream import EntryID, IDExhaustedError, Store
from tests.streams.layers import MAX, frames, ids


class Clock:
    """Milliseconds that pass when told to."""

    def __init__(self, now: int) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


def open_at(path: Path, clock: Clock, **options: Any) -> Store:
    return diskstream.open(path, clock=clock, fsync="os", **options)


@pytest.fixture
def clock() -> Clock:
    return Clock(1_000)


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Any:
    with open_at(tmp_path / "store", clock) as opened:
        yield opened


def test_the_clock_gives_the_milliseconds_and_one_that_stands_still_the_sequence(store: Store, clock: Clock) -> None:
    stream = store.stream("x")
    assert [str(stream.add({"a": 1})) for _ in range(3)] == ["1000-0", "1000-1", "1000-2"]
    clock.now = 1_001
    assert [str(stream.add({"a": 1})) for _ in range(2)] == ["1001-0", "1001-1"]
    assert [str(entry_id) for entry_id in stream.add_many([{"a": 1}] * 3)] == ["1001-2", "1001-3", "1001-4"]
    clock.now = 5_000
    assert [str(entry_id) for entry_id in stream.add_many([{"a": 1}] * 2)] == ["5000-0", "5000-1"]


def test_while_the_clock_is_behind_ids_go_on_from_the_last_one(store: Store, clock: Clock) -> None:
    stream = store.stream("x")
    stream.add({"a": 1})
    clock.now = 10
    assert [str(stream.add({"a": 1})) for _ in range(2)] == ["1000-1", "1000-2"]
    assert [str(entry_id) for entry_id in stream.add_many([{"a": 1}] * 2)] == ["1000-3", "1000-4"]
    clock.now = 999
    assert str(stream.add({"a": 1}, maxlen=3)) == "1000-5"
    clock.now = 1_000
    assert str(stream.add({"a": 1})) == "1000-6"
    clock.now = 1_001
    assert str(stream.add({"a": 1})) == "1001-0"


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 4)), min_size=1, max_size=40))
def test_under_any_clock_each_id_is_the_clocks_or_the_one_after_the_last(
    store: Store, clock: Clock, moments: list[tuple[int, int]]
) -> None:
    stream = store.stream(f"s{len(store.streams())}")
    last = (0, 0)
    added = []
    for now, count in moments:
        clock.now = now
        for entry_id in [stream.add({"a": 1})] if count == 1 else stream.add_many([{"a": 1}] * count):
            last = (now, 0) if now > last[0] else (last[0], last[1] + 1)
            assert entry_id == EntryID(*last)
            added.append(entry_id)
    assert [entry.id for entry in stream] == added


@pytest.mark.parametrize("back", [1, 2, 3], ids="{}. look".format)
@pytest.mark.parametrize("count", [1, 3])
def test_a_clock_that_steps_back_before_ids_are_reserved_holds_no_append_up(
    tmp_path: Path, back: int, count: int
) -> None:
    """The append wanted more than was reserved for it, by a later look at the clock, and tried again for ever."""
    looks = itertools.chain([1_000_000] * back, itertools.repeat(1_000, 100))
    with diskstream.open(tmp_path / "store", clock=lambda: next(looks), fsync="os") as store:
        stream = store.stream("x")
        added = [entry_id for _ in range(4) for entry_id in stream.add_many([{"a": 1}] * count)]
        assert added == [EntryID(1_000_000, seq) for seq in range(4 * count)]


def test_at_time_zero_the_first_id_is_not_zero(store: Store, clock: Clock) -> None:
    clock.now = 0
    assert [str(store.stream("x").add({"a": 1})) for _ in range(2)] == ["0-1", "0-2"]
    assert [str(entry_id) for entry_id in store.stream("y").add_many([{"a": 1}] * 2)] == ["0-1", "0-2"]


def test_an_explicit_id_in_the_future_is_gone_on_from(store: Store) -> None:
    stream = store.stream("x")
    stream.add({"a": 1}, f"5000-{MAX - 1}")
    assert [str(stream.add({"a": 1})) for _ in range(3)] == [f"5000-{MAX}", "5001-0", "5001-1"]


def test_behind_the_last_possible_millisecond_there_are_sequences_left(store: Store, clock: Clock) -> None:
    clock.now = MAX
    stream = store.stream("x")
    assert [str(stream.add({"a": 1})) for _ in range(2)] == [f"{MAX}-0", f"{MAX}-1"]
    stream.set_id((MAX, MAX - 1))
    assert str(stream.add({"a": 1})) == f"{MAX}-{MAX}"
    with pytest.raises(IDExhaustedError):
        stream.add({"a": 1})


def test_a_whole_id_and_a_whole_millisecond_ask_no_clock(store: Store, clock: Clock) -> None:
    clock.now = 5_000
    stream = store.stream("x")
    assert str(stream.add({"a": 1}, "7-3")) == "7-3"
    assert str(stream.add({"a": 1}, "8-*")) == "8-0"
    assert str(stream.add({"a": 1})) == "5000-0"


@pytest.mark.parametrize("now", [-1, MAX + 1, 1.5, None, "5"])
def test_a_clock_that_tells_no_time_adds_nothing(store: Store, clock: Clock, now: Any) -> None:
    stream = store.stream("x")
    stream.add({"a": 1})
    before = frames(store)
    clock.now = now
    for call in (
        lambda: stream.add({"a": 2}),
        lambda: stream.add({"a": 2}, maxlen=5),
        lambda: stream.add_many([{"a": 2}]),
    ):
        with pytest.raises((TypeError, ValueError)):
            call()
    assert frames(store) == before
    clock.now = 2_000
    assert str(stream.add({"a": 2})) == "2000-0"


def test_an_error_of_the_clock_comes_through_and_adds_nothing(tmp_path: Path) -> None:
    def broken() -> int:
        raise RuntimeError("no battery")

    with diskstream.open(tmp_path / "store", clock=broken) as store:
        with pytest.raises(RuntimeError, match="no battery"):
            store.stream("x").add({"a": 1})
        assert len(store.stream("x")) == 0


def test_each_stream_goes_on_by_its_own_last_id(store: Store, clock: Clock) -> None:
    store.stream("x").add({"a": 1}, "9000-0")
    assert str(store.stream("y").add({"a": 1})) == "1000-0"
    assert str(store.stream("x").add({"a": 1})) == "9000-1"


def test_ids_rise_over_a_reopening_under_a_clock_that_was_set_back(tmp_path: Path, clock: Clock) -> None:
    added = []
    for now in (5_000, 4_000, 10, 6_000, 0):
        clock.now = now
        with open_at(tmp_path / "again", clock) as store:
            added += [store.stream("x").add({"a": 1}) for _ in range(3)]
            assert [entry.id for entry in store.stream("x")] == added
    assert added == sorted(set(added), key=lambda entry_id: (entry_id.ms, entry_id.seq))
    assert [str(entry_id) for entry_id in added[:6]] == [f"5000-{seq}" for seq in range(6)]


def test_what_is_older_than_an_age_is_trimmed_by_id(store: Store, clock: Clock) -> None:
    """Retention by age, as with Redis: MINID of the clock's time less the age."""
    stream = store.stream("x")
    for clock.now in range(1_000, 11_000, 100):
        stream.add({"at": clock.now}, minid=max(0, clock.now - 2_000))
        assert all(entry.id.ms >= clock.now - 2_000 for entry in stream)
    assert len(stream) == 21
    clock.now = 11_950
    assert stream.trim(minid=clock.now - 2_000) == 11
    assert ids(stream)[0] == "10000-0"
    clock.now = 500
    assert stream.trim(minid=max(0, clock.now - 2_000)) == 0
    assert str(stream.add({"at": clock.now}, minid=0)) == "10900-1"
    clock.now = 50_000
    assert stream.add({"at": clock.now}, minid=clock.now - 2_000) == EntryID(50_000, 0)
    assert ids(stream) == ["50000-0"]


def test_trims_by_length_do_not_ask_the_clock(store: Store, clock: Clock) -> None:
    stream = store.stream("x")
    stream.add_many([{"a": number} for number in range(10)])
    clock.now = 1
    assert stream.trim(maxlen=4) == 6
    assert ids(stream) == [f"1000-{seq}" for seq in range(6, 10)]


def test_ids_go_on_from_the_last_one_after_a_rename_and_after_reopening(tmp_path: Path, clock: Clock) -> None:
    """Nothing was lost, so none of the IDs reserved ahead is skipped."""
    expected = iter(f"1000-{seq}" for seq in range(100))
    with open_at(tmp_path / "moved", clock) as store:
        for old, new in (("a", "b"), ("b", "c"), ("c", "a")):
            assert [str(store.stream(old).add({"n": 1})) for _ in range(2)] == [next(expected), next(expected)]
            store.rename(old, new)
    for _ in range(3):
        with open_at(tmp_path / "moved", clock) as store:
            assert str(store.stream("a").add({"n": 1})) == next(expected)
