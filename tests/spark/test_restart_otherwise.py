"""A streaming query that is started again with other options than it had."""

import pytest

from diskstream import Store
from tests.spark.test_stream_units import Query, fill

pytest.importorskip("pyarrow")


def test_a_batch_that_was_planned_is_read_to_its_end_though_the_tail_is_left_out_now(store: Store) -> None:
    """It ended in the active segment, and of that nothing was read: it went without a word."""
    fill(store, range(1, 6))
    query = Query(store.path)
    start, end = query.offset, query.latest()
    again = Query(store.path, end, includetail="false")
    assert [number for _, number in again.read(start, end)] == [1, 2, 3, 4, 5]
    fill(store, range(6, 9))
    assert again.batch() == []
    store.stream("x").seal()
    assert again.numbers() == [6, 7, 8]
