"""What stands in the way of a command, and the way out: rights, mounts, and directories that are not the one meant."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import diskstream
from diskstream.cli import main
from diskstream.errors import ReadOnlyError, storage_error
from tests.engine.mounts import unwritable


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with diskstream.open(tmp_path / "place" / "store") as made:
        made.stream("s").add({"n": 1}, id="1-0")
    return tmp_path / "place" / "store"


def said(*words: object) -> str:
    """What a verb that fails says, on one line."""
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == 1, result.output
    return " ".join(result.stderr.split())


# --- rights and mounts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [("add", "s", "a=1"), ("trim", "s", "--maxlen", "0", "--force"), ("seal",)])
def test_a_store_that_is_mounted_for_reading_only(store: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    """It was "open for reading only", though it was to be written to, and nothing said what could be done."""
    with unwritable(store, tmp_path / "view") as view:
        told = said(*words, "--dir", view)
        assert "its file system is mounted for reading only" in told
        assert "hint: mount it for writing, or name another place; what only looks works there" in told
        assert CliRunner().invoke(main, ["range", "s", "--dir", str(view)]).stdout == "1-0 n=1\n".replace(" ", "  ")


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="root may become another user")
@pytest.mark.parametrize("verb", ["add s a=1", "range s", "verify"])
def test_a_store_of_another_user(store: Path, tmp_path: Path, verb: str) -> None:
    """Who may not read a store was told that it is open for reading only."""
    for folder in (tmp_path, *tmp_path.parents[:2], store.parent, store):
        folder.chmod(0o755)
    command = [sys.executable, "-m", "diskstream", *verb.split(), "--dir", str(store)]
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command]
    done = subprocess.run(nobody, capture_output=True, text=True, check=False, timeout=60)
    unreadable = ("No module named", "setpriv", "loading shared libraries")  # what Python itself is made of
    if any(each in done.stderr for each in unreadable):
        pytest.skip(f"another user cannot run this: {done.stderr}")
    assert done.returncode == 1
    assert "this user may not (Permission denied)" in done.stderr
    assert "hint: be the user to whom it belongs" in done.stderr


def without_rights(*words: object) -> subprocess.CompletedProcess[str]:
    """A verb, run by a root who may read no more than anybody else."""
    kept = ["-dac_override", "-dac_read_search", "-fowner", "-chown"]
    command = ["setpriv", f"--inh-caps={','.join(kept)}", f"--bounding-set={','.join(kept)}", sys.executable]
    words = ("-m", "diskstream", *words)
    return subprocess.run([*command, *map(str, words)], capture_output=True, text=True, check=False, timeout=60)


as_root = pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="root may give files away")


@as_root
@pytest.mark.parametrize("kind", ["seg", "log"])
def test_a_file_of_another_user_is_no_damage(store: Path, kind: str) -> None:
    """Who ran `verify` as the wrong user was told that a repair would keep what is sound."""
    with diskstream.open(store) as opened:
        opened.seal()
    (file,) = (store / "streams" / "s").glob(f"*.{kind}")
    os.chown(file, 1234, 0)
    file.chmod(0o600)
    told = without_rights("verify", "--dir", store)
    assert told.returncode == 1
    assert f"could not open {file}: this user may not (Permission denied)" in told.stdout
    assert "nobody has looked at it: be the user to whom it belongs" in told.stdout
    assert "repair finds" not in told.stdout
    assert "repair makes" not in told.stdout
    before = {path: path.read_bytes() for path in file.parent.iterdir() if path.name != "ctl"}
    told = without_rights("repair", "--force", "--dir", store)
    assert told.returncode == 1
    assert f"not repaired: could not read {file}: this user may not" in told.stdout
    assert {path: path.read_bytes() for path in file.parent.iterdir() if path.name != "ctl"} == before


@as_root
@pytest.mark.parametrize("verb", [("inspect",), ("repair", "--force"), ("repair", "--dry-run"), ("verify",)])
def test_a_folder_of_another_user_has_a_way_out(store: Path, verb: tuple[str, ...]) -> None:
    os.chown(store, 1234, 0)
    store.chmod(0o700)
    told = without_rights(*verb, "--dir", store)
    assert told.returncode == 1
    assert "Permission denied" in told.stderr
    assert "hint: be the user to whom it belongs" in told.stderr


@pytest.mark.parametrize(
    "words",
    [
        "ls --dir",
        "range s --dir",
        "replay s --to - --backup",
        "restore --to other",
        "backup ls",
        "backup prune --keep 1",
    ],
)
def test_a_place_that_may_not_be_read_is_no_wrong_usage(
    store: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    """It ended with 2, and without a hint: whether it can be read is found out by whoever reads it."""
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode, **rest: mode != os.R_OK and access(path, mode, **rest))
    monkeypatch.chdir(store.parent)
    place = store.parent / "backups" if "backup ls" in words or "prune" in words or "restore" in words else store
    assert CliRunner().invoke(main, ["backup", "create", "backups", "--dir", str(store)]).exit_code == 0
    done = CliRunner().invoke(main, [*words.split(), str(place)])
    assert (done.exit_code, done.stderr) == (0, "")


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_whatever_forbids_it_has_a_way_out(code: int) -> None:
    error = storage_error("/x", "open", code, os.strerror(code))
    assert isinstance(error, ReadOnlyError)
    assert error.hint
    assert "it is open for reading only" not in str(error)


# --- directories ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("meant", "way"),
    [
        ("store/streams", "store is a store, and this lies in it"),
        ("store/streams/s", "store is a store, and this lies in it"),
        ("", "store is one"),
        ("backups", "it holds backups: diskstream backup ls"),
        ("nowhere", "names the directory that has the store.json"),
    ],
)
@pytest.mark.parametrize("verb", ["ls", "range s", "verify"])
def test_a_directory_that_is_no_store_says_where_one_may_be(store: Path, verb: str, meant: str, way: str) -> None:
    backups = store.parent / "backups"
    assert CliRunner().invoke(main, ["backup", str(backups), "--dir", str(store)]).exit_code == 0
    told = said(*verb.split(), "--dir", store.parent / meant)
    assert "is not a diskstream store" in told
    assert way in told.partition("hint: ")[2]


@pytest.mark.parametrize(
    ("given", "way"),
    [
        ("", "--dir {store} looks at the store"),
        ("streams/s", "--dir {store} STREAM looks at a stream"),
        ("streams", "name one of its files"),
    ],
)
def test_inspect_of_a_directory_says_how_to_look_at_it(store: Path, given: str, way: str) -> None:
    """It was "no file", and the directory stood there."""
    told = said("inspect", store / given)
    assert "is a directory, not a file" in told
    assert way.format(store=store) in told
    assert "there is no file" in said("inspect", store / "nothing")
