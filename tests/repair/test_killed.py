"""A repair that is killed, or that the power leaves: the next one finishes it, and what is lost was said."""

import json
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import diskstream
from diskstream import Loss, StoreBusyError
from diskstream.engine.alone import alone
from diskstream.engine.files import Files
from diskstream.engine.repair import repair_stream
from tests.crash.disk import Disk
from tests.crash.image import materialise, snapshot
from tests.crash.recorder import RecordingFiles
from tests.repair.damage import NAME, Past, build, check, damage, directory, options

SEED = 13


def noted(stream: Path) -> list[Loss]:
    """What repairs that were interrupted had said before they lost anything."""
    found = []
    for path in (stream / "quarantine").glob("repair-*.json"):
        found += [Loss(**loss) for loss in json.loads(path.read_text(encoding="utf-8"))["losses"]]
    return found


def damaged(path: Path, seed: int) -> Past:
    past = build(path, seed)
    rng = random.Random(seed)
    for _ in range(3):
        damage(directory(path), rng)
    shutil.rmtree(path / "view", ignore_errors=True)
    return past


def finish(path: Path, past: Past, seed: int) -> None:
    report = repair_stream(NAME, directory(path), Files(), options(seed))
    check(path, past, [*report.losses, *noted(directory(path))], "groups", seed)


def test_killed_in_any_call_it_is_finished_by_the_next(tmp_path: Path) -> None:
    past = damaged(tmp_path / "original", SEED)
    died = 0
    for call in [1, 2, 3, 5, 7, 9, 12, 15, 19, 23]:
        path = tmp_path / str(call)
        shutil.copytree(tmp_path / "original", path)
        command = [sys.executable, "-m", "tests.repair.dying", str(path), str(call)]
        done = subprocess.run(command, capture_output=True, check=False)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        died += done.returncode != 0
        finish(path, past, SEED)
    assert died > 5


@pytest.mark.parametrize("seed", range(4, 12))
def test_a_power_cut_leaves_the_old_or_the_new(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    past = damaged(tmp_path / "disk" / "store", seed)
    start = snapshot(tmp_path / "disk")
    files = RecordingFiles(tmp_path / "disk", start)
    repair_stream(NAME, directory(tmp_path / "disk" / "store"), files, options(seed))
    assert files.events
    for _ in range(6):
        disk = Disk(start)
        for event in files.events[: rng.randint(0, len(files.events))]:
            disk.apply(event)
        tree, _ = disk.cut(rng)
        materialise(tree, tmp_path / "left", {})
        finish(tmp_path / "left" / "store", past, seed)


def test_two_repairs_at_once_are_refused_and_so_is_one_beside_a_reader_and_writer(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with diskstream.open(path) as store:
        store.stream("s").add({"a": "b"})
        with pytest.raises(StoreBusyError) as caught:
            list(diskstream.repair(path))
    assert "stop" in caught.value.hint
    with alone(path, Files()), pytest.raises(StoreBusyError):
        list(diskstream.repair(path))
    assert not [action for report in diskstream.repair(path) for action in report.actions]


def test_who_is_in_the_way_is_named(tmp_path: Path) -> None:
    path = tmp_path / "store"
    program = f"import diskstream\nstore = diskstream.open({str(path)!r})\nprint('open', flush=True)\ninput()"
    other = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(StoreBusyError, match=str(other.pid)):
            list(diskstream.repair(path))
        assert [report.failed for report in diskstream.repair(path, dry_run=True)] == []
    finally:
        other.communicate("\n")
