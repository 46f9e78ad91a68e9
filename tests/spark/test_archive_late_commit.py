"""Jobs that take long: others may have made, replaced and removed versions meanwhile, or take them for dead."""

import errno
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from diskstream.errors import ArchiveChangedError, StorageError
from diskstream.spark.jobs import archive, compact, garbage
from diskstream.spark.jobs.archive import ArchiveSettings
from diskstream.spark.jobs.compact import CompactSettings
from diskstream.spark.jobs.manifest import latest, versions
from diskstream.spark.jobs.place import Place
from tests.spark.archives import days, fill, in_process, kept, no_spark, parts, stored

pytest.importorskip("pyarrow", reason="pip install 'diskstream[archive]'")
pytest.importorskip("pyspark", reason="pip install 'diskstream[spark]'")

__all__ = ["no_spark"]

_GRACE_S = 3600.0


def grow_old(root: Path) -> None:
    """As if all versions had been made before the grace time."""
    for each in (root / "_manifest").iterdir():
        os.utime(each, (time.time() - _GRACE_S - 1,) * 2)


@pytest.mark.parametrize("job", ["archive", "compact"])
def test_a_job_that_others_overtook_by_versions_that_are_gone_does_not_commit(
    no_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    store, root = tmp_path / "store", tmp_path / "archive"

    def archived(*streams: bytes) -> None:
        archive.run(no_spark, ArchiveSettings(str(store), str(root), streams=streams))

    for some in days(1, 10)[:5], days(1, 10)[5:]:
        fill(store, "slow", some)
        fill(store, "quick", some)
        archived(b"slow", b"quick")
    fill(store, "slow", days(1, 5, 1))
    before = latest(Place(root)).version

    def slowly(*given: Any, **options: Any) -> Any:
        done = in_process(*given, **options)
        monkeypatch.setattr(archive, "run_tasks", in_process)
        for day in range(1, 4):
            fill(store, "quick", days(1, 3, day))
            grow_old(root)
            archived(b"quick")
        return done

    monkeypatch.setattr({"archive": archive, "compact": compact}[job], "run_tasks", slowly)
    with pytest.raises(ArchiveChangedError, match=f"version {before + 3} of the archive"):
        if job == "archive":
            archived(b"slow")
        else:
            compact.run(no_spark, CompactSettings(str(root)))
    assert before + 1 not in versions(Place(root))
    assert sorted(parts(root)) == sorted(each.path for each in latest(Place(root)).files)
    archived(b"slow")
    assert kept(root, "slow") == stored(store, "slow")
    assert kept(root, "quick") == stored(store, "quick")


def test_a_job_whose_mark_could_not_be_touched_once_is_not_taken_for_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the archive's disk is on a network, which was gone for a moment."""
    tries: list[str] = []
    touched, touch = threading.Event(), Place.touch

    def shaky(place: Place, path: str) -> None:
        tries.append(path)
        if len(tries) == 1:
            raise StorageError(path, "touch", errno.ESTALE, "stale file handle")
        touch(place, path)
        touched.set()

    monkeypatch.setattr(Place, "touch", shaky)
    monkeypatch.setattr(garbage, "_BEAT_S", 0.01)
    with garbage.running(Place(tmp_path / "archive")) as marker:
        assert touched.wait(30)
        marker.check()
