"""The job `compact`: fewer files, the same rows, and nobody who reads is disturbed."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from diskstream.errors import ArchiveChangedError, ArchiveError, ArgumentError
from diskstream.ids import EntryID
from diskstream.spark.jobs import archive, compact, settling
from diskstream.spark.jobs.archive import ArchiveSettings
from diskstream.spark.jobs.compact import CompactSettings, bins, run
from diskstream.spark.jobs.digest import Digest
from diskstream.spark.jobs.manifest import ArchivedFile, Manifest, commit, latest, versions
from diskstream.spark.jobs.part_reading import read_part
from diskstream.spark.jobs.place import Place
from tests.spark.archives import BASE, days, fill, kept, no_spark, parts, stored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyarrow", reason="pip install 'diskstream[archive]'")
pytest.importorskip("pyspark", reason="pip install 'diskstream[spark]'")

__all__ = ["no_spark"]


def archived_in_parts(spark: Any, tmp_path: Path, runs: int = 3) -> None:
    """Some small files a day: each run adds to the same two days of two streams."""
    for run_number in range(runs):
        for day in range(2):
            for name in ("s", "t"):
                at = BASE + run_number * 1_000_000
                entries = [(f"{at + number}-0", {"n": str(number), "day": str(day)}) for number in range(50)]
                fill(tmp_path / "store", f"{name}{day}", entries)
        archive.run(spark, ArchiveSettings(str(tmp_path / "store"), str(tmp_path / "archive")))


def settings(tmp_path: Path, **given: Any) -> CompactSettings:
    return CompactSettings(str(tmp_path / "archive"), **given)


def total(root: Path) -> Digest:
    return sum((each.digest for each in latest(Place(root)).files), Digest())


def test_small_files_become_one_and_the_rows_stay(no_spark: Any, tmp_path: Path) -> None:
    root = tmp_path / "archive"
    archived_in_parts(no_spark, tmp_path)
    before = total(root)
    summary = run(no_spark, settings(tmp_path))
    assert (summary.files_before, summary.files_after, summary.merged, summary.rows) == (12, 4, 12, 600)
    assert summary.bytes_after < summary.bytes_before
    assert total(root) == before
    assert len(latest(Place(root)).files) == 4
    for name in ("s0", "t1"):
        assert kept(root, name) == stored(tmp_path / "store", name)
    # There is nothing left to do, and archiving goes on from there.
    assert run(no_spark, settings(tmp_path)).version == summary.version
    fill(tmp_path / "store", "s0", days(1, 5, first=9))
    archive.run(no_spark, ArchiveSettings(str(tmp_path / "store"), str(root)))
    assert kept(root, "s0") == stored(tmp_path / "store", "s0")


def test_readers_of_the_version_before_go_on_until_the_grace_time_is_over(no_spark: Any, tmp_path: Path) -> None:
    place = Place(tmp_path / "archive")
    archived_in_parts(no_spark, tmp_path, runs=2)
    old = latest(place)
    summary = run(no_spark, settings(tmp_path, grace_s=60))
    assert set(summary.garbage.waiting) == {each.path for each in old.files}
    assert sum(batch.num_rows for each in old.files for batch in read_part(place, each.path, old.shape)) == 400
    long_ago = time.time() - 61
    for each in place.list():
        os.utime(place.full(each.path), (long_ago, long_ago))
    summary = run(no_spark, settings(tmp_path, grace_s=60))
    assert set(summary.garbage.removed) == {each.path for each in old.files}
    assert versions(place) == [summary.version]
    assert sorted(parts(tmp_path / "archive")) == sorted(each.path for each in latest(place).files)


def file(first: int, size: int, rows: int = 1, folder: str = "stream=s/date=2024-10-04") -> ArchivedFile:
    at = EntryID(first, 0)
    return ArchivedFile(f"{folder}/part-{first}", b"s", at, at, size, Digest(rows), 0, "store")


def test_neighbours_are_packed_up_to_the_target() -> None:
    files = [file(number, size) for number, size in enumerate([10, 10, 90, 10, 40, 60, 50, 50])]
    packed = [[each.size_bytes for each in run] for run in bins(files, 100, 1000)]
    assert packed == [[10, 10], [10, 40], [50, 50]]
    assert bins([file(1, 1), file(2, 1, folder="stream=s/date=2024-10-05")], 100, 1000) == []
    assert [len(run) for run in bins([file(number, 1, rows=4) for number in range(6)], 100, 9)] == [2, 2, 2]


def test_a_dry_run_says_what_it_would_do(no_spark: Any, tmp_path: Path) -> None:
    archived_in_parts(no_spark, tmp_path)
    before = parts(tmp_path / "archive")
    summary = run(no_spark, settings(tmp_path, dry_run=True, streams=(b"s0",)))
    assert (summary.files_before, summary.files_after, summary.merged, summary.version) == (12, 10, 3, 3)
    assert parts(tmp_path / "archive") == before


def test_a_damaged_file_stops_it(no_spark: Any, tmp_path: Path) -> None:
    root = tmp_path / "archive"
    archived_in_parts(no_spark, tmp_path, runs=2)
    first, second = latest(Place(root)).files[:2]
    (root / first.path).write_bytes((root / second.path).read_bytes())
    with pytest.raises(ArchiveError, match="is damaged: its digest is"):
        run(no_spark, settings(tmp_path))
    (root / first.path).write_bytes(b"nothing")
    with pytest.raises(ArchiveError, match="is damaged"):
        run(no_spark, settings(tmp_path))
    (root / first.path).unlink()
    with pytest.raises(ArchiveError, match="is missing, though the manifest names it"):
        run(no_spark, settings(tmp_path))
    assert latest(Place(root)).version == 2
    assert len(parts(root)) == 7


def test_of_two_at_once_one_wins(no_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "archive"
    archived_in_parts(no_spark, tmp_path, runs=2)

    def late(place: Place, made: Manifest, name: str) -> None:
        monkeypatch.setattr(settling, "commit", commit)
        run(no_spark, settings(tmp_path))
        commit(place, made, name)

    monkeypatch.setattr(settling, "commit", late)
    with pytest.raises(ArchiveChangedError, match="run it again"):
        run(no_spark, settings(tmp_path))
    assert len(latest(Place(root)).files) == 4
    assert len(parts(root)) == 8 + 4
    assert kept(root, "s1") == stored(tmp_path / "store", "s1")


def test_where_there_is_no_archive_it_says_so(no_spark: Any, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="there is no archive in"):
        run(no_spark, settings(tmp_path))
    with pytest.raises(ArgumentError, match="at least one row"):
        run(no_spark, settings(tmp_path, target_rows=0))
    with pytest.raises(ArgumentError, match="60 seconds at least"):
        run(no_spark, settings(tmp_path, grace_s=1.0))


def test_on_spark(spark: "SparkSession", tmp_path: Path) -> None:
    archived_in_parts(spark, tmp_path, runs=2)
    before = total(tmp_path / "archive")
    summary = compact.run(spark, settings(tmp_path))
    assert (summary.files_before, summary.files_after) == (8, 4)
    assert total(tmp_path / "archive") == before
