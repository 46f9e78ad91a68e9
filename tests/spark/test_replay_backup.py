"""A replay of a backup: it never changes, whatever the folder is called that it lies in."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from diskstream.backups import make_backup
from diskstream.errors import ArgumentError
from diskstream.spark.jobs import replay as job
from diskstream.spark.jobs.replay import ReplaySettings
from tests.spark.archives import days, fill, no_spark, stored

__all__ = ["no_spark"]


@pytest.mark.parametrize("refused", [False, True])
def test_a_backup_in_a_folder_called_leases_outlives_its_replay(
    no_spark: Any, tmp_path: Path, *, refused: bool
) -> None:
    """As one of an application of that name: it was taken for the replay's own lease, and removed."""
    fill(tmp_path / "store", "s", days(1, 20))
    backup = make_backup(tmp_path / "store", tmp_path / "leases").path
    settings = ReplaySettings(str(backup), str(tmp_path / "target"))
    if refused:
        fill(tmp_path / "target", "s", days(1, 1, 9))
        with pytest.raises(ArgumentError, match="must be above the last"):
            job.run(no_spark, settings)
    else:
        assert job.run(no_spark, settings).entries == 20
    assert stored(backup, "s") == stored(tmp_path / "store", "s")
