"""Root looks after a store of another user: what it makes there is that user's, who goes on with it."""

import contextlib
import os
from pathlib import Path

import pytest

import diskstream
from diskstream import ReadOnlyError, repair, verify
from diskstream.backups import Wanted, find_backup, make_backup, restore
from diskstream.cold import move_out
from diskstream.dissecting import inspect_store, inspect_stream
from diskstream.engine.belonging import give, give_folder
from tests.engine.children import child
from tests.engine.sample import fast_directory
from tests.engine.users import use

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


@pytest.mark.parametrize("mode", [0o600, 0o644])
@pytest.mark.parametrize("how", ["delete", "rename"])
def test_a_stream_that_this_user_may_not_open_is_not_taken_from_who_uses_it(how: str, mode: int) -> None:
    """It was hidden from its user, who was not told: what that one added from then on was gone."""
    with fast_directory() as path, child(use, path / "store", {"fsync": "os"}) as owner:
        assert owner.hear() == "open"
        owner.ask("add 1")
        with diskstream.open(path / "store", fsync="os") as store:  # what that needs of Python, root may read
            store.stream("y").add({"n": 1})
            store.delete("y")
        for each in (path, *path.rglob("*")):
            each.chmod(0o777)
        page = path / "store" / "streams" / "x" / "ctl"
        page.chmod(mode)
        os.seteuid(_USER)
        try:
            with diskstream.open(path / "store", fsync="os") as store, pytest.raises(ReadOnlyError, match="ctl"):
                store.delete("x") if how == "delete" else store.rename("x", "y")
        finally:
            os.seteuid(0)
        owner.ask("add 2")
        owner.tell("end")
        assert owner.process.wait() == 0
        with diskstream.open(path / "store") as store:
            assert [entry["n"] for entry in store.stream("x").range()] == [b"1", b"2"]
        os.seteuid(_USER)
        try:
            with diskstream.open(path / "store", fsync="os") as store, contextlib.ExitStack() as refused:
                if mode == 0o600:  # nobody uses it any more, and who may not read it cannot see that
                    refused.enter_context(pytest.raises(ReadOnlyError, match="ctl"))
                store.delete("x") if how == "delete" else store.rename("x", "y")
        finally:
            os.seteuid(0)


def test_who_may_only_read_the_streams_may_verify_and_inspect_them() -> None:
    """The view is its owner's alone. Who shares his group had no verification of the streams, for want of a look at it,
    and inspect called the stream damaged."""
    with fast_directory() as path:
        path.chmod(0o711)
        with diskstream.open(path / "store", fsync="os", pending_rows=1) as store:
            group = store.stream("x").group("g", start="0")
            store.stream("x").add_many([{"n": n} for n in range(100)])
            group.consumer("c").read()
        assert (path / "store" / "view" / "data.mdb").exists()
        for each in (path / "store", *(path / "store").rglob("*")):
            os.chown(each, -1, _USER)
        os.setegid(_USER)
        os.seteuid(_USER)
        try:
            report = verify(path / "store")
            seen = {row["is"]: row for row in (*inspect_store(path / "store"), *inspect_stream(path / "store", "x"))}
            planned = list(repair(path / "store", dry_run=True))
        finally:
            os.seteuid(0)
            os.setegid(0)
    assert (report.problems, report.entries) == ([], 100)
    assert not any(each.actions or each.losses or each.failed for each in planned)
    (note,) = report.notes
    assert "this user may not read it" in note
    assert seen["view"]["state"] == "not readable"
    assert "damaged" not in seen
    assert "may not read" in seen["place of the view"]["why"]
