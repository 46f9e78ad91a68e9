"""A replay with original IDs into streams that have entries already: all of it goes in, or nothing."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import diskstream
from diskstream.errors import ArgumentError
from diskstream.spark.jobs import archive
from diskstream.spark.jobs import replay as job
from diskstream.spark.jobs.replay import ReplaySettings
from tests.spark.archives import fill, no_spark, stored

__all__ = ["no_spark"]


def entries(first: int, last: int) -> list[tuple[str, dict[str, str]]]:
    return [(f"{ms}-0", {"n": str(ms)}) for ms in range(first, last + 1)]


@pytest.fixture(params=["store", "archive"])
def given(request: pytest.FixtureRequest, no_spark: Any, tmp_path: Path) -> ReplaySettings:
    """Of streams a and b, 100 entries each, of a store or its archive, in rounds of a task each."""
    for name in ("a", "b"):
        fill(tmp_path / "store", name, entries(1, 100))
    archive.run(no_spark, archive.ArchiveSettings(str(tmp_path / "store"), str(tmp_path / "archive")))
    source, target = str(tmp_path / request.param), str(tmp_path / "target")
    return ReplaySettings(source, target, max_entries=30, tasks_per_round=1, quiet=True)


def test_a_stream_that_has_passed_them_is_refused_before_any_round(
    no_spark: Any, given: ReplaySettings, tmp_path: Path
) -> None:
    """Those of `a` were in, in earlier rounds, when it was said that nothing was added."""
    target = tmp_path / "target"
    fill(target, "b", entries(1, 50))
    for spark in (None, no_spark, no_spark):
        with pytest.raises(ArgumentError, match=f"stream b of {target} ends at 50-0, and the replay begins at 1-0"):
            job.run(spark, given)
    assert (stored(target, "a"), len(stored(target, "b"))) == ([], 50)
    assert not list(target.glob("replays/*"))
    assert not list((tmp_path / "store").glob("leases/*"))
    with diskstream.open(target) as store:
        store.delete("b")
    assert job.run(no_spark, given).entries == 200


def test_it_follows_what_is_there_where_its_first_entries_are_gone(no_spark: Any, tmp_path: Path) -> None:
    """What a segment had once begins before that."""
    fill(tmp_path / "store", "b", entries(1, 100))
    fill(tmp_path / "target", "b", entries(1, 50))
    with diskstream.open(tmp_path / "store") as store:
        store.stream("b").delete(*(f"{ms}-0" for ms in range(1, 51)))
    given = ReplaySettings(str(tmp_path / "store"), str(tmp_path / "target"))
    assert job.run(no_spark, given).entries == 50
    assert [entry_id for entry_id, _ in stored(tmp_path / "target", "b")] == [f"{ms}-0" for ms in range(1, 101)]


def test_a_start_behind_what_is_there_is_no_hindrance(no_spark: Any, given: ReplaySettings, tmp_path: Path) -> None:
    fill(tmp_path / "target", "b", entries(1, 50))
    behind = ReplaySettings(given.source, given.target, (b"b",), start="51")
    assert job.run(no_spark, behind).entries == 50
    assert job.run(None, behind).complete_before
