"""An archive whose manifest is lost, as by a copy that left out `_manifest`: its files are no garbage of a new one."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream.errors import ArchiveError
from diskstream.spark.archived_entries import archived_columns, plan_archive
from diskstream.spark.jobs import archive, replay
from diskstream.spark.jobs.archive import ArchiveSettings
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
