"""Streams that go before a query has read them, and such as a query has not reached: which of them are missed."""

from typing import Any

import pytest

from diskstream import DataLossError, Store
from tests.spark.test_stream_units import Query, at, fill

pytest.importorskip("pyarrow")


@pytest.fixture(autouse=True)
def _streams_are_listed_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    from diskstream.spark import stream_reader

    monkeypatch.setattr(stream_reader, "_LIST_EVERY_S", -1.0)


@pytest.mark.parametrize("now", ["deleted", "renamed"])
def test_the_only_stream_of_a_query_is_missed_when_it_goes(store: Store, now: str) -> None:
    """It made no batch any more, so nothing looked for it: AvailableNow ended well, another trigger waited for ever."""
    fill(store, range(1, 6))
    query = Query(store.path)
    assert query.numbers() == [1, 2, 3, 4, 5]
    fill(store, range(6, 9))
    query.reader.prepareForTriggerAvailableNow()
    if now == "deleted":
        store.delete("x")
    else:
        store.rename("x", "elsewhere")
    with pytest.raises(DataLossError, match="x: it is gone"):
        query.latest()
    assert Query(store.path, query.offset, failondataloss="false").batch() == []
    if now == "renamed":
        store.rename("elsewhere", "x")
        assert Query(store.path, query.offset).numbers() == [6, 7, 8]


@pytest.mark.parametrize("options", [{"maxentriespertrigger": 1}, {"includetail": "false"}])
def test_a_stream_of_which_nothing_was_read_yet_is_missed(store: Store, options: dict[str, Any]) -> None:
    """Its offset was that of a stream without entries, of which nothing can go."""
    fill(store, range(1, 3), "early")
    store.stream("early").seal()
    fill(store, range(2, 4), "late")
    query = Query(store.path, streams="early,late", **options)
    assert query.batch()[0] == ("early", 1)
    assert at(query.offset)["late"] == "0-0"
    store.delete("late")
    with pytest.raises(DataLossError, match="late: it is gone"):
        query.latest()


def test_what_was_trimmed_off_it_is_missed_too(store: Store) -> None:
    fill(store, range(1, 5))
    query = Query(store.path, includetail="false")
    store.stream("x").trim(maxlen=2)
    with pytest.raises(DataLossError, match="entries up to 2-0 were trimmed away"):
        query.latest()


def test_a_query_with_another_start_goes_on_though_a_stream_has_not_reached_the_old_one(store: Store) -> None:
    """The stream that was the same all the time was taken for another one, as it ended before the offset."""
    fill(store, range(1, 4), "slow")
    fill(store, range(1, 61), "fast")
    query = Query(store.path, streams="slow,fast", startingids="60-0")
    assert query.batch() == [("fast", 60)]
    fill(store, range(61, 62), "fast")
    again = Query(store.path, query.offset, streams="slow,fast", startingids="earliest")
    assert again.batch() == [("fast", 61)]
    fill(store, range(70, 71), "slow")
    assert again.batch() == [("slow", 70)]


def test_a_stream_that_has_not_reached_the_start_may_go(store: Store) -> None:
    fill(store, range(1, 4), "slow")
    fill(store, range(1, 61), "fast")
    query = Query(store.path, streams="slow,fast", startingids="60-0")
    store.delete("slow")
    assert query.batch() == [("fast", 60)]
