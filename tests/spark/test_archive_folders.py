"""Streams that share a folder of an archive: by a name made for it, or on a disk that takes two names for the same."""

import os
from pathlib import Path
from typing import Any

import pytest

from diskstream.spark.jobs import archive, compact
from diskstream.spark.jobs.archive import ArchiveSettings
from diskstream.spark.jobs.compact import CompactSettings
from diskstream.spark.jobs.folders import folder_of
from diskstream.spark.jobs.garbage import collect
from diskstream.spark.jobs.place import Place
from tests.spark.archives import days, fill, kept, no_spark, stored

pytest.importorskip("pyarrow", reason="pip install 'diskstream[archive]'")
pytest.importorskip("pyspark", reason="pip install 'diskstream[spark]'")

__all__ = ["no_spark"]


def test_a_name_that_is_the_folder_of_a_longer_one_is_not_compacted_into_it(no_spark: Any, tmp_path: Path) -> None:
    store, root = tmp_path / "store", tmp_path / "archive"
    long = "x" * 250
    alike = folder_of(long.encode(), 0, hourly=False).partition("/")[0].removeprefix("stream=")
    fill(store, alike, days(1, 10)[:5])
    fill(store, long, days(1, 10)[5:])
    archive.run(no_spark, ArchiveSettings(str(store), str(root)))
    compact.run(no_spark, CompactSettings(str(root)))
    for name in (alike, long):
        assert kept(root, name) == stored(store, name)
    assert len(folder_of(alike.encode(), 0, hourly=False).partition("/")[0].encode()) <= 255


def test_files_that_a_disk_shows_below_another_spelling_of_their_folder_are_no_garbage(
    no_spark: Any, tmp_path: Path
) -> None:
    """As one that takes capital and small letters for the same: all are below the folder that was made first."""
    store, root = tmp_path / "store", tmp_path / "archive"
    (root / "stream=Sensor").mkdir(parents=True)
    (root / "stream=sensor").symlink_to("stream=Sensor")
    for name in ("Sensor", "sensor"):
        fill(store, name, days(2, 5))
    archive.run(no_spark, ArchiveSettings(str(store), str(root)))
    for each in Place(root).list():
        os.utime(root / each.path, (1, 1))
    assert collect(Place(root), 60).removed == ()
    for name in ("Sensor", "sensor"):
        assert kept(root, name) == stored(store, name)
