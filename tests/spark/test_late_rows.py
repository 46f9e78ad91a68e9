"""Rollups and entries that come late: by a time of their own, behind windows that are written already."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq

from diskstream import Store
from diskstream.spark.jobs.rollup import Settings, run
from diskstream.spark.jobs.rollup_output import add_windows, as_table
from diskstream.spark.jobs.rollup_stream import rollup_stream
from diskstream.spark.jobs.scanning import partitions
from diskstream.spark.jobs.window_task import roll_partition
from diskstream.spark.jobs.windows import unite
from tests.spark.archives import no_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["no_spark"]

MINUTE = 60_000
BASE_S = 1_790_000_040  # a whole minute


def tell(store: Store, *readings: tuple[float, int]) -> None:
    """Readings as they come in: each has its own time, in seconds behind the first minute's beginning."""
    store.stream("s").add_many([{"at": str(round((BASE_S + at) * 1000)), "v": str(value)} for at, value in readings])


def test_what_is_later_than_the_watermark_is_left_out_and_the_rest_is_counted(
    spark: "SparkSession", store: Store, tmp_path: Path
) -> None:
    """Entry by entry, a batch each: the watermark, a minute behind the newest, moves on with each."""
    from diskstream.spark import register

    register(spark)
    tell(store, (10, 1), (100, 2))  # the watermark is at 40 now
    tell(store, (50, 4))  # late, but in time
    tell(store, (200, 8), (201, 256))  # at 141: the first two minutes are complete, and Spark is through with them
    tell(store, (59, 16))  # too late
    tell(store, (400, 32))
    settings = Settings(
        str(store.path), (b"s",), window_ms=MINUTE, fields=("v",), time_field="at", lateness_ms=MINUTE, quantiles=()
    )
    frame = spark.readStream.format("diskstream").schema("stream string, ts timestamp, at timestamp, v double")
    frame = frame.option("startingIds", "earliest").option("maxEntriesPerTrigger", 1)
    output = tmp_path / "windows"
    query = rollup_stream(
        spark, settings, output, checkpoint=tmp_path / "checkpoint", frame=frame.load(str(store.path), streams="s")
    )
    assert query.awaitTermination(100)
    found = pa.concat_tables(pq.read_table(each) for each in output.glob("batch=*/windows.parquet"))
    sums = {row["window_start"].timestamp() - BASE_S: row["v_sum"] for row in found.to_pylist()}
    assert sums == {0: 1 + 4, 60: 2, 180: 8 + 256}
    assert found.num_rows == 3  # each window once


def test_what_comes_when_its_window_is_in_the_stream_is_counted_as_too_late(store: Store) -> None:
    """A stream grows at its end only: the window stays as it is, and how many rows were left out is told."""
    settings = Settings(
        str(store.path), (b"s",), window_ms=MINUTE, fields=("v",), time_field="at", to_stream=b"minutes", quantiles=()
    )

    def rolled() -> pa.Table:
        with partitions(settings.reading()) as (_, planned):
            return as_table(unite([roll_partition(each, settings) for each in planned], 1), settings)

    tell(store, (10, 1), (70, 2), (130, 4))
    complete = (BASE_S + 120) * 1000
    assert add_windows(rolled(), settings, complete) == (2, 0, 1, 0)
    tell(store, (20, 8), (75, 16), (140, 32))
    assert add_windows(rolled(), settings, complete + MINUTE) == (1, 2, 0, 0)
    assert [float(entry[b"v_sum"]) for entry in store.stream("minutes")] == [1, 2, 4 + 32]


def test_a_run_up_to_a_time_adds_no_window_that_later_entries_may_still_be_of(no_spark: Any, store: Store) -> None:
    """Entries come a second after their time, which `lateness_ms` says: of the last ones some lie beyond the end."""
    ids = [f"{1000 + number}-0" for number in range(50)]
    store.stream("s").add_many([{"at": str(number * 10), "v": "1"} for number in range(50)], ids=ids)
    settings = Settings(
        str(store.path), (b"s",), window_ms=100, fields=("v",), time_field="at", lateness_ms=1000, to_stream=b"windows"
    )
    upto = run(no_spark, replace(settings, until_ms=1025))
    assert (upto.entries, upto.added, upto.held_back) == (25, 0, 3)
    assert run(no_spark, settings).added == 5
    assert [entry.fields[b"entries"] for entry in store.stream("windows")] == [b"10"] * 5


def test_without_a_time_of_their_own_entries_up_to_a_time_are_complete(no_spark: Any, store: Store) -> None:
    store.stream("s").add_many([{"v": "1"} for _ in range(50)], ids=[f"{1000 + at}-0" for at in range(50)])
    settings = Settings(
        str(store.path), (b"s",), window_ms=10, fields=("v",), lateness_ms=1000, until_ms=1025, to_stream=b"windows"
    )
    found = run(no_spark, settings)
    assert (found.added, found.held_back) == (2, 1)


def test_a_window_that_the_begin_cuts_is_not_said_to_come(no_spark: Any, store: Store) -> None:
    """The rest of its entries is not read: it was counted as one that is not complete yet."""
    store.stream("s").add_many([{"v": "1"} for _ in range(40)], ids=[f"{1000 + at}-0" for at in range(40)])
    settings = Settings(
        str(store.path), (b"s",), window_ms=10, fields=("v",), since_ms=1005, until_ms=1035, to_stream=b"windows"
    )
    found = run(no_spark, settings)
    assert (found.added, found.held_back, found.cut) == (2, 1, 1)
    assert [entry.id.ms for entry in store.stream("windows")] == [1010, 1020]


def test_a_window_of_which_a_trim_has_taken_entries_is_not_said_to_be_whole(no_spark: Any, store: Store) -> None:
    """It went into the stream for good, with less than there was; so the first one of a stream with a retention."""
    for name in ("s", "t"):
        store.stream(name).add_many([{"v": "1"} for _ in range(40)], ids=[f"{1000 + at}-0" for at in range(40)])
    settings = Settings(str(store.path), (b"s", b"t"), window_ms=10, fields=("v",), until_ms=1035, to_stream=b"windows")
    store.stream("s").trim(maxlen=24)  # up to 1015
    found = run(no_spark, settings)
    assert (found.added, found.held_back, found.cut) == (4, 2, 1)
    rows = [(entry.id.ms, entry.fields[b"stream"], entry.fields[b"entries"]) for entry in store.stream("windows")]
    assert rows == [(1000, b"t", b"10"), (1010, b"t", b"10"), (1020, b"s", b"10"), (1020, b"t", b"10")]
    again = run(no_spark, replace(settings, until_ms=None))
    assert (again.added, again.skipped, again.cut) == (2, 5, 0)


def test_of_a_time_of_their_own_a_trim_says_nothing(no_spark: Any, store: Store) -> None:
    store.stream("s").add_many([{"v": "1", "at": "10"}, {"v": "1", "at": "11"}], ids=["1000-0", "1001-0"])
    store.stream("s").trim(maxlen=1)
    settings = Settings(str(store.path), (b"s",), window_ms=10, fields=("v",), time_field="at", to_stream=b"windows")
    found = run(no_spark, settings)
    assert (found.added, found.cut) == (1, 0)
