"""A disk that is full while a job writes: it says so in a line, leaves nothing half made, and does it all next time.

Rows on their way into a store are in `test_write_units`.
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyarrow as pa
from click.testing import CliRunner

import diskstream
from diskstream import DiskFullError
from diskstream.cli import main
from diskstream.cli.spark import archive as archive_verb
from diskstream.spark.jobs import archive, compact, landing, replay, rollup, rollup_stream
from diskstream.spark.jobs.archive import ArchiveSettings
from diskstream.spark.jobs.compact import CompactSettings
from diskstream.spark.jobs.manifest import latest
from diskstream.spark.jobs.place import Place
from diskstream.spark.jobs.replay import ReplaySettings
from tests.engine.mounts import small_disk
from tests.spark.archives import BASE, NO_SPARK, fill, in_process, kept, parts

STREAMS = "abcd"


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for job in (archive, compact, replay, rollup):
        monkeypatch.setattr(job, "run_tasks", in_process)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with 12 MiB."""
    with small_disk(tmp_path / "disk", "12m") as at:
        yield at


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Four streams of half a MiB each, which no codec makes small."""
    chance = random.Random(1)
    for stream in STREAMS:
        fill(tmp_path / "store", stream, [(f"{BASE}-{n}", {"v": chance.randbytes(20_000)}) for n in range(25)])
    return tmp_path / "store"


class Filler:
    """A file that leaves so much room on a disk, and no more."""

    def __init__(self, disk: Path, room_bytes: int) -> None:
        at = os.statvfs(disk)
        self.path = disk / "filler"
        self.path.write_bytes(b"\xff" * (at.f_bavail * at.f_frsize - room_bytes))

    def go(self) -> None:
        self.path.unlink()


def contents(path: Path) -> dict[bytes, list[Any]]:
    with diskstream.open(path, read_only=True) as store:
        return {name: list(store.stream(name)) for name in store.streams()}


def test_an_archive_on_a_full_disk_has_nothing_and_then_all(disk: Path, store: Path) -> None:
    root = disk / "archive"
    filler = Filler(disk, 1 << 20)
    with pytest.raises(DiskFullError, match=r"could not write .*archive/stream=\w/.*No space left.*free some space"):
        archive.run(NO_SPARK, ArchiveSettings(str(store), str(root)))
    assert Place(root).list() == []
    assert list((store / "leases").iterdir()) == []
    filler.go()
    archive.run(NO_SPARK, ArchiveSettings(str(store), str(root)))
    assert sum(len(kept(root, stream)) for stream in STREAMS) == 100


def test_the_command_says_it_in_one_line(disk: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_verb, "started", lambda *_: NO_SPARK)
    Filler(disk, 1 << 20)
    result = CliRunner().invoke(main, ["spark", "archive", "-d", str(store), "-a", str(disk / "archive")])
    assert (result.exit_code, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: could not write ")
    assert line.endswith(": free some space and try again")


def test_compacting_on_a_full_disk_leaves_the_archive_as_it_was(disk: Path, store: Path) -> None:
    root = disk / "archive"
    archive.run(NO_SPARK, ArchiveSettings(str(store), str(root)))
    for stream in STREAMS:
        fill(store, stream, [(f"{BASE}-{n}", {"v": b"more"}) for n in range(25, 30)])
    archive.run(NO_SPARK, ArchiveSettings(str(store), str(root)))
    before, was = parts(root), latest(Place(root))
    filler = Filler(disk, 1 << 20)
    with pytest.raises(DiskFullError, match="could not write"):
        compact.run(NO_SPARK, CompactSettings(str(root)))
    assert (parts(root), latest(Place(root))) == (before, was)
    filler.go()
    assert compact.run(NO_SPARK, CompactSettings(str(root))).merged == 8
    assert sum(len(kept(root, stream)) for stream in STREAMS) == 120


@pytest.mark.parametrize("room_bytes", [1 << 20, 3 << 20], ids=["for half of what is staged", "for half of the log"])
def test_a_replay_on_a_full_disk_goes_on_where_it_stopped(disk: Path, store: Path, room_bytes: int) -> None:
    target = disk / "target"
    filler = Filler(disk, room_bytes)
    with pytest.raises(DiskFullError, match="free some space"):
        replay.run(NO_SPARK, ReplaySettings(str(store), str(target), max_entries=25))
    filler.go()
    replay.run(NO_SPARK, ReplaySettings(str(store), str(target), max_entries=25))
    assert contents(target) == contents(store)
    assert list(target.glob("staging/*/*")) == []


def test_a_replay_that_cannot_keep_its_plan_keeps_no_lease(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is for seven days."""

    def full(_: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(landing, "flush_folder", full)
    with pytest.raises(DiskFullError, match=r"could not write .*plan\.json"):
        replay.run(NO_SPARK, ReplaySettings(str(store), str(tmp_path / "target")))
    assert list((store / "leases").iterdir()) == []


def test_a_rollup_on_a_full_disk_leaves_the_file_that_was_there(disk: Path, store: Path) -> None:
    output = disk / "windows.parquet"
    output.write_bytes(b"of yesterday")
    Filler(disk, 0)
    settings = rollup.Settings(str(store), tuple(name.encode() for name in STREAMS), fields=("v",), output=output)
    with pytest.raises(DiskFullError, match=r"could not write .*/windows\.parquet: No space left"):
        rollup.run(NO_SPARK, settings)
    assert output.read_bytes() == b"of yesterday"
    assert sorted(path.name for path in disk.iterdir()) == ["filler", "windows.parquet"]


def test_windows_that_do_not_fit_come_with_the_batch_that_comes_again(disk: Path) -> None:
    at = pa.array([BASE * 1000], pa.timestamp("us", "UTC"))
    batch: Any = SimpleNamespace(toArrow=lambda: pa.table({"window_start": at, "window_end": at}))
    output = disk / "output"
    output.mkdir()
    (output / "_query").write_text("q")
    filler = Filler(disk, 0)
    with pytest.raises(DiskFullError):
        rollup_stream.write_batch(batch, 0, output, query="q")
    assert [path.name for path in output.iterdir()] == ["_query"]
    filler.go()
    assert rollup_stream.write_batch(batch, 0, output, query="q")
