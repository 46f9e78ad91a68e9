"""`maxBytesPerTrigger` where entries are not all of one size: what comes later counts too."""

from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import diskstream
from diskstream import Store
from diskstream.spark.admission import _most_within
from tests.spark.test_stream_units import Query


def test_large_entries_behind_many_small_ones_are_not_all_in_one_batch(store: Store) -> None:
    """The mean of the first entries says nothing of those behind them."""
    stream = store.stream("x")
    stream.add_many([{"n": number} for number in range(5000)])
    store.seal()
    for first in range(5000, 5400, 20):
        stream.add_many([{"n": number, "pad": "." * 10_000} for number in range(first, first + 20)])
    query = Query(store.path, maxbytespertrigger="200k")
    batches = []
    while numbers := query.numbers():
        batches.append(numbers)
    assert [number for each in batches for number in each] == list(range(5400))
    sizes = [sum(10_000 if number >= 5000 else 5 for number in each) for each in batches]
    assert max(sizes) <= 300_000
    assert len(batches) <= 60  # and none is of a few entries for no reason


def test_where_the_backlog_is_long_no_more_is_looked_at_than_is_taken(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = store.stream("x")
    stream.add_many([{"n": number} for number in range(30_000)])
    last = str(stream.last_id())
    query = Query(store.path, maxbytespertrigger="20k")
    looked, splits = [], diskstream.Stream.splits

    def noted(self: diskstream.Stream, first: object, end: object, **given: Any) -> object:
        looked.append(str(end))
        return splits(self, str(first), str(end), **given)

    monkeypatch.setattr(diskstream.Stream, "splits", noted)
    query.latest()
    assert looked
    assert last not in looked


@pytest.mark.parametrize("small", [0, 1, 4096, 5000, 100_000])
@pytest.mark.parametrize("large", [1, 1000, 10**9])
def test_the_most_entries_within_a_limit_are_found(small: int, large: int) -> None:
    """So many entries of one byte each, then large ones."""

    def size_of(entries: int) -> int:
        return min(entries, small) + max(0, entries - small) * large

    for limit in (1, 10, 5000, 1 << 20):
        found = _most_within(size_of, 150_000, limit)
        assert found == 1 or size_of(found) <= limit
        assert found == 150_000 or size_of(found + 1) > limit or size_of(found) >= 0.9 * limit
