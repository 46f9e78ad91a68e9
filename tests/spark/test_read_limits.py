"""What Spark is told of a query's limits, and what becomes of them where it asks for all that there is."""

from typing import Any

import pytest

from diskstream import Store

streaming = pytest.importorskip("pyspark.sql.streaming.datasource")

from tests.spark.test_stream_units import Query, at, fill


@pytest.mark.parametrize(
    ("options", "limit", "end"),
    [
        ({}, streaming.ReadAllAvailable(), "9-0"),
        ({"maxentriespertrigger": 2}, streaming.ReadMaxRows(2), "2-0"),
        ({"maxbytespertrigger": 1}, streaming.ReadMaxBytes(1), "1-0"),
        ({"minentriespertrigger": 20}, streaming.ReadMinRows(20), "0-0"),
        ({"maxentriespertrigger": 2, "minentriespertrigger": 20}, streaming.ReadMaxRows(2), "0-0"),
    ],
)
def test_limits_hold_unless_all_that_is_available_is_asked_for(
    store: Store, options: dict[str, Any], limit: object, end: str
) -> None:
    """As by the trigger Once, which reads one batch and ends: what the limits left out was not read at all."""
    fill(store, range(1, 10))
    query = Query(store.path, **options)
    assert query.reader.getDefaultReadLimit() == limit
    assert at(query.latest()) == {"x": end}
    assert at(query.reader.latestOffset(query.offset, streaming.ReadAllAvailable())) == {"x": "9-0"}
