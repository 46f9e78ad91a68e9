"""Rollups by a time that a timestamp just holds, and its window does not: in no window, in both jobs."""

from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.session import what_is_missing

if missing := what_is_missing():
    pytest.skip(missing, allow_module_level=True)

import diskstream
from diskstream.spark.jobs.rollup import Settings, roll_up
from diskstream.spark.jobs.rollup_stream import source, windows
from tests.spark.archives import no_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["no_spark"]

LAST_MS = ((1 << 63) - 1) // 1000
MINUTE = 60_000


def test_the_query_passes_over_them_as_the_job_does(
    spark: "SparkSession", no_spark: Any, store: diskstream.Store
) -> None:
    """One such time, as of a device without a clock, ended the query with Java's overflow, each time it was started."""
    from diskstream.spark import register

    register(spark)
    times = [LAST_MS, LAST_MS - MINUTE, LAST_MS - 3 * MINUTE, -LAST_MS, 3 * MINUTE - LAST_MS, 0, -1, 5]
    store.stream("s").add_many([{"at": str(ms), "v": "1"} for ms in times])
    settings = Settings(str(store.path), window_ms=MINUTE, fields=("v",), time_field="at", quantiles=())
    made = windows(source(spark.read, settings), settings).sort("window_start")
    rows = made.selectExpr("unix_micros(window_start) div 60000000", "entries").collect()
    found, summary = roll_up(no_spark, settings)
    assert found is not None
    assert summary.untimed == 2
    starts = [at // (MINUTE * 1000) for at in found["window_start"].cast("int64").to_pylist()]
    assert [tuple(row) for row in rows] == list(zip(starts, found["entries"].to_pylist(), strict=True))
