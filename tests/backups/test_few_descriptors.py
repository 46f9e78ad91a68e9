"""Backups where there are fewer descriptors than segments, or too little memory: nothing sound is called damaged."""

import errno
import os
from collections.abc import Callable
from io import FileIO
from pathlib import Path

import pytest

import diskstream
from diskstream import StorageError
from diskstream.backups import Repository, make_backup
from diskstream.engine import backup
from tests.backups.processes import back_up_short
from tests.engine.children import child
from tests.streams.layers import SMALL


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with diskstream.open(tmp_path / "store", **SMALL) as opened:
        for number in range(50):
            for part in range(3):
                opened.stream(f"stream {number}").add({"n": part})
                opened.seal(f"stream {number}")
    return tmp_path / "store"


def test_more_segments_than_descriptors_are_kept_whole(store: Path, tmp_path: Path) -> None:
    """Those that came when all descriptors were taken were damaged in the backup, which could not be restored."""
    with child(back_up_short, store, tmp_path / "backups") as user:
        assert user.hear() == "50 0 150"
        assert user.hear() == "0"


@pytest.mark.parametrize("where", ["summary", "segments"])
def test_a_backup_without_descriptors_fails_and_has_no_name(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """It was made, with streams that are damaged in it."""

    def refuse(*_: object, **__: object) -> None:
        raise StorageError("a file", "open", errno.EMFILE, os.strerror(errno.EMFILE))

    target = {"summary": "diskstream.stream.Stream.summary", "segments": "diskstream.engine.verify.open_sealed"}[where]
    monkeypatch.setattr(target, refuse)
    with pytest.raises(StorageError, match="Too many open files"):
        make_backup(store, tmp_path / "backups")
    monkeypatch.undo()
    assert Repository.open(tmp_path / "backups").backups() == []
    assert not make_backup(store, tmp_path / "backups").damaged


def backed_up(store: Path) -> None:
    make_backup(store, store.parent / "backups")


def verified(store: Path) -> None:
    diskstream.verify(store)


def verified_open(store: Path) -> None:
    with diskstream.open(store, **SMALL) as opened:
        opened.verify()


@pytest.mark.parametrize(
    ("does", "what"),
    [
        (backed_up, "diskstream.engine.backup._own"),
        (backed_up, "diskstream.stream.Stream.summary"),
        (backed_up, "diskstream.engine.verify.open_sealed"),
        (verified, "diskstream.engine.verify.open_sealed"),
        (verified, "diskstream.engine.verify_store.StreamLog"),
        (verified_open, "diskstream.verifying.verify_log"),
    ],
)
def test_where_there_is_no_memory_nothing_is_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: Callable[[Path], None], what: str
) -> None:
    """What could not be mapped under `ulimit -v` was: a backup counted as damaged, and `verify` spoke of a repair."""
    with diskstream.open(tmp_path / "store", **SMALL) as store:
        store.stream("x").add({"n": 1})
        store.seal("x")

    whole = backup._own

    def hungry(of: object, *_: object, **__: object) -> FileIO:
        if isinstance(of, Path) and of.name == "store.json":  # without which there is no backup, in any case
            return whole(of)
        raise StorageError(str(of), "map", errno.ENOMEM, os.strerror(errno.ENOMEM))

    with monkeypatch.context() as patched:
        patched.setattr(what, hungry)
        with pytest.raises(StorageError, match="Cannot allocate memory"):
            does(tmp_path / "store")
    assert not (tmp_path / "backups").exists() or Repository.open(tmp_path / "backups").backups() == []
    assert diskstream.verify(tmp_path / "store").ok
