"""An archive whose manifest is lost, as by a copy that left out `_manifest`: its files are no garbage of a new one."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream.errors import ArchiveError
from diskstream.spark.archived_entries import archived_columns, plan_archive
from diskstream.spark.jobs import archive, compact, replay
from diskstream.spark.jobs.archive import ArchiveSettings
from diskstream.spark.jobs.compact import CompactSettings
from diskstream.spark.jobs.garbage import running
from diskstream.spark.jobs.place import Place
from diskstream.spark.jobs.replay import ReplaySettings
from diskstream.spark.options import ReadOptions
from diskstream.spark.schemas import default_schema, plan
from tests.spark.archives import days, fill, kept, no_spark, parts, stored

pytest.importorskip("pyarrow", reason="pip install 'diskstream[archive]'")
pytest.importorskip("pyspark", reason="pip install 'diskstream[spark]'")

__all__ = ["no_spark"]


def archived(no_spark: Any, tmp_path: Path) -> Path:
    """An archive without its manifest; all is old."""
    store, root = tmp_path / "store", tmp_path / "archive"
    fill(store, "s 1", days(2, 5))
    archive.run(no_spark, ArchiveSettings(str(store), str(root)))
    shutil.rmtree(root / "_manifest")
    for each in Place(root).list():
        os.utime(root / each.path, (1, 1))
    return root


def run(no_spark: Any, tmp_path: Path, **more: Any) -> Any:
    return archive.run(no_spark, ArchiveSettings(str(tmp_path / "store"), str(tmp_path / "archive"), **more))


@pytest.mark.parametrize("gone", ["trimmed", "deleted"])
@pytest.mark.parametrize("dry", [False, True])
def test_files_of_entries_that_the_store_has_no_more_are_not_taken_for_garbage(
    no_spark: Any, tmp_path: Path, gone: str, *, dry: bool
) -> None:
    root = archived(no_spark, tmp_path)
    with diskstream.open(tmp_path / "store") as store:
        if gone == "trimmed":
            store.stream("s 1").trim(maxlen=1)
        else:
            store.delete("s 1")
            store.stream("other").add({"n": "1"})
    there = parts(root)
    with pytest.raises(ArchiveError, match=r"no manifest that names them.*restore the folder _manifest from a copy"):
        run(no_spark, tmp_path, dry_run=dry)
    assert parts(root) == there
    assert len(there) == 2


def test_where_the_store_has_all_of_them_the_archive_is_made_anew(no_spark: Any, tmp_path: Path) -> None:
    root = archived(no_spark, tmp_path)
    there = parts(root)
    assert run(no_spark, tmp_path).garbage.removed == tuple(there)
    assert kept(root, "s 1") == stored(tmp_path / "store", "s 1")


def test_what_a_first_run_that_was_killed_left_is_garbage_though_the_store_was_trimmed_since(
    no_spark: Any, tmp_path: Path
) -> None:
    root = archived(no_spark, tmp_path)
    for path in parts(root):
        job = path.rpartition("-")[2][:16]
        (root / "_jobs").mkdir(exist_ok=True)
        (root / "_jobs" / job).touch()
        os.utime(root / "_jobs" / job, (1, 1))
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s 1").trim(maxlen=1)
    assert len(run(no_spark, tmp_path).garbage.removed) == 2
    assert kept(root, "s 1") == stored(tmp_path / "store", "s 1")


def test_what_a_task_left_that_was_killed_is_of_no_version_though_its_job_ended(no_spark: Any, tmp_path: Path) -> None:
    """Without a mark it would be taken for one of a lost version, once the store was trimmed beyond it."""
    root = tmp_path / "archive"
    fill(tmp_path / "store", "s 1", days(2, 5))
    run(no_spark, tmp_path)
    place, there = Place(root), parts(root)
    with pytest.raises(RuntimeError, match="a worker was lost"), running(place) as marker:
        later = days(1, 5, first=2)
        fill(tmp_path / "store", "s 1", later)
        name = f"part-{later[0][0]}-{later[-1][0]}-{marker.job}{'0' * 16}.parquet"
        left = (root / there[-1]).with_name(name)
        left.write_bytes(b"whole, and told to nobody")
        raise RuntimeError("a worker was lost")
    for each in Place(root).list():
        os.utime(root / each.path, (1, 1))
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s 1").trim(maxlen=1)
    garbage = run(no_spark, tmp_path).garbage
    assert (garbage.removed, garbage.failed) == ((left.relative_to(root).as_posix(),), "")
    assert [each.path for each in place.list("_jobs")] == []


def test_a_manifest_folder_without_a_version_is_no_archive_of_no_entries(no_spark: Any, tmp_path: Path) -> None:
    root = archived(no_spark, tmp_path)
    (root / "_manifest").mkdir()
    options = ReadOptions(path=str(root))
    with pytest.raises(ArchiveError, match="there is no archive in"):
        archived_columns(str(root))
    with pytest.raises(ArchiveError, match="there is no archive in"):
        plan_archive(options, plan(default_schema(options), options))
    with pytest.raises(ArchiveError, match="there is no archive in"):
        replay.run(no_spark, ReplaySettings(str(root), str(tmp_path / "target")))
    assert not (tmp_path / "target").exists()


def with_an_earlier_manifest(root: Path, tmp_path: Path) -> None:
    """As where the latest version is damaged, and one of yesterday is restored; all is old."""
    shutil.rmtree(root / "_manifest")
    shutil.copytree(tmp_path / "copy", root / "_manifest")
    grow_old(root)


def grow_old(root: Path) -> None:
    for each in Place(root).list():
        os.utime(root / each.path, (1, 1))


def trimmed(tmp_path: Path, streams: tuple[str, ...] = ("s",)) -> None:
    with diskstream.open(tmp_path / "store") as store:
        for name in streams:
            store.stream(name).trim(maxlen=0)


@pytest.mark.parametrize("is_trimmed", [False, True])
def test_files_of_a_later_version_than_the_manifest_that_was_restored_are_not_taken_for_garbage(
    no_spark: Any, tmp_path: Path, *, is_trimmed: bool
) -> None:
    store, root = tmp_path / "store", tmp_path / "archive"
    fill(store, "s", days(2, 5))
    run(no_spark, tmp_path)
    shutil.copytree(root / "_manifest", tmp_path / "copy")
    fill(store, "s", days(2, 5, first=2))
    run(no_spark, tmp_path)
    newest = (root / "_manifest" / "000000000002.json").read_bytes()
    expected, there = kept(root, "s"), parts(root)
    if is_trimmed:
        trimmed(tmp_path)
    fill(store, "s", days(1, 5, first=4))
    with_an_earlier_manifest(root, tmp_path)
    garbage = compact.run(no_spark, CompactSettings(str(root))).garbage
    assert (garbage.removed, parts(root)) == ((), there)
    assert "beyond what version 1 of the manifest has archived" in garbage.failed
    if is_trimmed:
        with pytest.raises(ArchiveError, match=r"of version 1, does not name them.*the newest there is"):
            run(no_spark, tmp_path)
        assert parts(root) == there
        (root / "_manifest" / "000000000002.json").write_bytes(newest)
        assert kept(root, "s") == expected
        assert run(no_spark, tmp_path).garbage.removed == ()
        assert kept(root, "s") == expected + stored(store, "s")
    else:
        assert len(run(no_spark, tmp_path).garbage.removed) == 2, "the store has all of it: archived once more"
        assert kept(root, "s") == stored(store, "s")


def test_where_files_of_the_manifest_are_missing_nothing_goes_as_garbage(no_spark: Any, tmp_path: Path) -> None:
    """One from before a compaction was restored: what it names is gone, and what it does not name has the rows."""
    store, root = tmp_path / "store", tmp_path / "archive"
    for first in (0, 100):
        fill(store, "s", [(f"{number}-1", {"n": str(number)}) for number in range(first + 1, first + 6)])
        run(no_spark, tmp_path)
    expected = kept(root, "s")
    shutil.copytree(root / "_manifest", tmp_path / "copy")
    compact.run(no_spark, CompactSettings(str(root)))
    grow_old(root)
    assert len(compact.run(no_spark, CompactSettings(str(root))).garbage.removed) == 2
    newest = (root / "_manifest" / "000000000003.json").read_bytes()
    trimmed(tmp_path)
    fill(store, "s", [("1000-1", {"n": "last"})])
    with_an_earlier_manifest(root, tmp_path)
    garbage = run(no_spark, tmp_path).garbage
    assert garbage.removed == ()
    assert "is missing, though version 3 of the manifest names it" in garbage.failed
    shutil.rmtree(root / "_manifest")
    (root / "_manifest").mkdir()
    (root / "_manifest" / "000000000003.json").write_bytes(newest)
    assert kept(root, "s") == expected
