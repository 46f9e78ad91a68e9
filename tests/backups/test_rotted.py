"""A backup that rots on its own disk, and is all that is left: what is sound of it can be had."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import diskstream
from diskstream import ReadOnlyError
from diskstream.backups import BackupError, Seen, Wanted, check_backup, find_backup, make_backup, restore
from diskstream.cli import main
from tests.backups.world import bulky, flip_in_place

ENTRIES = 121


@pytest.fixture
def backups(tmp_path: Path) -> Path:
    """One backup of a stream `x` with several sealed segments, and of a small one."""
    with bulky(tmp_path / "store") as store:
        store.stream("small").add({"n": 1}, "1-0")
        make_backup(store.path, tmp_path / "backups")
    return tmp_path / "backups"


def sealed(backups: Path) -> list[Path]:
    return sorted(backups.glob("2*/streams/x/*.seg"))


def held(store: Path) -> list[int]:
    with diskstream.open(store, create=False) as opened:
        assert opened.verify().ok
        return [entry.id.ms for entry in opened.stream("x")]


@pytest.mark.parametrize("missing", [False, True])
def test_it_is_restored_as_it_is_and_repaired(backups: Path, tmp_path: Path, missing: bool) -> None:
    """It was refused, whatever was said: the command had no way to what was sound."""
    bad = sealed(backups)[1]
    bad.unlink() if missing else flip_in_place(bad, 9000)
    with pytest.raises(BackupError) as refused:
        restore(find_backup(backups), tmp_path / "again")
    assert "--damaged" in str(refused.value.hint)
    assert not (tmp_path / "again").exists()

    restored = restore(find_backup(backups), tmp_path / "again", Wanted(damaged=True))
    assert list(restored.faults) == [b"x"]
    assert bad.name in restored.faults[b"x"][0]
    losses = [loss for report in diskstream.repair(tmp_path / "again") for loss in report.losses]
    there = held(tmp_path / "again")
    assert ENTRIES - sum(loss.entries or 0 for loss in losses) <= len(there) < ENTRIES
    assert {*range(1, ENTRIES), 1000} > {*there} > {1, 120, 1000}


def test_the_command_says_what_is_damaged_and_what_is_next(backups: Path, tmp_path: Path) -> None:
    flip_in_place(sealed(backups)[0], 9000)
    words = ["restore", str(backups), "--to", str(tmp_path / "again"), "--damaged"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert "x is damaged: 00000001.seg: its SHA-256 is" in done.stderr
    assert f"`diskstream repair --dir {tmp_path / 'again'}`" in done.stderr
    assert "small" not in done.stderr


def test_no_earlier_moment_is_made_of_it(backups: Path, tmp_path: Path) -> None:
    flip_in_place(sealed(backups)[0], 9000)
    wanted = Wanted(damaged=True, until=diskstream.EntryID("100-0"))
    with pytest.raises(BackupError, match="its SHA-256 is"):
        restore(find_backup(backups), tmp_path / "again", wanted)


def test_without_a_description_there_is_no_store(backups: Path, tmp_path: Path) -> None:
    next(backups.glob("2*/store.json")).write_text("{")
    with pytest.raises(BackupError, match="its SHA-256 is"):
        restore(find_backup(backups), tmp_path / "again", Wanted(damaged=True))


def test_of_a_damaged_manifest_the_way_out_is_said_and_is_one(backups: Path, tmp_path: Path) -> None:
    """The hint was to repair it, which a backup refuses."""
    (found,) = backups.glob("2*")
    flip_in_place(found / "backup.jsonl", 300)
    done = CliRunner().invoke(main, ["restore", str(found), "--to", str(tmp_path / "again")])
    assert "remove backup.jsonl from the copy, which is a store then" in done.stderr
    shutil.copytree(found, tmp_path / "copy")
    (tmp_path / "copy" / "backup.jsonl").unlink()
    assert len(held(tmp_path / "copy")) == ENTRIES


def test_of_a_lost_manifest_the_same_is_said_in_words(backups: Path, tmp_path: Path) -> None:
    """It was `[Errno 2] No such file or directory: '...'`, and that `diskstream verify` would list the rest."""
    (found,) = backups.glob("2*")
    (found / "backup.jsonl").unlink()
    done = CliRunner().invoke(main, ["restore", str(found), "--to", str(tmp_path / "again")])
    assert "expected the manifest of a backup, found no such file; diskstream backup verify lists all" in done.stderr
    assert "copy the directory of the backup elsewhere, which is a store then" in done.stderr
    shutil.copytree(found, tmp_path / "copy")
    assert len(held(tmp_path / "copy")) == ENTRIES


def test_what_has_lost_its_manifest_is_no_store_to_write_to(backups: Path, tmp_path: Path) -> None:
    """Its files are those of the next backup, too, which was damaged by an entry that was added, or a repair."""
    make_backup(tmp_path / "store", backups)
    first, second = sorted(backups.glob("2*"))
    (first / "backup.jsonl").unlink()
    (tmp_path / "link").symlink_to(first)
    for place in (first, tmp_path / "link"):
        with pytest.raises(ReadOnlyError, match=r"where its backup\.jsonl is lost, a copy of its directory elsewhere"):
            diskstream.open(place)
        with pytest.raises(ReadOnlyError, match="it is a backup, which never changes"):
            list(diskstream.repair(place))
    with diskstream.open(first, read_only=True) as store:
        assert len(store.stream("x")) == ENTRIES
    assert check_backup(find_backup(second), Seen()) == []
