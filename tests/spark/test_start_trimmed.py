"""A read that is told to begin with an ID that was trimmed away."""

from typing import Any

import pytest

from diskstream import DataLossError, Store

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from tests.spark.test_read_options import options
from tests.spark.test_read_units import ids
from tests.spark.test_stream_units import Query, fill


@pytest.fixture
def trimmed(store: Store) -> Store:
    """Entries 5 to 9 of nine."""
    fill(store, range(1, 10))
    store.stream("x").trim(minid="5-0")
    return store


@pytest.mark.parametrize("lease", ["true", "false"])
@pytest.mark.parametrize("start", [{"startingIds": "3-0"}, {"startingIds": '{"x": "4-0"}', "endingIds": "4-0"}])
def test_a_batch_says_what_it_misses(trimmed: Store, start: dict[str, str], lease: str) -> None:
    """It read the rest, as if that were all: who reads day by day, from where the last read ended, never knew."""
    given: dict[str, Any] = {"path": trimmed.path, "lease": lease, **start}
    with pytest.raises(DataLossError, match=r"stream x: entries up to 4-0 were trimmed away, but [34]-0 and what foll"):
        ids(options(**given))
    left = [f"x {number}-0" for number in range(5, 10)] if "endingIds" not in start else []
    assert ids(options(**given, failOnDataLoss="false")) == left


@pytest.mark.parametrize(
    "start",
    [
        {"startingIds": "4-1"},
        {"startingIds": "earliest"},
        {"startingIds": "-"},
        {"startingIds": "0"},
        {"startingIds": '{"x": "0-0"}'},
        {"startingTimestamp": "3"},
        {"startingIds": "3-0", "endingIds": "2-0"},
    ],
)
def test_a_start_that_is_there_or_before_all_misses_nothing(trimmed: Store, start: dict[str, str]) -> None:
    left = [f"x {number}-0" for number in range(5, 10)] if "endingIds" not in start else []
    assert ids(options(path=trimmed.path, **start)) == left


@pytest.mark.parametrize("start", ["earliest", "-", "0"])
def test_a_query_that_begins_with_the_least_id_begins_with_what_there_is(trimmed: Store, start: str) -> None:
    """The least ID was missed, as if an entry could have it."""
    assert Query(trimmed.path, startingids=start).numbers() == [5, 6, 7, 8, 9]
