"""A log that has lost its end on the backup's disk: a store takes it for one that a crash has cut."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import diskstream
from diskstream.backups import BackupError, Repository, Wanted, find_backup, make_backup, prune, restore
from diskstream.cli import main

NOWHERE = "redis://127.0.0.1:1/0"


@pytest.fixture
def backups(tmp_path: Path) -> Path:
    """Of a store at work, since what it has added last is the only thing that says of nothing that it was durable."""
    with diskstream.open(tmp_path / "store", fsync="os", seal="manual") as store:
        for number in range(50):
            store.stream("x").add({"n": number})
        store.stream("sound").add({"n": 1})
        make_backup(store.path, tmp_path / "backups")
    return tmp_path / "backups"


@pytest.fixture
def cut(backups: Path) -> Path:
    """The same, with the end of a log gone."""
    (log,) = backups.glob("2*/streams/x/*.log")
    log.chmod(0o640)
    log.write_bytes(log.read_bytes().rstrip(b"\0")[:-5])
    with diskstream.open(log.parents[2], read_only=True) as opened:
        assert len(opened.stream("x")) == 49  # nobody would know
    return backups


def test_no_store_gets_what_is_left_of_it_for_all(cut: Path, tmp_path: Path) -> None:
    """It got 49 entries, and the command said that this was the stream."""
    with diskstream.open(tmp_path / "other") as other:
        other.stream("y").add({"n": 1})
    with pytest.raises(BackupError, match="its SHA-256 is"):
        restore(find_backup(cut), tmp_path / "other", Wanted((b"x", b"sound")))
    with diskstream.open(tmp_path / "other") as other:
        assert other.streams() == [b"y"]
    assert restore(find_backup(cut), tmp_path / "other", Wanted((b"sound",))).entries == 1


def test_who_wants_what_is_left_is_told_that_it_is_not_all(cut: Path, tmp_path: Path) -> None:
    diskstream.open(tmp_path / "other").close()
    restored = restore(find_backup(cut), tmp_path / "other", Wanted((b"x", b"sound"), damaged=True))
    assert (restored.entries, list(restored.faults)) == (50, [b"x"])
    assert "its SHA-256 is" in restored.faults[b"x"][0]
    words = ["restore", str(cut), "--to", str(tmp_path / "third"), "--damaged"]
    diskstream.open(tmp_path / "third").close()
    done = CliRunner().invoke(main, [*words, "-s", "x"])
    assert (done.exit_code, "x is damaged: " in done.stderr) == (0, True), done.stderr
    assert "diskstream repair" not in done.stderr  # what was copied is sound


def test_a_name_that_is_taken_is_told_before_anything_is_read(cut: Path, tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "other") as other:
        other.stream("x").add({"n": 1})
    with pytest.raises(diskstream.StreamExistsError):
        restore(find_backup(cut), tmp_path / "other", Wanted((b"x",)))


def test_a_file_that_is_gone_is_told_of(backups: Path, tmp_path: Path) -> None:
    next(backups.glob("2*/streams/x/*.log")).unlink()
    diskstream.open(tmp_path / "other").close()
    with pytest.raises(BackupError, match="it is missing"):
        restore(find_backup(backups), tmp_path / "other", Wanted((b"x",)))


@pytest.mark.parametrize(
    "words",
    [
        ["restore", "{}", "--to", NOWHERE],
        ["restore", "{}", "--to", NOWHERE, "-s", "x"],
        ["replay", "x", "--backup", "{}", "--to", "-"],
        ["replay", "x", "--backup", "{}", "--to", "-", "--dry-run"],
    ],
)
@pytest.mark.parametrize("one", [False, True])
def test_it_is_not_sent_elsewhere(cut: Path, words: list[str], one: bool) -> None:
    place = next(cut.glob("2*")) if one else cut
    done = CliRunner().invoke(main, [word.format(place) for word in words])
    assert done.exit_code == 1
    assert "its SHA-256 is" in done.stderr
    assert not done.stdout


def test_what_is_sound_is_sent(cut: Path) -> None:
    done = CliRunner().invoke(main, ["replay", "sound", "--backup", str(cut), "--to", "-"])
    assert done.exit_code == 0, done.output
    assert '"n": "1"' in done.stdout


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("restore.restore_to_redis", ["restore", "{}", "--to", NOWHERE]),
        ("replay.run_job", ["replay", "x", "--backup", "{}", "--to", NOWHERE + "?key=x"]),
    ],
)
def test_it_is_not_removed_meanwhile(
    backups: Path, monkeypatch: pytest.MonkeyPatch, function: str, words: list[str]
) -> None:
    tried = []

    def pruning(*_: Any, **__: Any) -> None:
        found = Repository.open(backups)
        with pytest.raises(BackupError, match="it is being read"):
            prune(found, found.backups())
        tried.append(found)
        raise KeyboardInterrupt

    monkeypatch.setattr(f"diskstream.cli.{function}", pruning)
    CliRunner().invoke(main, [word.format(backups) for word in words])
    assert tried
    assert len(Repository.open(backups).backups()) == 1
