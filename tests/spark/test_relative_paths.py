"""Paths that are relative to where the driver was started: workers are started elsewhere."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark.sql import types as st

from diskstream.spark.jobs import archive
from diskstream.spark.jobs.archive import ArchiveSettings
from diskstream.spark.source import DiskstreamSource
from tests.spark.archives import fill, no_spark

__all__ = ["no_spark"]

SCHEMA = st.StructType([st.StructField("n", st.LongType())])


@pytest.mark.parametrize("path", ["store", "archive"])
def test_what_is_read_and_where_damage_is_told_is_meant_as_seen_from_the_driver(
    no_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """An archive was looked for, and the report of what was skipped written, wherever a worker was started."""
    fill(tmp_path / "store", "s", [("1-0", {"n": "1"})])
    archive.run(no_spark, ArchiveSettings(str(tmp_path / "store"), str(tmp_path / "archive")))
    monkeypatch.chdir(tmp_path)
    given = {"path": path, "onCorruption": "skip", "corruptionPath": "report"}
    reader: Any = DiskstreamSource(given).reader(SCHEMA)
    [partition] = reader.partitions()
    (tmp_path / "worker").mkdir()
    monkeypatch.chdir(tmp_path / "worker")
    assert [batch.to_pylist() for batch in reader.read(partition)] == [[{"n": 1}]]
    assert reader.options.corruption_path == str(tmp_path / "report")
    monkeypatch.chdir(tmp_path)
    nothing: Any = DiskstreamSource({"path": path, "startingIds": "5-0", "corruptionPath": ""}).reader(SCHEMA)
    [partition] = nothing.partitions()
    monkeypatch.chdir(tmp_path / "worker")
    assert list(nothing.read(partition)) == []
    assert nothing.options.corruption_path == ""
