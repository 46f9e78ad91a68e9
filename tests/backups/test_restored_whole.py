"""A restore that fails at its last steps leaves what was there before it: no stream of several, no folder, no store."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import StorageError, Store
from diskstream.backups import Backup, BackupError, Wanted, find_backup, make_backup, restore, restoring, taking_names
from diskstream.engine.files import Files
from tests.backups.world import LONG, filled, seen, seen_at
from tests.engine.stand_ins import failure

BOTH = Wanted((b"x", LONG))


@pytest.fixture
def backup(tmp_path: Path) -> Backup:
    with filled(tmp_path / "store") as store:
        make_backup(store.path, tmp_path / "backups")
    return find_backup(tmp_path / "backups")


class Renames:
    """Lets renames of streams to these names fail, and does something before; all others are as ever."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *refused: bytes) -> None:
        self.refused = refused
        real = Store.rename

        def rename(store: Store, old: bytes, new: bytes, **options: Any) -> None:
            if new in self.refused:
                self.before(store)
                raise failure(store.path, "rename", errno.EIO)
            real(store, old, new, **options)

        monkeypatch.setattr(Store, "rename", rename)

    def before(self, store: Store) -> None:
        """Somebody uses what is there by now."""


def test_a_rename_that_fails_behind_another_leaves_none_of_several_streams(
    backup: Backup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one stayed, and the same command was refused for its name."""
    renames = Renames(monkeypatch, LONG)
    with diskstream.open(tmp_path / "target") as store:
        store.stream("mine").add({"n": 1})
        with pytest.raises(StorageError, match="rename"):
            restore(backup, store.path, BOTH)
        assert store.streams(unfinished=True) == [b"mine"]
        renames.refused = ()
        restore(backup, store.path, BOTH)
        assert seen(store)[b"x"] == seen_at(backup.path)[b"x"]
        assert store.verify().ok


def test_one_that_is_stopped_between_two_names_leaves_none_either(
    backup: Backup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(_: Store) -> None:
        raise KeyboardInterrupt

    renames = Renames(monkeypatch, LONG)
    monkeypatch.setattr(renames, "before", stopped)
    with diskstream.open(tmp_path / "target") as store:
        with pytest.raises(KeyboardInterrupt):
            restore(backup, store.path, BOTH)
        assert store.streams() == []
        assert store.streams(unfinished=True)
    renames.refused = ()
    restore(backup, tmp_path / "target", BOTH)  # which takes away what is left
    assert sorted(seen_at(tmp_path / "target")) == sorted([b"x", LONG])


def added(store: Store) -> None:
    store.stream("x").add({"n": "mine"}, "9999-0")


def made_anew(store: Store) -> None:
    store.delete("x")
    added(store)


def grouped(store: Store) -> None:
    store.stream("x").create_group("mine", "0")


@pytest.mark.parametrize("use", [added, made_anew, grouped])
def test_what_somebody_used_meanwhile_is_not_taken_back_and_it_is_said(
    backup: Backup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: Callable[[Store], None]
) -> None:
    renames = Renames(monkeypatch, LONG)
    with diskstream.open(tmp_path / "target") as store:
        monkeypatch.setattr(renames, "before", use)
        with pytest.raises(BackupError, match="x stayed") as told:
            restore(backup, store.path, BOTH)
        assert "diskstream rm" in str(told.value.hint)
        assert store.streams(unfinished=True) == [b"x"]
        if use is grouped:
            assert b"mine" in [group.name for group in store.stream("x").groups()]
        else:
            assert next(store.stream("x").revrange())["n"] == b"mine"


def test_one_that_cannot_be_taken_back_is_named(
    backup: Backup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Renames(monkeypatch, LONG)

    def refused(store: Store, *_: object) -> bool:
        raise failure(store.path, "rename", errno.EIO)

    monkeypatch.setattr(Store, "_delete", refused)
    with diskstream.open(tmp_path / "target") as store:
        with pytest.raises(BackupError, match="x stayed"):
            restore(backup, store.path, BOTH)
        assert store.streams() == [b"x"]


class Refused:
    """Lets the one change of the disk fail that is about this path."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: str, path: Path, at: int) -> None:
        real = getattr(Files, kind)

        def change(files: Files, *paths: Path) -> None:
            if paths[at] == path:
                raise failure(path, kind, errno.EIO)
            real(files, *paths)

        monkeypatch.setattr(Files, kind, change)


@pytest.mark.parametrize("deeper", ["a", "a/b"])
@pytest.mark.parametrize(
    ("kind", "place", "at"),
    [
        ("mkdir", "{deeper}", 0),
        ("sync_dir", ".", 0),
        ("create", "{deeper}/.store.restoring/store.json", 0),
        ("rename", "{deeper}/store", 1),
        ("sync_dir", "{deeper}", 0),
    ],
)
def test_a_restore_that_fails_takes_the_folders_along_that_it_made(
    backup: Backup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deeper: str, kind: str, place: str, at: int
) -> None:
    """They stayed; and a store whose name could not be made durable stayed at it."""
    root = tmp_path / "root"
    root.mkdir()
    with monkeypatch.context() as patched:
        Refused(patched, kind, root / place.format(deeper=deeper), at)
        with pytest.raises(StorageError):
            restore(backup, root / deeper / "store")
    assert list(root.iterdir()) == []
    restore(backup, root / deeper / "store")
    assert seen_at(root / deeper / "store") == seen_at(backup.path)


def test_folders_that_hold_something_else_by_now_stay(
    backup: Backup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a" / "b"
    with monkeypatch.context() as patched:
        Refused(patched, "rename", folder / "store", 1)
        real = Files.create

        def create(files: Files, path: Path) -> Any:
            (folder.parent / "mine").touch()
            return real(files, path)

        patched.setattr(Files, "create", create)
        with pytest.raises(StorageError):
            restore(backup, folder / "store")
    assert [path.name for path in folder.parent.iterdir()] == ["mine"]


def test_no_look_that_may_fail_follows_when_all_have_their_names(
    backup: Backup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All was there, and an error told, of which the next restore said that the streams were there already."""
    named = list[bytes]()

    def take_names(store: Store, hidden: dict[bytes, bytes]) -> None:
        taking_names.take_names(store, hidden)
        named.extend(hidden)

    whole = Store._log

    def look(store: Store, name: bytes, **options: Any) -> Any:
        if name in named:
            raise failure(store.path, "open", errno.EIO)
        return whole(store, name, **options)

    with diskstream.open(tmp_path / "target", fsync="os") as store:
        with monkeypatch.context() as patched:
            patched.setattr(restoring, "take_names", take_names)
            patched.setattr(Store, "_log", look)
            restored = restore(backup, store.path, BOTH)
        assert named == [b"x", LONG]
        assert restored.entries == sum(len(store.stream(name)) for name in named)
        assert len(restored.streams) == 2
