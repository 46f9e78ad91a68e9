"""Links that somebody put into a store, its backups or a place of segments: nothing behind them is touched."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import diskstream
from diskstream.backups import make_backup
from diskstream.checkpoints import Checkpoints
from diskstream.cold import move_out, sweep
from diskstream.commands.keyspace import Keyspace
from diskstream.errors import DiskstreamError, RemoteError, StorageError
from diskstream.spark.commit import finish_left
from tests.security.planted import a_store, image

FOLDERS = ["archives", "cold-cache", "commits", "keys", "leases", "quarantine", "replays", "staging", "streams", "view"]


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of somebody else's, old enough to be swept and with names as a store has them."""
    folder = tmp_path / "outside"
    (folder / "sub").mkdir(parents=True)
    for name in ("letter", "x.tmp", "00000001.seg", "sub/letter"):
        (folder / name).write_text("dear")
        os.utime(folder / name, (1, 1))
    os.utime(folder / "sub", (1, 1))
    return folder


def put_link(path: Path, target: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


@pytest.mark.parametrize("name", FOLDERS)
def test_a_store_with_a_link_for_a_folder_is_not_opened(tmp_path: Path, outside: Path, name: str) -> None:
    """`staging` as a link had all old folders behind it removed, `cold-cache` another store's segments."""
    store = a_store(tmp_path / "store")
    put_link(store / name, outside)
    before = image(outside)
    for read_only in (False, True):
        with pytest.raises(StorageError, match="symbolic link") as caught:
            diskstream.open(store, read_only=read_only)
        assert str(store / name) in str(caught.value)
    with pytest.raises(StorageError, match="symbolic link"):
        list(diskstream.repair(store))
    with pytest.raises(DiskstreamError):
        make_backup(store, tmp_path / "backups")
    assert image(outside) == before


def test_a_repair_without_a_description_follows_no_link_either(tmp_path: Path, outside: Path) -> None:
    store = a_store(tmp_path / "store")
    other = a_store(tmp_path / "other")
    (store / "store.json").unlink()
    put_link(store / "streams", other / "streams")
    before = image(other)
    with pytest.raises(StorageError, match="symbolic link"):
        list(diskstream.repair(store))
    assert image(other) == before


@pytest.mark.parametrize("dangling", [False, True])
def test_a_description_that_is_a_link_is_made_anew(tmp_path: Path, outside: Path, dangling: bool) -> None:
    store = a_store(tmp_path / "store")
    put_link(store / "store.json", outside / ("none" if dangling else "letter"))
    before = image(outside)
    with pytest.raises(DiskstreamError):
        diskstream.open(store, create=False)
    (itself, _) = diskstream.repair(store)
    assert any("store.json is a symbolic link: made anew" in action for action in itself.actions)
    with diskstream.open(store, create=False) as opened:
        assert len(opened.stream("s")) == 150
    assert image(outside) == before


def _lock_of_archives(store: Path) -> None:
    with diskstream.open(store) as opened, Checkpoints(opened).locked():
        pass


def _finish(store: Path) -> None:
    with diskstream.open(store) as opened:
        finish_left(opened)


def _keys(store: Path) -> None:
    with Keyspace(store, fsync="os"):
        pass


@pytest.mark.parametrize(
    ("where", "use"),
    [
        ("archives/lock", _lock_of_archives),
        (f"commits/{'a' * 64}/lock", _finish),
        (f"commits/{'a' * 64}", _finish),
        ("keys/lock", _keys),
    ],
)
@pytest.mark.parametrize("dangling", [False, True])
def test_no_lock_is_taken_through_a_link(
    tmp_path: Path, outside: Path, where: str, use: Callable[[Path], None], dangling: bool
) -> None:
    """`archives/lock` as a link had the file behind it cut to nothing, and a process's number written into it."""
    store = a_store(tmp_path / "store")
    if where.startswith("keys"):
        _keys(store)
    target = outside / "made" if dangling else outside / ("sub" if where.endswith("a") else "letter")
    put_link(store / where, target)
    if where.startswith("commits") and where.endswith("lock"):
        (store / where).with_name("00000000000000000000.json").write_text("{}")
    before = image(outside)
    try:
        use(store)
    except DiskstreamError as error:
        assert "symbolic link" in str(error)
    assert image(outside) == before


def test_backups_are_not_locked_through_a_link(tmp_path: Path, outside: Path) -> None:
    store = a_store(tmp_path / "store")
    make_backup(store, tmp_path / "backups")
    put_link(tmp_path / "backups" / "lock", outside / "made")
    with pytest.raises(StorageError, match="symbolic link"):
        make_backup(store, tmp_path / "backups")
    assert not (outside / "made").exists()


def test_a_quarantine_is_no_link(tmp_path: Path, outside: Path) -> None:
    store = a_store(tmp_path / "store")
    put_link(store / "streams" / "s" / "quarantine", outside)
    (segment,) = (store / "streams" / "s").glob("00000001.seg")
    damaged = bytearray(segment.read_bytes())
    damaged[300] ^= 1
    segment.write_bytes(damaged)
    log = max((store / "streams" / "s").glob("*.log"))
    with log.open("r+b") as file:
        file.seek(-200, os.SEEK_END)
        file.write(b"torn" * 10)
    before = image(outside)
    (repaired,) = [each for each in diskstream.repair(store) if each.stream == b"s"]
    assert "symbolic link" in (repaired.failed or "")
    assert image(outside) == before


def test_a_place_of_segments_ends_where_its_folder_ends(tmp_path: Path, outside: Path) -> None:
    """A folder of a place that was a link to another had its objects swept there."""
    store = a_store(tmp_path / "store")
    place = tmp_path / "place"
    with diskstream.open(store, seal="manual") as opened:
        move_out(opened.stream("s"), f"file://{place}", older_than_ms=0)
        (ours,) = [each for each in place.iterdir() if each.is_dir()]
        stranger = "0" * 8 + "-0000-4000-8000-" + "0" * 12
        (outside / "00000001.0123456789abcdef.seg").write_text("dear")
        (ours / stranger).symlink_to(outside)
        before = image(outside)
        with pytest.raises(RemoteError, match="symbolic link"):
            sweep(opened, f"file://{place}", older_than_ms=0)
    assert image(outside) == before
