"""Where nobody can say what the newest backup is of, no older one is taken for it."""

import errno
from pathlib import Path

import pytest
from click.testing import CliRunner

import diskstream
from diskstream import StorageError
from diskstream.backups import BackupError, Repository, Seen, check_backup, find_backup, make_backup
from diskstream.backups.repository import holds_backups, is_backup
from diskstream.cli import main
from diskstream.engine.files import Files
from tests.engine.stand_ins import failure


@pytest.fixture
def backups(tmp_path: Path) -> Path:
    """Two of them, of one entry and of two."""
    with diskstream.open(tmp_path / "store", fsync="os") as store:
        for number in (1, 2):
            store.stream("x").add({"n": number}, f"{number}-0")
            make_backup(store.path, tmp_path / "backups")
    return tmp_path / "backups"


def made(backups: Path) -> list[Path]:
    return sorted(path for path in backups.iterdir() if path.is_dir())


def test_a_restore_of_the_newest_is_not_one_of_an_older_one(backups: Path, tmp_path: Path) -> None:
    """A manifest that could not be read was passed over: the store was that of the backup before, without a word."""
    older, newest = made(backups)
    manifest = newest / "backup.jsonl"
    text = manifest.read_bytes()
    manifest.write_bytes(b"{")
    words = ["restore", str(backups), "--to", str(tmp_path / "again")]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 1
    assert newest.name in done.stderr
    assert "by its directory" in " ".join(done.stderr.split())
    assert not (tmp_path / "again").exists()
    assert find_backup(older).path == older
    manifest.write_bytes(text)
    assert find_backup(backups).path == newest


def test_an_older_one_that_cannot_be_read_is_in_nobody_s_way(backups: Path) -> None:
    older, newest = made(backups)
    (older / "backup.jsonl").write_bytes(b"{")
    assert find_backup(backups).path == newest


def test_a_directory_of_unreadable_backups_is_not_called_empty(backups: Path) -> None:
    """It was, and `backup create` recommended."""
    for each in made(backups):
        (each / "backup.jsonl").write_bytes(b"{")
    with pytest.raises(BackupError, match="nobody can say what it is of") as caught:
        find_backup(backups)
    assert caught.value.where == made(backups)[-1]


def test_a_directory_that_cannot_be_looked_at_is_told_of(backups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was a plain `OSError`."""

    def failing(path: Path, **_: object) -> None:
        raise OSError(5, "Input/output error", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", failing)
        for look in (holds_backups, is_backup):
            with pytest.raises(StorageError, match="Input/output error"):
                look(backups)


def test_a_backup_whose_name_could_not_be_made_durable_is_none(
    backups: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counted as the newest, and a prune took the older ones, though a power cut might take its name back."""
    before, whole = made(backups), Files.sync_dir

    def failing(files: Files, path: Path) -> None:
        if path == backups and len([each for each in made(backups) if each.name[0] != "."]) > len(before):
            raise failure(path, "flush", errno.EIO)
        whole(files, path)

    with monkeypatch.context() as patch:
        patch.setattr(Files, "sync_dir", failing)
        with pytest.raises(StorageError):
            make_backup(tmp_path / "store", backups)
    assert [backup.path for backup in Repository.open(backups).backups()] == before
    again = make_backup(tmp_path / "store", backups)
    assert made(backups) == [*before, again.path]
    assert check_backup(find_backup(backups), Seen()) == []
