"""What archives, replays and writers remember of how far they have come is verified too: they believe it and go on."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import diskstream
from diskstream import VerifyReport
from diskstream.checked_json import with_check
from diskstream.checkpoints import Checkpoints
from diskstream.cli import main
from diskstream.replaying import Job, ToStream, run_job

Verify = Callable[[Path], VerifyReport]
WRITER = "commits/" + "ab" * 32
STAGED = "staging/job/a.arrow"


def inside(path: Path) -> VerifyReport:
    with diskstream.open(path) as store:
        return store.verify()


def outside(path: Path) -> VerifyReport:
    return diskstream.verify(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with a checkpoint, a replay from one stream to another, and a writer that has decided its version 7."""
    with diskstream.open(tmp_path / "store") as store:
        store.stream("x").add({"n": 1}, id="1-0")
        Checkpoints(store).write(b"x", {"format": 1, "position": "17-0"})
    run_job(Job(tmp_path / "store", b"x", ToStream(tmp_path / "store", b"y"), speed=None))
    (tmp_path / "store" / STAGED).parent.mkdir(parents=True)
    (tmp_path / "store" / STAGED).write_bytes(b"rows")
    decided(tmp_path / "store", 7)
    completed(tmp_path / "store", 6)
    return tmp_path / "store"


def noted(path: Path, facts: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(with_check({"writer": "w of 17-0", **facts})))


def decided(path: Path, version: int, *, listed: str = STAGED) -> None:
    files = [{"path": listed, "partition": 0, "batches": []}]
    noted(path / WRITER / f"{version:020d}.json", {"version": version, "given": False, "files": files})


def completed(path: Path, version: int) -> None:
    noted(path / WRITER / "done.json", {"version": version})


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
@pytest.mark.parametrize(
    ("pattern", "meaning"),
    [
        ("archives/*.json", "archive"),
        ("replays/*/*.json", "replay"),
        ("commits/*/done.json", "writer"),
        ("commits/*/0*.json", "writer"),
    ],
)
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
    for area in ("archives", "replays", "commits"):
        for file in path.glob(f"{area}/**/*.json"):
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


@pytest.mark.parametrize("verify", [inside, outside])
def test_a_plan_of_many_tasks_is_none(path: Path, verify: Verify) -> None:
    """With a mebibyte and more, of some thousands, it was called damaged while the replay went by it."""
    work = [{"path": f"entries-{task:032x}.parquet", "archive": "/archive", "parts": [task]} for task in range(20_000)]
    noted(path / "replays" / ("cd" * 32) / "plan.json", {"words": {}, "tasks_per_round": 64, "work": work})
    assert verify(path).ok


@pytest.mark.parametrize(("name", "content"), [("plan.json", b'[{"path": "a"}]'), ("complete", b"")])
def test_what_earlier_versions_kept_of_a_replay_is_none(path: Path, name: str, content: bytes) -> None:
    folder = path / "replays" / ("cd" * 32)
    folder.mkdir()
    (folder / name).write_bytes(content)
    assert outside(path).ok
    (folder / name).write_bytes(content + b"{")
    assert [problem.path for problem in outside(path).problems] == [folder / name]


def test_an_empty_plan_is_a_fault(path: Path) -> None:
    (path / "replays" / ("cd" * 32)).mkdir()
    (path / "replays" / ("cd" * 32) / "plan.json").touch()
    assert len(outside(path).problems) == 1


@pytest.mark.parametrize("verify", [inside, outside])
def test_decided_rows_that_are_gone_are_missed(path: Path, verify: Verify) -> None:
    """Nobody appends them any more, nor what their writer writes next: and the store was called sound."""
    (path / STAGED).unlink()
    (problem,) = verify(path).problems
    assert problem.path == path / WRITER / f"{7:020d}.json"
    assert STAGED in problem.what
    completed(path, 7)  # they are in their streams: who had appended them was killed before the manifest was gone
    assert verify(path).ok


@pytest.mark.parametrize("facts", [{"version": "x"}, {"files": [1]}, {"files": None}])
def test_a_manifest_without_a_checksum_that_makes_no_sense_is_a_fault(path: Path, facts: dict[str, Any]) -> None:
    file = path / WRITER / f"{7:020d}.json"
    file.write_text(json.dumps({"writer": "w", "version": 7, "files": [], **facts}))
    assert [problem.path for problem in outside(path).problems] == [file]


@pytest.mark.parametrize("pattern", ["archives/*.json", "replays/*/*.json", "commits/*/done.json"])
def test_no_repair_is_named_for_them(path: Path, pattern: str) -> None:
    """It leaves them alone."""
    (file,) = path.glob(pattern)
    file.write_bytes(b"")
    result = CliRunner().invoke(main, ["verify", "--dir", str(path)])
    assert (result.exit_code, result.stderr) == (1, "")
