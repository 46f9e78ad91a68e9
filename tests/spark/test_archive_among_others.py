"""An archive in a folder that holds other files too: of these none is its garbage, however old."""

import os
from pathlib import Path
from typing import Any

import pytest

from diskstream.spark.jobs import archive
from diskstream.spark.jobs.archive import ArchiveSettings
from diskstream.spark.jobs.garbage import collect
from diskstream.spark.jobs.place import Place
from tests.spark.archives import days, fill, kept, no_spark, stored

pytest.importorskip("pyarrow", reason="pip install 'diskstream[archive]'")
pytest.importorskip("pyspark", reason="pip install 'diskstream[spark]'")

__all__ = ["no_spark"]

_HEX = "0123456789abcdef" * 2
_OTHERS = (
    "minutes.parquet",
    "sales/part-00000-7d5f.c000.snappy.parquet",
    "stream=s/part-00000-7d5f.c000.snappy.parquet",
    "stream=s/date=2024-10-04/part-00000-7d5f.c000.snappy.parquet",
    "stream=s/date=2024-10-04/notes.tmp",
    f"sales/stream=s/date=2024-10-04/part-1-0-2-0-{_HEX}.parquet",
    "_manifest/mine.tmp",
    "_jobs/of-another-program",
)


def make_old(root: Path, paths: tuple[str, ...]) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(b"of somebody else")
        os.utime(root / path, (1, 1))


def test_a_job_leaves_files_alone_that_no_job_made(no_spark: Any, tmp_path: Path) -> None:
    root = tmp_path / "lake"
    make_old(root, _OTHERS)
    fill(tmp_path / "store", "s", days(1, 10))
    summary = archive.run(no_spark, ArchiveSettings(str(tmp_path / "store"), str(root)))
    assert (summary.version, summary.garbage.removed) == (1, ())
    assert [path for path in _OTHERS if not (root / path).exists()] == []
    assert kept(root, "s") == stored(tmp_path / "store", "s")


def test_an_archive_within_another_one_keeps_its_files(no_spark: Any, tmp_path: Path) -> None:
    outer, inner = tmp_path / "lake", tmp_path / "lake" / "inner"
    fill(tmp_path / "store", "s", days(1, 10))
    for root in (inner, outer):
        archive.run(no_spark, ArchiveSettings(str(tmp_path / "store"), str(root)))
    for each in Place(outer).list():
        os.utime(outer / each.path, (1, 1))
    assert collect(Place(outer), 60).removed == ()
    assert kept(inner, "s") == stored(tmp_path / "store", "s")


def test_what_killed_jobs_left_is_garbage_all_the_same(tmp_path: Path) -> None:
    left = (
        f"_manifest/000000000007.json.{_HEX[:16]}.tmp",
        f"stream=a%2Fb/date=2024-10-04/.{_HEX}.tmp",
        f"stream=a%2Fb/date=2024-10-04/hour=07/part-1-0-2-0-{_HEX}.parquet",
        f"stream=s/date=__HIVE_DEFAULT_PARTITION__/part-1-0-2-0-{_HEX}.parquet",
    )
    marks = (f"_jobs/{_HEX[:16]}", f"_jobs/{_HEX[:16]}.{_HEX[:16]}.tmp")
    make_old(tmp_path, (*left, *marks))
    assert collect(Place(tmp_path), 60).removed == left
    assert Place(tmp_path).list() == []
