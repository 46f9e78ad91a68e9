"""The first batch of a query, repeated as it had failed: Spark has its end, and asks anew where the query begins."""

import json
from typing import Any

import pytest

from diskstream import DataLossError, Store
from tests.spark.test_stream_units import Offset, Query, Rows, fill

pytest.importorskip("pyarrow")


def repeated(store: Store, end: Offset, **options: Any) -> Rows:
    """What it reads then: the offset of its end is in the checkpoint, the one of its start is not."""
    query = Query(store.path, **options)
    return query.read(query.offset, json.loads(json.dumps(end)))


def test_it_is_read_whole_though_the_query_would_begin_later_now(store: Store) -> None:
    fill(store, range(1, 3))
    query = Query(store.path, startingids="latest")
    assert query.offset["x"] == "2-0"
    fill(store, range(3, 6))
    end = query.latest()
    fill(store, range(6, 9))
    assert [number for _, number in repeated(store, end, startingids="latest")] == [3, 4, 5]


def test_what_was_trimmed_off_it_is_missed(store: Store) -> None:
    fill(store, range(1, 6))
    end = Query(store.path).latest()
    assert repeated(store, end) == [("x", number) for number in range(1, 6)]
    store.stream("x").trim(maxlen=2)
    with pytest.raises(DataLossError, match=r"entries up to 3-0 were trimmed away"):
        repeated(store, end)
    assert [number for _, number in repeated(store, end, failondataloss="false")] == [4, 5]


def test_a_stream_that_was_made_anew_is_missed(store: Store) -> None:
    fill(store, range(1, 6))
    end = Query(store.path).latest()
    store.delete("x")
    fill(store, range(1, 9))
    with pytest.raises(DataLossError, match="another one is in its place"):
        repeated(store, end)
    assert repeated(store, end, failondataloss="false") == []


def test_the_batches_after_it_begin_where_it_ended(store: Store) -> None:
    fill(store, range(1, 6))
    query = Query(store.path, maxentriespertrigger=2)
    assert [query.numbers() for _ in range(3)] == [[1, 2], [3, 4], [5]]
    assert "%new" not in query.offset
