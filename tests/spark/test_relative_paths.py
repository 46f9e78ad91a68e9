"""Paths that are relative to where the driver was started: workers are started elsewhere."""

import contextlib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark.sql import types as st

from diskstream.errors import ArchiveError, ArgumentError
from diskstream.spark.jobs import archive, compact, profile, reconcile, replay, rollup
from diskstream.spark.jobs.archive import ArchiveSettings
from diskstream.spark.jobs.manifest import latest
from diskstream.spark.jobs.place import Place
from diskstream.spark.source import DiskstreamSource
from tests.spark.archives import NO_SPARK, days, fill, in_process, no_spark, parts, stored

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


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which tasks run, while jobs are started in its parent."""
    worker = tmp_path / "worker"
    worker.mkdir()
    monkeypatch.chdir(tmp_path)

    def in_worker(*given: Any, **options: Any) -> Any:
        with contextlib.chdir(worker):
            return in_process(*given, **options)

    for job in (archive, compact, profile, reconcile, replay, rollup):
        monkeypatch.setattr(job, "run_tasks", in_worker)
    return worker


def test_what_jobs_read_and_write_is_meant_as_seen_from_the_driver(elsewhere: Path, tmp_path: Path) -> None:
    """The files of an archive were made wherever a worker had been started, and the manifest said that it had them."""
    entries = days(2, 10)
    fill(tmp_path / "store", "s", entries)
    done = archive.run(NO_SPARK, ArchiveSettings("store", "archive", max_entries=4))
    assert (done.entries, done.files) == (20, len(parts(tmp_path / "archive")))
    assert reconcile.run(NO_SPARK, reconcile.ReconcileSettings("store", "archive")).ok
    assert compact.run(NO_SPARK, compact.CompactSettings("archive")).merged == done.files
    assert reconcile.run(NO_SPARK, reconcile.ReconcileSettings("store", "archive")).ok
    for source in ("store", "archive"):
        target = f"from the {source}"
        assert replay.run(NO_SPARK, replay.ReplaySettings(source, target)).entries == 20
        assert stored(tmp_path / target, "s") == stored(tmp_path / "store", "s")
    assert rollup.run(NO_SPARK, rollup.Settings("store", window_ms=1000, fields=("n",))).entries == 20
    assert profile.run(NO_SPARK, profile.Settings("store")).entries == 20
    assert list(elsewhere.iterdir()) == []


def test_files_that_the_driver_does_not_see_are_not_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where workers have a disk of their own under the archive's path."""
    fill(tmp_path / "store", "s", days(2, 10))
    root, workers = tmp_path / "archive", tmp_path / "on the worker"

    def on_worker(*given: Any, **options: Any) -> Any:
        made = in_process(*given, **options)
        workers.mkdir()
        for path in parts(root)[:1]:
            (root / path).rename(workers / "part")
        return made

    monkeypatch.setattr(archive, "run_tasks", on_worker)
    with pytest.raises(ArchiveError, match=r"part-\S+, of [\d,]+ bytes, .* must see the archive under the same path"):
        archive.run(NO_SPARK, ArchiveSettings(str(tmp_path / "store"), str(root)))
    assert latest(Place(root)).version == 0
    assert parts(root) == []


def test_an_archive_by_an_address_is_where_a_read_looks_for_it_or_refused(
    no_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Hadoop writes paths, with one slash: a folder of that name was made where the job was started."""
    fill(tmp_path / "store", "s", [("1-0", {"n": "1"})])
    root = tmp_path / "archive"
    (tmp_path / "driver").mkdir()
    monkeypatch.chdir(tmp_path / "driver")
    for given in (f"file:{root}", f"file://{root}"):
        archive.run(no_spark, ArchiveSettings(str(tmp_path / "store"), given))
        assert len(parts(root)) == 1
        reader: Any = DiskstreamSource({"path": given}).reader(SCHEMA)
        assert [batch.num_rows for part in reader.partitions() for batch in reader.read(part)] == [1]
    for given in ("hdfs:/lake/archive", "s3a:/bucket/archive", "s3://bucket/archive", "file://lake/archive", ""):
        with pytest.raises(ArgumentError, match="in a folder of this machine so far"):
            archive.run(no_spark, ArchiveSettings(str(tmp_path / "store"), given))
    assert list((tmp_path / "driver").iterdir()) == []


def test_a_replay_to_an_address_is_to_what_it_means_or_refused(
    no_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It went into a store in a folder called `file:` where the job was started, and said that all was added."""
    fill(tmp_path / "store", "s", [("1-0", {"n": "1"})])
    (tmp_path / "driver").mkdir()
    monkeypatch.chdir(tmp_path / "driver")
    store = f"file://{tmp_path}/store"
    assert replay.run(no_spark, replay.ReplaySettings(store, f"file:{tmp_path}/target")).entries == 1
    again = replay.run(no_spark, replay.ReplaySettings(str(tmp_path / "store"), f"file://{tmp_path}/target"))
    assert again.complete_before
    assert stored(tmp_path / "target", "s") == stored(tmp_path / "store", "s")
    archive.run(no_spark, ArchiveSettings(store, str(tmp_path / "archive")))
    assert reconcile.run(no_spark, reconcile.ReconcileSettings(store, str(tmp_path / "archive"))).ok
    for given in ("s3a:/bucket/store", "hdfs://host/store", "file://host/store", ""):
        with pytest.raises(ArgumentError, match="goes to is in a folder of this machine so far"):
            replay.ReplaySettings(store, given)
        with pytest.raises(ArgumentError, match="a store is in a folder of this machine so far"):
            archive.run(no_spark, ArchiveSettings(given, str(tmp_path / "archive")))
    assert list((tmp_path / "driver").iterdir()) == []
