"""Jobs over many streams: what the driver does with their files it does file by file, not for each stream anew."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="pip install 'diskstream[archive]'")
pytest.importorskip("pyspark", reason="pip install 'diskstream[spark]'")

from diskstream.ids import EntryID
from diskstream.spark.jobs import archive, reconcile, replay
from diskstream.spark.jobs.archive import ArchiveSettings
from diskstream.spark.jobs.archive_plan import ArchivePlan
from diskstream.spark.jobs.digest import Digest
from diskstream.spark.jobs.garbage import Garbage
from diskstream.spark.jobs.manifest import ArchivedFile, Manifest, Reach, Shape
from diskstream.spark.jobs.reconcile import ReconcileSettings
from diskstream.spark.jobs.replaced_sources import FilesNow, as_they_are
from diskstream.spark.jobs.replay import Work

NAMES = [b"s%d" % number for number in range(20)]
SETTINGS = ReconcileSettings("store", "archive")


class Counted(tuple[ArchivedFile, ...]):  # noqa: SLOT001  # it has none of its own
    """Files that count how many of them were looked at."""

    looks = 0

    def __iter__(self) -> Iterator[ArchivedFile]:
        for each in super().__iter__():
            Counted.looks += 1
            yield each


@pytest.fixture
def files() -> Counted:
    """Two days of each stream."""
    Counted.looks = 0
    return Counted(file_of(name, day) for name in NAMES for day in range(2))


def file_of(name: bytes, day: int) -> ArchivedFile:
    ms = day * 86_400_000
    path = f"stream={name.decode()}/date={day}/part-{ms}-0-{ms + 9}-0-{'0' * 32}.parquet"
    return ArchivedFile(path, name, EntryID(ms, 0), EntryID(ms + 9, 0), 1000, Digest(10), 0, "store")


def test_an_archive_sums_up_what_it_did_in_two_looks(files: Counted) -> None:
    plan = ArchivePlan(Manifest(), Shape(), "", (), {name: Reach(EntryID(0, 0), EntryID(9, 0)) for name in NAMES})
    told: dict[str, Any] = {"planned": {}, "files": files, "version": 1, "garbage": Garbage(), "began": 0.0}
    summary = archive._summary(ArchiveSettings("store", "archive"), plan, NAMES, **told)
    assert Counted.looks <= 2 * len(files)
    assert [(each.entries, each.files, each.size_bytes) for each in summary.streams] == [(20, 2, 2000)] * len(NAMES)


def sums_of(day: int) -> dict[tuple[bytes, int], Digest]:
    return {(name, day): Digest(10) for name in NAMES}


def test_a_comparison_is_told_in_two_looks(files: Counted) -> None:
    both = {name: Reach(EntryID(86_400_000, 0), EntryID(86_400_009, 0)) for name in NAMES[1:]}
    sums = sums_of(1), {**sums_of(1), (NAMES[3], 2): Digest(5)}
    told = reconcile._all_compared(SETTINGS, Manifest(1, files=files), NAMES, (both, {NAMES[0]: "why"}), sums)
    assert Counted.looks <= 2 * len(files)
    assert [each.archive_only for each in told] == [20] + [10] * (len(NAMES) - 1)
    assert (told[3].stored, told[3].archived, told[3].days) == (10, 15, 2)
    assert (told[0].note, told[0].first, told[1].first) == ("why", None, EntryID(86_400_000, 0))


def test_days_that_differ_find_their_files_in_one_look(files: Counted) -> None:
    both = {name: Reach(EntryID(0, 0), EntryID(86_400_009, 0)) for name in NAMES}
    tasks = reconcile._differing(SETTINGS, Manifest(1, files=files), "lease", both, (sums_of(1), {}))
    assert Counted.looks == len(files)
    assert [[each.stream for each in task.files] for task in tasks] == [[name] for name in sorted(NAMES)]


def test_a_replay_finds_compacted_files_in_their_folders(files: Counted) -> None:
    there = FilesNow(files)
    gone = [("x", each.path.replace("0" * 32, "f" * 32), "0-0", "99999999999-0") for each in files]
    Counted.looks = 0
    found = as_they_are(gone, there)
    assert [path for _, path, *_ in found] == [each.path for each in files]
    assert Counted.looks == len(files)  # the test's own


def test_a_replay_reads_the_manifest_of_its_archive_once(
    files: Counted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def latest(place: Any) -> Manifest:
        read.append(place.root)
        return Manifest(1, "its store", files=files)

    monkeypatch.setattr(replay, "latest", latest)
    work = Work(str(tmp_path), True, (), 10, ("its store",))
    works = [replace(work, parts=(("x", each.path, "0-0", "1-0"),)) for each in files]
    Counted.looks = 0
    found = replay._present(works)
    assert read == [str(tmp_path)]
    assert Counted.looks == len(files)
    assert [there for _, there in found] == [(each,) for each in files]
