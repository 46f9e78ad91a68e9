"""A replay of what is not as it was: another store or archive in its place by now, or damage."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import diskstream
from diskstream.backups import make_backup
from diskstream.errors import ArchiveError, ArgumentError, StorageError
from diskstream.spark import commit
from diskstream.spark.jobs import archive
from diskstream.spark.jobs import replay as job
from diskstream.spark.jobs.replay import ReplaySettings
from diskstream.spark.kept_stores import STORES
from tests.spark.archives import days, fill, no_spark, stored
from tests.spark.test_read_archive import flipped

__all__ = ["no_spark"]


def begun(no_spark: Any, monkeypatch: pytest.MonkeyPatch, given: ReplaySettings) -> None:
    """Replays the first round, and is killed."""
    whole = commit.commit

    def failing(store: diskstream.Store, manifest: commit.Manifest) -> bool:
        if manifest.version == 1:
            raise StorageError(given.target, "write", 5, "pulled out")
        return whole(store, manifest)

    with monkeypatch.context() as patch, pytest.raises(StorageError, match="pulled out"):
        patch.setattr(job, "commit", failing)
        job.run(no_spark, given)
    STORES.forget()  # as with the process


def entries(letter: str) -> list[tuple[str, dict[str, str]]]:
    return [(f"{ms}-0", {letter: str(ms)}) for ms in range(1, 31)]


def test_another_store_at_the_place_of_one_that_has_no_lease_is_noticed(
    no_spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A backup is read-only: nothing of it is kept for the replay."""
    copies = []
    for name in ("one", "two"):
        fill(tmp_path / name, "s", entries(name))
        copies.append(make_backup(tmp_path / name, tmp_path / f"backups of {name}").path)
    target = tmp_path / "target"
    given = ReplaySettings(str(copies[0]), str(target), max_entries=10, tasks_per_round=1)
    begun(no_spark, monkeypatch, given)
    aside = copies[0].rename(tmp_path / "aside")
    copies[1].rename(copies[0])
    with pytest.raises(ArgumentError, match="is gone, or another one is in its place: replay what is left"):
        job.run(no_spark, given)
    assert stored(target, "s") == stored(tmp_path / "one", "s")[:10]
    shutil.rmtree(copies[0])
    aside.rename(copies[0])
    STORES.forget()
    assert job.run(no_spark, given).rounds_before == 1
    assert stored(target, "s") == stored(tmp_path / "one", "s")


def test_another_archive_at_its_place_is_noticed(
    no_spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its files have the same folders, and rows of the same IDs."""
    for name in ("one", "two"):
        for at in range(3):
            fill(tmp_path / name, "s", entries(name)[10 * at : 10 * at + 10])
            archive.run(no_spark, archive.ArchiveSettings(str(tmp_path / name), str(tmp_path / f"archive of {name}")))
    place, target = tmp_path / "archive of one", tmp_path / "target"
    given = ReplaySettings(str(place), str(target), max_entries=10, tasks_per_round=1)
    begun(no_spark, monkeypatch, given)
    shutil.rmtree(place)
    (tmp_path / "archive of two").rename(place)
    with pytest.raises(ArgumentError, match="is the archive of another store now: replay what is left"):
        job.run(no_spark, given)
    assert stored(target, "s") == stored(tmp_path / "one", "s")[:10]


def test_damage_that_parquet_does_not_notice_is_not_replayed(no_spark: Any, tmp_path: Path) -> None:
    """The rows of a file are held against its digest: other values went into streams as if they had been archived."""
    fill(tmp_path / "store", "s", days(2, 20))
    archive.run(no_spark, archive.ArchiveSettings(str(tmp_path / "store"), str(tmp_path / "archive")))
    flipped(tmp_path / "archive", 1)
    given = ReplaySettings(str(tmp_path / "archive"), str(tmp_path / "target"))
    with pytest.raises(ArchiveError, match="is damaged: its rows are not those that were written"):
        job.run(no_spark, given)
    with diskstream.open(tmp_path / "target") as store:
        assert store.streams() == []
    assert list((tmp_path / "target" / "staging").rglob("*.packed")) == []


def test_a_plan_of_an_earlier_version_is_gone_on_with(
    no_spark: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It said nothing of which streams it was of."""
    fill(tmp_path / "one", "s", entries("n"))
    given = ReplaySettings(str(tmp_path / "one"), str(tmp_path / "target"), max_entries=10, tasks_per_round=1)
    begun(no_spark, monkeypatch, given)
    [plan] = (tmp_path / "target" / "replays").glob("*/plan.json")
    work = json.loads(plan.read_text())["work"]
    assert all(each.pop("identities") for each in work)
    plan.write_text(json.dumps(work))
    assert job.run(no_spark, given).rounds_before == 1
    assert stored(tmp_path / "target", "s") == stored(tmp_path / "one", "s")
