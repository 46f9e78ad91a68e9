"""A rollup that goes on, started again with other settings: its checkpoint has windows that are still open."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from diskstream import ArgumentError, StorageError, Store

pytest.importorskip("pyspark", reason="pip install 'diskstream[spark]'")

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import StreamingQueryException

from diskstream.spark.jobs.rollup_settings import Settings
from diskstream.spark.jobs.rollup_stream import rollup_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_SESSION: Any = None
BASE_MS = 1_700_000_000_000


def tell(store: Store, *times_ms: int) -> None:
    store.stream("s").add_many([{"v": 1, "w": 100}] * len(times_ms), ids=[f"{BASE_MS + ms}-0" for ms in times_ms])


def test_windows_that_are_open_are_of_the_settings_that_the_query_was_begun_with(
    spark: "SparkSession", store: Store, tmp_path: Path
) -> None:
    """Spark knows the columns of what it counts by number and type: of another field it adds to the old one's sums."""
    from diskstream.spark import register

    register(spark)
    settings = Settings(str(store.path), (b"s",), window_ms=1000, fields=("v",), quantiles=())
    output, checkpoint = tmp_path / "windows", tmp_path / "checkpoint"

    def run(session: "SparkSession", settings: Settings) -> None:
        assert rollup_stream(session, settings, output, checkpoint=checkpoint).awaitTermination(60)

    tell(store, 100, 900, 1100, 2100)
    run(spark, settings)
    tell(store, 2500, 3100)
    changes: list[dict[str, Any]] = [
        {"window_ms": 2000},
        {"fields": ("w",)},
        {"by": ("w",)},
        {"time_field": "at"},
    ]
    for other in changes:
        with pytest.raises(ArgumentError, match="begin with a new checkpoint and another output"):
            run(NO_SESSION, replace(settings, **other))
    run(spark, settings)
    found = pa.concat_tables(pq.read_table(each) for each in output.glob("batch=*/windows.parquet"))
    starts = found.column("window_start").cast(pa.int64()).to_pylist()
    sums = dict(zip(starts, found.column("v_sum").to_pylist(), strict=True))
    assert sums == {(BASE_MS + ms) * 1000: total for ms, total in ((0, 2), (1000, 1), (2000, 2))}
    noted = output / "_settings"
    noted.write_bytes(noted.read_bytes().replace(b"1000", b"2000"))
    with pytest.raises(StorageError, match="it is damaged"):
        run(NO_SESSION, settings)
    noted.unlink()  # as of an earlier version
    query = rollup_stream(spark, replace(settings, window_ms=2000), output, checkpoint=tmp_path / "another")
    with pytest.raises(StreamingQueryException, match="Batches of a query with a new checkpoint"):
        query.awaitTermination(60)
    assert not noted.exists(), "who is refused says nothing of whose output it is"
