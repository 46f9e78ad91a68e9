"""A disk, or a system, that says no once while a repair looks: what is sound is neither made anew nor renamed."""

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import StorageError
from diskstream.engine import files, names
from diskstream.engine.files import Files, LogFileLike
from tests.engine.sample import SMALL
from tests.engine.stand_ins import say_nothing_of_errors, unlisted

LONG = b"a long name " * 20


def made(path: Path, name: bytes = b"x") -> Path:
    with diskstream.open(path, **SMALL) as store:
        store.stream(name).add({"n": 1}, "1-0")
    return path


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOMEM])
def test_a_name_that_cannot_be_read_once_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """The stream got another name, and its own was gone."""
    store, whole, failed = made(tmp_path / "s", LONG), files.reading, list[Path]()

    def reading(path: Path) -> Any:
        if path.name == "name" and not failed:
            failed.append(path)
            raise OSError(code, os.strerror(code), str(path))
        return whole(path)

    with monkeypatch.context() as patch:
        patch.setattr(names, "reading", reading)
        if code == errno.EIO:
            assert [(each.stream, each.actions) for each in diskstream.repair(store)] == [(LONG, [])]
        else:
            with pytest.raises(StorageError, match=r"could not open .*name: Cannot allocate memory"):
                list(diskstream.repair(store))
    assert failed
    with diskstream.open(store) as opened:
        assert opened.streams() == [LONG]


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOMEM, errno.ENOLCK])
def test_a_log_that_was_read_whole_and_cannot_be_mapped_is_not_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """It was, and a copy of it was kept in quarantine, as if something had been damaged."""
    store = made(tmp_path / "s")

    class Unmapped(Files):
        def open_log(self, path: Path, *, writable: bool) -> LogFileLike:  # the signature is that of all
            raise StorageError(str(path), "map", code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr("diskstream.engine.repair.Files", Unmapped)
        (report,) = diskstream.repair(store)
        assert "could not map" in report.failed
        assert report.actions == []
    assert not list(store.rglob("quarantine"))
    assert [each.actions for each in diskstream.repair(store)] == [[]]


@pytest.mark.parametrize("call", ["iterdir", "stat"])
def test_whatever_look_at_the_store_fails_the_error_is_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """It was a plain `OSError`."""
    store, whole = made(tmp_path / "s"), getattr(Path, call)

    def failing(path: Path, **named: Any) -> Any:
        if path == store / "streams":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return whole(path, **named)

    with monkeypatch.context() as patch:
        say_nothing_of_errors(patch)
        patch.setattr(Path, call, failing)
        with pytest.raises(StorageError, match="Input/output error"):
            list(diskstream.repair(store))


def test_a_page_that_cannot_be_locked_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was a plain `OSError`, without the name of a file."""
    store = made(tmp_path / "s")

    def failing(_fd: int, operation: int) -> None:
        if operation & fcntl.LOCK_EX:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", failing)
        with pytest.raises(StorageError, match=r"could not lock .*ctl"):
            list(diskstream.repair(store))


@pytest.mark.parametrize("work", [lambda store: list(diskstream.repair(store)), diskstream.verify])
def test_a_store_that_cannot_be_listed_is_told_of(tmp_path: Path, work: Callable[[Path], Any]) -> None:
    """It was a plain `OSError`: the stores of a server are looked for below it."""
    store = made(tmp_path / "s")
    with unlisted(store), pytest.raises(StorageError, match="Input/output error"):
        work(store)
    assert diskstream.verify(store).ok


def test_a_store_of_the_server_that_was_being_made_is_no_fault(tmp_path: Path) -> None:
    """Verification said that its store.json was missing, where the server was killed or refused before it was there."""
    store = made(tmp_path / "s")
    (store / "keys" / "streams").mkdir(parents=True)
    (store / "db1" / "streams").mkdir(parents=True)
    assert diskstream.verify(store).problems == []
    assert [report.actions for report in diskstream.repair(store)] == [[]]
    made(store / "db1", b"lost")
    (store / "db1" / "store.json").unlink()
    assert [problem.path for problem in diskstream.verify(store).problems] == [store / "db1" / "store.json"]
    assert any("store.json is missing" in each for report in diskstream.repair(store) for each in report.actions)
    assert diskstream.verify(store).ok


def test_a_stream_of_which_neither_name_nor_files_can_be_read_is_told_of(tmp_path: Path) -> None:
    """Verification passed it over."""
    store = made(tmp_path / "s", LONG)
    folder = store / "streams" / names.encode_name(LONG)
    (folder / "name").write_bytes(b"?")
    with unlisted(folder):
        assert [problem.path for problem in diskstream.verify(store).problems] == [folder]
