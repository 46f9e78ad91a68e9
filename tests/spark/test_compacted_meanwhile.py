"""Jobs that took longer than the grace time, while the files they were planned with were compacted, and removed."""

from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream.errors import DiskstreamError
from diskstream.spark.jobs import archive, compact, reconcile, replay
from diskstream.spark.jobs.archive import ArchiveSettings
from diskstream.spark.jobs.compact import CompactSettings
from diskstream.spark.jobs.manifest import latest
from diskstream.spark.jobs.place import Place
from diskstream.spark.jobs.reconcile import ReconcileSettings
from diskstream.spark.jobs.replay import ReplaySettings
from tests.spark.archives import days, fill, in_process, no_spark, stored

pytest.importorskip("pyarrow", reason="pip install 'diskstream[archive]'")
pytest.importorskip("pyspark", reason="pip install 'diskstream[spark]'")

__all__ = ["no_spark"]


@pytest.fixture
def compacted_away(no_spark: Any, tmp_path: Path) -> Any:
    """An archive of two files a day; what compacts it and removes them."""
    store, root = tmp_path / "store", tmp_path / "archive"
    for some in days(1, 10)[:5], days(1, 10)[5:]:
        fill(store, "s", some)
        archive.run(no_spark, ArchiveSettings(str(store), str(root)))

    def away() -> None:
        before = {each.path for each in latest(Place(root)).files}
        compact.run(no_spark, CompactSettings(str(root)))
        for path in before:
            (root / path).unlink()

    return away


@pytest.mark.parametrize("late", ["summing up", "comparing"])
def test_a_reconcile_does_not_take_them_for_lost(
    no_spark: Any, tmp_path: Path, compacted_away: Any, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    store = tmp_path / "store"
    settings = ReconcileSettings(str(store), str(tmp_path / "archive"))
    if late == "comparing":  # a day that differs
        with diskstream.open(store) as opened:
            opened.stream("s").delete([entry.id for entry in opened.stream("s").range()][3])

    def slow(spark: Any, what: str, *given: Any, **options: Any) -> Any:
        if what == late:
            compacted_away()
        return in_process(spark, what, *given, **options)

    with monkeypatch.context() as patch:
        patch.setattr(reconcile, "run_tasks", slow)
        with pytest.raises(DiskstreamError, match=r"was compacted since it was planned, .*: run this again"):
            reconcile.run(no_spark, settings)
    found = reconcile.run(no_spark, settings).findings
    assert [(each.kind, each.entries) for each in found] == ([("extra", 1)] if late == "comparing" else [])


def test_a_replay_goes_on_with_the_files_that_there_are(
    no_spark: Any, tmp_path: Path, compacted_away: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ReplaySettings(str(tmp_path / "archive"), str(tmp_path / "target"))

    def slow(*given: Any, **options: Any) -> Any:
        monkeypatch.setattr(replay, "run_tasks", in_process)
        compacted_away()
        return in_process(*given, **options)

    monkeypatch.setattr(replay, "run_tasks", slow)
    with pytest.raises(DiskstreamError, match="run this again"):
        replay.run(no_spark, settings)
    assert replay.run(no_spark, settings).entries == 10
    assert stored(tmp_path / "target", "s") == stored(tmp_path / "store", "s")
