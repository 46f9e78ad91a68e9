"""What jobs have decided and not carried out yet is in a backup, together with what it needs."""

import json
import shutil
from pathlib import Path

import pytest

import diskstream
from diskstream import StorageError
from diskstream.backups import Repository, Seen, Wanted, check_backup, find_backup, make_backup, restore
from diskstream.replaying import Job, ToStream, run_job
from tests.engine.stand_ins import unlisted

WRITER = "commits/" + "ab" * 32


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with a writer that has decided its version 7: of the files that it lists, all are there."""
    path = tmp_path / "store"
    with diskstream.open(path) as opened:
        opened.stream("x").add({"n": 1}, "1-0")
    (path / WRITER).mkdir(parents=True)
    (path / WRITER / "done.json").write_text('{"writer": "w", "version": 6}')
    (path / WRITER / "lock").touch()
    (path / "staging" / "job").mkdir(parents=True)
    for name in ("a", "b", "of-nobody"):
        (path / "staging" / "job" / f"{name}.arrow").write_bytes(name.encode() * 100)
    decide(path, "staging/job/a.arrow", "staging/job/b.arrow")
    return path


def decide(store: Path, *listed: str) -> None:
    files = [{"path": path, "partition": 0, "batches": []} for path in listed]
    text = json.dumps({"writer": "w", "version": 7, "given": False, "files": files})
    (store / WRITER / f"{7:020d}.json").write_text(text)


def below(path: Path) -> set[str]:
    folders = ("commits", "staging", "replays")
    return {str(file.relative_to(path)) for name in folders for file in (path / name).rglob("*") if file.is_file()}


def test_a_manifest_comes_with_what_it_lists(store: Path, tmp_path: Path) -> None:
    make_backup(store, tmp_path / "backups")
    backup = find_backup(tmp_path / "backups")
    wanted = {"staging/job/a.arrow", "staging/job/b.arrow", f"{WRITER}/{7:020d}.json", f"{WRITER}/done.json"}
    assert below(backup.path) == wanted
    assert check_backup(backup, Seen()) == []
    restore(backup, tmp_path / "again")
    assert below(tmp_path / "again") == wanted
    assert (tmp_path / "again/staging/job/b.arrow").read_bytes() == b"b" * 100


def test_what_cannot_be_listed_is_left_out_of_no_backup(store: Path, tmp_path: Path) -> None:
    """From Python 3.13 on it was: there were the files, but unflushed, and the backup did not know of them."""
    target = tmp_path / "backups"
    with (
        unlisted(lambda place: place.is_relative_to(target) and str(place).endswith(WRITER)),
        pytest.raises(StorageError, match=f"could not list .*{WRITER}"),
    ):
        make_backup(store, target)
    assert Repository.open(target).backups() == []
    make_backup(store, target)
    backup = find_backup(target)
    with unlisted(backup.path / WRITER), pytest.raises(StorageError, match="could not list"):
        check_backup(backup, Seen())
    assert check_backup(backup, Seen()) == []


def test_at_an_earlier_moment_nothing_counts_as_done(store: Path, tmp_path: Path) -> None:
    make_backup(store, tmp_path / "backups")
    restore(find_backup(tmp_path / "backups"), tmp_path / "again", Wanted(until=diskstream.EntryID(1, 0)))
    assert below(tmp_path / "again") == set()


@pytest.mark.parametrize(
    "path", ["staging/job/gone.arrow", "staging/../store.json", "../outside", "/etc/hostname", "streams/x"]
)
def test_a_manifest_that_cannot_be_carried_out_is_left_out(store: Path, tmp_path: Path, path: str) -> None:
    """Where a file is gone, the manifest has been carried out meanwhile; any other place is none of its business."""
    (tmp_path / "outside").write_text("private")
    decide(store, "staging/job/a.arrow", path)
    made = make_backup(store, tmp_path / "backups")
    assert below(made.path) <= {"staging/job/a.arrow", f"{WRITER}/{7:020d}.json", f"{WRITER}/done.json"}
    assert not [file for file in made.path.rglob("*") if file.is_file() and b"private" in file.read_bytes()]
    if path.endswith("gone.arrow"):
        assert f"{WRITER}/{7:020d}.json" not in below(made.path)


@pytest.mark.parametrize("area", ["commits", "replays"])
def test_a_folder_that_is_of_no_job_is_left_out(store: Path, tmp_path: Path, area: str) -> None:
    """Somebody had kept a copy beside the others: backups succeeded from then on, and none could be restored."""
    shutil.copytree(store / WRITER, store / area / f"{WRITER.partition('/')[2]}.old")
    make_backup(store, tmp_path / "backups")
    backup = find_backup(tmp_path / "backups")
    assert check_backup(backup, Seen()) == []
    restore(backup, tmp_path / "again")
    assert below(tmp_path / "again") == {
        "staging/job/a.arrow",
        "staging/job/b.arrow",
        f"{WRITER}/{7:020d}.json",
        f"{WRITER}/done.json",
    }


@pytest.mark.parametrize("name", [".job/a.arrow", "job/a b.arrow", "job/a.arrow.old", "job/deeper/a.arrow"])
def test_a_staged_file_that_no_job_calls_so_is_left_out(store: Path, tmp_path: Path, name: str) -> None:
    staged = store / "staging" / name
    staged.parent.mkdir(exist_ok=True)
    staged.write_bytes(b"?")
    decide(store, "staging/job/a.arrow", f"staging/{name}")
    backup = find_backup(make_backup(store, tmp_path / "backups").path)
    assert f"staging/{name}" not in below(backup.path)
    restore(backup, tmp_path / "again")


def test_a_replay_goes_on_in_a_restored_store(store: Path, tmp_path: Path) -> None:
    done = run_job(Job(store, b"x", ToStream(store, b"y"), speed=None, name="n"))
    assert done.complete
    restore(find_backup(make_backup(store, tmp_path / "backups").path), tmp_path / "again")
    again = run_job(Job(store, b"x", ToStream(store, b"y"), speed=None, name="n"))
    assert (again.complete, again.replayed.sent) == (True, 0)
    assert {path for path in below(tmp_path / "again") if path.startswith("replays")}
