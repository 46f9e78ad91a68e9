"""Sums that a double cannot hold: null, counted, and no warning of numpy's; in both jobs."""

import warnings
from dataclasses import replace
from pathlib import Path
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

MS = 1_790_000_000_000 // 60_000 * 60_000
WINDOWS = [
    ["1e308", "1.5e308", "1e308"],  # inf
    ["1e308", "1e308", "-1e308", "-1e308", "-1e308"],  # inf on the way
    ["1e308", "7e307"],
    ["broken"],
    ["-1.7e308"],
]


@pytest.fixture
def settings(store: diskstream.Store) -> Settings:
    for at, values in enumerate(WINDOWS):
        ids = [f"{MS + at * 60_000}-{seq + 1}" for seq in range(len(values))]
        store.stream("s").add_many([{"v": value} for value in values], ids=ids)
    return Settings(str(store.path), (b"s",), window_ms=60_000, fields=("v",))


def test_they_are_null_and_so_are_their_means(no_spark: Any, settings: Settings, tmp_path: Path) -> None:
    given = replace(settings, to_stream=b"minutes", chart=tmp_path / "chart.png")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, summary = roll_up(no_spark, given)
    assert found is not None
    rows = found.to_pylist()
    assert [row["v_count"] for row in rows] == [3, 5, 2, 0, 1]
    assert [row["v_sum"] for row in rows] == [None, None, pytest.approx(1.7e308), None, -1.7e308]
    assert [row["v_mean"] for row in rows] == [None, None, pytest.approx(8.5e307), None, -1.7e308]
    assert [row["v_p50"] for row in rows] == [1e308, -1e308, pytest.approx(8.5e307), None, -1.7e308]
    assert summary.too_large == 2
    with diskstream.open(settings.path) as store:
        first, *_ = store.stream("minutes")
    assert b"v_max" in first.fields
    assert not {b"v_sum", b"v_mean"} & first.fields.keys()
    assert (tmp_path / "chart.png").stat().st_size > 1000


def test_the_query_finds_the_same(spark: "SparkSession", no_spark: Any, settings: Settings) -> None:
    from diskstream.spark import register

    register(spark)
    settings = replace(settings, quantiles=())
    made = windows(source(spark.read, settings), settings).toArrow().sort_by("window_start").to_pylist()
    found, _ = roll_up(no_spark, settings)
    assert found is not None
    for name in ("v_count", "v_min", "v_sum", "v_mean"):
        assert [row[name] for row in made] == [pytest.approx(row[name]) for row in found.to_pylist()]
