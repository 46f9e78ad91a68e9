"""What archives and replays remember of how far they have come is verified too: it is believed when they go on."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import diskstream
from diskstream import VerifyReport
from diskstream.checkpoints import Checkpoints
from diskstream.replaying import Job, ToStream, run_job

Verify = Callable[[Path], VerifyReport]


def inside(path: Path) -> VerifyReport:
    with diskstream.open(path) as store:
        return store.verify()


def outside(path: Path) -> VerifyReport:
    return diskstream.verify(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with a checkpoint, and with a replay from one stream to another."""
    with diskstream.open(tmp_path / "store") as store:
        store.stream("x").add({"n": 1}, id="1-0")
        Checkpoints(store).write(b"x", {"format": 1, "position": "17-0"})
    run_job(Job(tmp_path / "store", b"x", ToStream(tmp_path / "store", b"y"), speed=None))
    return tmp_path / "store"


def digit_changed(path: Path) -> None:
    content = path.read_text(encoding="utf-8")
    path.write_text(content.replace("17-0", "18-0").replace("1-0", "2-0"), encoding="utf-8")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def giant(path: Path) -> None:
    os.truncate(path, 1 << 40)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("verify", [inside, outside])
@pytest.mark.parametrize("damage", [digit_changed, pipe, giant, emptied])
@pytest.mark.parametrize(("pattern", "meaning"), [("archives/*.json", "archive"), ("replays/*/*.json", "replay")])
def test_a_file_that_is_not_what_was_written_is_a_fault(
    path: Path, verify: Verify, damage: Callable[[Path], None], pattern: str, meaning: str
) -> None:
    (file,) = path.glob(pattern)
    assert verify(path).ok
    damage(file)
    (problem,) = verify(path).problems
    assert problem.path == file
    assert meaning in problem.meaning


@pytest.mark.parametrize("verify", [inside, outside])
def test_one_that_is_gone_is_none(path: Path, verify: Verify) -> None:
    for file in (*path.glob("archives/*.json"), *path.glob("replays/*/*.json")):
        file.unlink()
    assert verify(path).ok


def test_the_stores_of_a_server_below_it_are_looked_at_too(path: Path) -> None:
    with diskstream.open(path / "db1") as store:
        store.stream("x").add({"n": 1})
        Checkpoints(store).write(b"x", {"format": 1, "position": "17-0"})
    (file,) = (path / "db1").glob("archives/*.json")
    assert diskstream.verify(path).ok
    digit_changed(file)
    assert [problem.path for problem in diskstream.verify(path).problems] == [file]
