"""The job `reconcile` where segments of the store are in cold storage, and their objects gone from there."""

from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream.cold import move_out
from diskstream.errors import DiskstreamError, RemoteError
from diskstream.spark.jobs import archive
from diskstream.spark.jobs.archive import ArchiveSettings
from diskstream.spark.jobs.reconcile import ReconcileSettings, run
from tests.cold.world import ENTRIES, SMALL, filled
from tests.spark.archives import no_spark

pytest.importorskip("pyarrow", reason="pip install 'diskstream[archive]'")
pytest.importorskip("pyspark", reason="pip install 'diskstream[spark]'")

__all__ = ["no_spark"]


@pytest.fixture
def first_cold_segments_gone(no_spark: Any, tmp_path: Path) -> str:
    """The last ID of those segments of an archived stream whose objects are not in cold storage any more."""
    with diskstream.open(tmp_path / "store", **SMALL) as store:
        stream = filled(store)
        archive.run(no_spark, ArchiveSettings(str(tmp_path / "store"), str(tmp_path / "archive")))
        moved = move_out(stream, f"file://{tmp_path}/place", keep_entries=ENTRIES // 2)
        last = moved.segments[1].last
    for number in (each.number for each in moved.segments[:2]):
        (found,) = (tmp_path / "place").rglob(f"{number:08d}.*.seg")
        found.unlink()
    return str(last)


def test_what_is_behind_a_lost_segment_is_compared(
    no_spark: Any, tmp_path: Path, first_cold_segments_gone: str
) -> None:
    settings = ReconcileSettings(str(tmp_path / "store"), str(tmp_path / "archive"))
    for refused in (no_spark, None):
        with pytest.raises(RemoteError, match="is not there any more"):
            run(refused, settings)
    gone = int(first_cold_segments_gone.partition("-")[0])
    summary = run(no_spark, ReconcileSettings(settings.store, settings.archive, start=f"{gone + 1}-0"))
    assert summary.ok
    (compared,) = summary.streams
    assert str(compared.first) == f"{gone + 1}-0"
    assert compared.stored == compared.archived == ENTRIES - gone
    with pytest.raises(DiskstreamError, match="is not there any more"):
        run(no_spark, ReconcileSettings(settings.store, settings.archive, start=first_cold_segments_gone))
