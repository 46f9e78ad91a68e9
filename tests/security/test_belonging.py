"""Root looks after a store of another user: what it makes there is that user's, who goes on with it."""

import os
from pathlib import Path

import pytest

import diskstream
from diskstream import verify
from diskstream.backups import Wanted, find_backup, make_backup, restore
from diskstream.cold import move_out
from diskstream.engine.belonging import give, give_folder

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files that are another user's")
_USER = 12345


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder of that user's."""
    made = tmp_path / "home"
    made.mkdir()
    os.chown(made, _USER, _USER)
    return made


def test_what_root_does_to_a_store_shuts_nobody_out(home: Path) -> None:
    """A `sudo diskstream seal` left a log of root's, and the server was refused its own stream from then on."""

    with diskstream.open(home / "store", fsync="os") as store:
        jobs = store.stream("jobs")
        jobs.add_many([{"n": n} for n in range(30_000)])
        jobs.group("g", start="0").consumer("dead").read(count=30_000)
        jobs.seal()
        jobs.add({"n": 0})
        jobs.group("g").consumer("root").autoclaim(0, count=2000)
        move_out(jobs, f"file://{home}/frozen", keep_entries=0)
    made = make_backup(home / "store", home / "backups")
    assert not made.damaged
    restore(find_backup(home / "backups"), home / "again", Wanted())
    assert verify(home / "again").ok
    assert (home / "store" / "view" / "data.mdb").exists()
    assert [path for path in home.rglob("*") if path.lstat().st_uid != _USER] == []


def test_what_is_there_already_is_not_given_away(home: Path, tmp_path: Path) -> None:
    """Its owner may put second names of root's files into a store, and folders that hold something."""
    secret = tmp_path / "secret"
    secret.write_text("")
    (home / "ctl").hardlink_to(secret)
    (home / "kept").mkdir()
    (home / "kept" / "file").write_text("of root")
    with (home / "ctl").open("r+b") as file, (home / "kept" / "file").open("r+b") as other:
        give(file.fileno(), home / "ctl")
        give(other.fileno(), home / "kept" / "file")
    give_folder(home / "kept")
    assert [path.stat().st_uid for path in (secret, home / "kept", home / "kept" / "file")] == [0, 0, 0]
