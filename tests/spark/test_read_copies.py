"""What is no store under `path`: a backup is read as one; a place of backups and the rest are refused.

So is an archive, but for a batch read of entries by Spark: see `test_read_archive`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import diskstream
from diskstream import NotAStoreError, ReadOnlyError
from diskstream.backups import make_backup
from tests.spark.archives import days, fill, no_spark, stored
from tests.spark.staged_rows import LONG, options, schema

pytest.importorskip("pyspark")

from diskstream.spark.jobs import archive
from diskstream.spark.jobs.archive import ArchiveSettings
from diskstream.spark.options import ReadOptions
from diskstream.spark.planning import plan_entries
from diskstream.spark.source import DiskstreamSource
from diskstream.spark.writers import EntriesWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["no_spark"]


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """A backup of a store that went on: 20 entries of what are 30 now, in sealed segments and the active one."""
    fill(tmp_path / "store", "s", days(1, 10))
    with diskstream.open(tmp_path / "store") as store:
        store.seal()
    fill(tmp_path / "store", "s", days(1, 10, first=1))
    made = make_backup(tmp_path / "store", tmp_path / "backups")
    fill(tmp_path / "store", "s", days(1, 10, first=2))
    return made.path


def files(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_size for path in folder.rglob("*")}


def test_a_backup_is_read_as_a_store_and_stays_as_it_is(spark: "SparkSession", backup: Path) -> None:
    from diskstream.spark import register

    register(spark)
    before = files(backup)
    frame = spark.read.format("diskstream").schema("id string, n int").option("minPartitions", 3).load(str(backup))
    found = [(row.id, row.n) for row in frame.collect()]
    assert found == [(entry_id, int(dict(pairs)[b"n"])) for entry_id, pairs in stored(backup, "s")]
    assert len(found) == 20
    assert spark.read.format("diskstream").option("table", "groups").load(str(backup)).count() == 0
    assert files(backup) == before


def test_a_backup_is_not_written_to(backup: Path) -> None:
    before = files(backup)
    with pytest.raises(ReadOnlyError, match="it is a backup, which never changes"):
        EntriesWriter(options(path=str(backup), stream="s"), schema(n=LONG), overwrite=False)
    assert files(backup) == before


def test_a_backup_may_be_archived_and_the_store_goes_on_from_there(no_spark: Any, backup: Path, tmp_path: Path) -> None:
    """It is of the same store."""
    root = str(tmp_path / "archive")
    assert archive.run(no_spark, ArchiveSettings(str(backup), root)).entries == 20
    assert archive.run(no_spark, ArchiveSettings(str(tmp_path / "store"), root)).entries == 10


def read(path: Path) -> None:
    plan_entries(ReadOptions(path=str(path)))


def streamed(path: Path) -> None:
    source = DiskstreamSource({"path": str(path)})
    source.streamReader(source.schema()).initialOffset()


def tables(path: Path) -> None:
    source = DiskstreamSource({"path": str(path), "table": "pending"})
    source.reader(source.schema()).partitions()


@pytest.mark.parametrize("how", [read, streamed, tables], ids=lambda how: how.__name__)
def test_what_is_no_store_is_told_with_what_it_is(no_spark: Any, backup: Path, tmp_path: Path, how: Any) -> None:
    archive.run(no_spark, ArchiveSettings(str(tmp_path / "store"), str(tmp_path / "archive")))
    (tmp_path / "file").write_text("text")
    (tmp_path / "empty").mkdir()
    for name, says in {
        "backups": f"it is a place of backups: name one of them.*diskstream backup ls {tmp_path}/backups",
        "archive": f"it is an archive, of which .* in batches; 'diskstream spark replay --from {tmp_path}/archive",
        "file": "there is no store.json in it",
        "empty": "there is no store.json in it",
        "none": "there is no such directory on the driver",
    }.items():
        with pytest.raises(NotAStoreError, match=says):
            how(tmp_path / name)
    assert list((tmp_path / "empty").iterdir()) == []
