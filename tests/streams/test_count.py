"""`count`, `added_until` and `identity`: what indexes and counters tell, against a walk over everything."""

import threading
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import diskstream
from diskstream import EntryID, Store
from diskstream.engine import tally
from diskstream.engine.log import StreamLog
from tests.streams.background import Background
from tests.streams.layers import Layered, kinds, layered, log_of, nth_id, small_store


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Layered]:
    """A stream in every kind of segment, with deleted and trimmed entries."""
    with small_store(tmp_path_factory.mktemp("count") / "store") as store:
        made = layered(store)
        assert len(set(kinds(store))) == 4
        yield made


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(start=st.integers(0, 480), end=st.integers(0, 480), open_low=st.booleans(), open_high=st.booleans())
def test_any_range_is_counted_as_a_walk_counts_it(
    made: Layered, start: int, end: int, open_low: bool, open_high: bool
) -> None:
    low, high = f"{'(' * open_low}{nth_id(start)}", f"{'(' * open_high}{nth_id(end)}"
    assert made.stream.count(low, high) == len(list(made.stream.range(low, high)))
    assert made.stream.count(low) == len(list(made.stream.range(low)))
    assert made.stream.count(end=high) == len(list(made.stream.range(end=high)))
    assert made.stream.count(start, end) == len(list(made.stream.range(start, end)))  # milliseconds alone


def test_all_of_it_is_its_length_also_for_a_reader_that_may_not_write(made: Layered) -> None:
    assert made.stream.count() == len(made.stream) == len(made.live)
    made.store.sync()
    with diskstream.open(made.store.path, read_only=True) as looking:
        stream = looking.stream(made.stream.name)
        assert stream.count() == len(made.live)
        assert stream.count(made.live[3][0], made.live[40][0]) == 38
        assert stream.identity() == made.stream.identity()


def test_a_stream_that_is_not_there_has_nothing(store: Store) -> None:
    assert store.stream("none").count() == 0
    assert store.stream("none").added_until("5") == 0
    assert store.stream("none").identity() is None


def test_bad_ends_are_refused(made: Layered) -> None:
    with pytest.raises(diskstream.InvalidIDError):
        made.stream.count("one")
    with pytest.raises(diskstream.ArgumentError):
        made.stream.count("-", "(0-0")


def test_what_is_counted_is_one_moment_though_others_trim_and_add(store: Store) -> None:
    """Ten entries are there at every moment, never more than eleven, whatever a thread does meanwhile."""
    stream = store.stream("x")
    for number in range(1, 11):
        stream.add({"n": number}, id=f"{number}-0")
    enough = threading.Event()

    def churn() -> None:
        number = 10
        while not enough.is_set():
            number += 1
            stream.add({"n": 1}, id=f"{number}-0", maxlen=10)

    churning = Background(churn)
    try:
        for _ in range(1000):
            assert 10 <= stream.count() <= 11
    finally:
        enough.set()
    churning.result()


def test_segments_that_are_merged_within_a_count_are_counted_once_more(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A place in a segment that was merged meanwhile is a place in another one."""
    with small_store(store.path.with_name("merged")) as merged:
        stream = merged.stream("x")
        stream.add_many([{"n": n, "pad": "." * 100} for n in range(300)], ids=[(n, 0) for n in range(1, 301)])
        for _ in range(3):
            log_of(merged).roll()
            first = len(stream) + 1
            stream.add_many([{"n": n} for n in range(40)], ids=[(first + n, 0) for n in range(40)])
        stream.seal()
        stream.delete(*((n, 0) for n in range(1, 300, 2)))
        place, merges = tally._behind, iter([stream.compact])

        def merged_meanwhile(log: StreamLog, greatest: EntryID) -> tuple[int, int]:
            found = place(log, greatest)
            for merge in merges:
                merge()
            return found

        wanted = len(list(stream.range("310", "360")))
        monkeypatch.setattr(tally, "_behind", merged_meanwhile)
        assert stream.count("310", "360") == wanted
        assert next(merges, None) is None


def test_who_was_passed_by_is_told_how_many_are_gone(store: Store) -> None:
    stream = store.stream("x")
    for number in range(1, 21):
        stream.add({"n": number}, id=f"{number}-0")
    seen = stream.added_until("4-0")
    assert stream.added_until("9-0") - seen == 5
    stream.trim(minid="8-0")
    assert stream.added_until("4-0") - seen == 3  # 5, 6 and 7 went before they were read
    stream.delete("20-0")
    assert stream.added_until("9-0") - seen == 5 + 1  # two read, of 5 to 9; and 20 is gone before it was


def test_identity_goes_with_the_stream_and_not_with_its_name(store: Store) -> None:
    store.stream("a").add({"n": 1})
    first = store.stream("a").identity()
    assert first is not None
    assert len(first) == 16
    store.rename("a", "b")
    assert store.stream("b").identity() == first
    store.stream("a").add({"n": 1})
    assert store.stream("a").identity() not in (None, first)
