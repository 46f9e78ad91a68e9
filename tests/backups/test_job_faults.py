"""What is damaged of how far jobs have come is in a backup as it is, is told, and is in the way of no restore."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import diskstream
from diskstream.backups import BackupError, Finding, Seen, Wanted, check_backup, find_backup, make_backup, restore
from diskstream.checked_json import with_check
from diskstream.cli import main
from tests.backups.world import flip_in_place

CHECKPOINT = f"archives/{'cd' * 32}.json"
WRITER = "commits/" + "ab" * 32
MANIFEST = f"{WRITER}/{7:020d}.json"
STAGED = "staging/job/a.arrow"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with a checkpoint of an archive, and with a writer that has decided a version of one staged file."""
    path = tmp_path / "store"
    with diskstream.open(path) as opened:
        opened.stream("x").add({"n": 1}, "1-0")
    files = [{"path": STAGED, "partition": 0, "batches": []}]
    for place, facts in (
        (CHECKPOINT, {"format": 1, "key": "x"}),
        (f"{WRITER}/done.json", {"writer": "w", "version": 6}),
        (MANIFEST, {"writer": "w", "version": 7, "given": False, "files": files}),
    ):
        (path / place).parent.mkdir(parents=True, exist_ok=True)
        (path / place).write_text(json.dumps(with_check(facts)))
    (path / STAGED).parent.mkdir(parents=True)
    (path / STAGED).write_bytes(b"a" * 100)
    assert diskstream.verify(path).ok
    return path


def entries(path: Path) -> int:
    with diskstream.open(path, read_only=True, create=False) as opened:
        return len(opened.stream("x"))


def test_a_backup_with_a_damaged_checkpoint_is_restored(store: Path, tmp_path: Path) -> None:
    """It was made without a word, and then no option restored the whole of it: nor any that was made after it."""
    flip_in_place(store / CHECKPOINT, 20)
    made = make_backup(store, tmp_path / "backups")
    assert [problem.path for problem in made.job_faults] == [store / CHECKPOINT]
    assert (made.damaged, made.header.damaged) == ([], 0)
    backup = find_backup(tmp_path / "backups")
    (finding,) = check_backup(backup, Seen())
    assert isinstance(finding, Finding)
    assert (finding.path, finding.known) == ("archives", True)
    restored = restore(backup, tmp_path / "again")
    assert list(restored.job_faults) == [CHECKPOINT]
    assert (restored.faults, restored.entries, entries(tmp_path / "again")) == ({}, 1, 1)
    assert (tmp_path / "again" / CHECKPOINT).read_bytes() == (store / CHECKPOINT).read_bytes()


def test_the_command_says_so(store: Path, tmp_path: Path) -> None:
    (store / CHECKPOINT).write_text("{")
    runner, backups = CliRunner(), str(tmp_path / "backups")
    made = runner.invoke(main, ["backup", "create", backups, "--dir", str(store)])
    assert made.exit_code == 1
    assert f"error: {store / CHECKPOINT}: it cannot be read" in made.stderr
    assert "hint: the streams are whole, but the archive does not go on" in made.stderr
    as_json = runner.invoke(main, ["backup", "create", backups, "--dir", str(store), "--json"])
    assert (as_json.exit_code, json.loads(as_json.stdout)["job_faults"]) == (1, 1)
    some = runner.invoke(main, ["backup", "create", backups, "--dir", str(store), "--stream", "x"])
    assert (some.exit_code, some.stderr) == (0, "")  # nothing of jobs is in it
    again = runner.invoke(main, ["restore", backups, "--to", str(tmp_path / "again"), "--json"])
    assert (again.exit_code, list(json.loads(again.stdout)["job_faults"])) == (0, [CHECKPOINT])
    assert f"{CHECKPOINT} is damaged: it cannot be read" in again.stderr


@pytest.mark.parametrize("place", [CHECKPOINT, f"{WRITER}/done.json", MANIFEST])
def test_rot_of_it_in_the_backup_is_taken_by_damaged(store: Path, tmp_path: Path, place: str) -> None:
    """Rows that are whole were out of reach for a note of how far a job has come."""
    make_backup(store, tmp_path / "backups")
    backup = find_backup(tmp_path / "backups")
    flip_in_place(backup.path / place, 20)
    with pytest.raises(BackupError, match="SHA-256") as refused:
        restore(backup, tmp_path / "again")
    assert "--damaged" in str(refused.value.hint)
    restored = restore(backup, tmp_path / "again", Wanted(damaged=True))
    assert "SHA-256" in restored.job_faults[place]
    assert restored.faults == {}
    assert entries(tmp_path / "again") == 1
    assert (tmp_path / "again" / place).read_bytes() == (backup.path / place).read_bytes()


def test_staged_rows_that_rotted_are_left_out(store: Path, tmp_path: Path) -> None:
    """They have no checksum of their own: the next commit would append what nobody wrote."""
    make_backup(store, tmp_path / "backups")
    backup = find_backup(tmp_path / "backups")
    flip_in_place(backup.path / STAGED, 20)
    with pytest.raises(BackupError, match="SHA-256"):
        restore(backup, tmp_path / "again")
    restored = restore(backup, tmp_path / "again", Wanted(damaged=True))
    assert STAGED in restored.job_faults
    assert not (tmp_path / "again" / STAGED).exists()
    assert (tmp_path / "again" / MANIFEST).exists()


def test_what_is_missing_of_it_is_taken_by_damaged(store: Path, tmp_path: Path) -> None:
    make_backup(store, tmp_path / "backups")
    backup = find_backup(tmp_path / "backups")
    (backup.path / CHECKPOINT).unlink()
    with pytest.raises(BackupError, match="it is missing"):
        restore(backup, tmp_path / "again")
    restored = restore(backup, tmp_path / "again", Wanted(damaged=True))
    assert restored.job_faults == {CHECKPOINT: "it is missing"}
    assert entries(tmp_path / "again") == 1


def test_a_version_without_end_is_a_fault_of_its_manifest(store: Path) -> None:
    """`verify` ended in an OverflowError, with nothing said of the streams."""
    (store / MANIFEST).write_text(json.dumps({"writer": "w", "version": float("inf"), "files": []}))
    (problem,) = diskstream.verify(store).problems
    assert problem.path == store / MANIFEST
    assert "it cannot be read" in problem.what
