"""A file that cannot be read just now is not gone, not empty and not somebody else's: who took it for that removed, or
passed over, what was sound.

Found by letting single system calls fail, one after the other.
"""

import errno
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import diskstream
from diskstream import StorageError, leases
from diskstream._native import SealedSegment
from diskstream.engine import lease as lease_files
from diskstream.engine import names, recovery, spare, state
from diskstream.engine.state import View
from tests.engine.children import LIMIT_S
from tests.engine.sample import SMALL, log_of


def unread(
    monkeypatch: pytest.MonkeyPatch,
    module: ModuleType,
    which: Callable[[Path], bool],
    code: int = errno.EIO,
    times: int = 0,
) -> None:
    """Files that the disk, or the system, does not let a module read: `times` of them, or each where that is 0."""
    whole, failed = module.reading, list[Path]()

    def reading(path: Path) -> Any:
        if which(path) and not 0 < times <= len(failed):
            failed.append(path)
            raise OSError(code, os.strerror(code), str(path))
        return whole(path)

    monkeypatch.setattr(module, "reading", reading)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOMEM])
def test_a_lease_that_cannot_be_read_just_now_is_not_taken_for_an_unfinished_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """It was removed where it was older than an hour, under a reader who had it for a day."""
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        store.stream("x").add({"n": 1})
        lease = store.lease(["x"], ttl_s=86_400)
        made_s = lease.stat().st_mtime
        with monkeypatch.context() as patch:
            unread(patch, lease_files, lambda path: path.parent == lease, code)
            assert lease_files.sweep(store.path, made_s + 7_200) == []
        with diskstream.open(lease, read_only=True) as kept:
            assert len(kept.stream("x")) == 1
        assert lease_files.sweep(store.path, made_s + 7_200) == []
        assert lease_files.sweep(store.path, made_s + 90_000) == [lease]


def test_a_lease_that_is_damaged_goes_as_before(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        store.stream("x").add({"n": 1})
        lease = store.lease(["x"], ttl_s=86_400)
        described = next(path for path in lease.iterdir() if path.is_file() and "ttl_s" in path.read_text("utf-8"))
        assert json.loads(described.read_bytes())["ttl_s"] == 86_400
        described.write_bytes(b"{")
        assert lease_files.sweep(store.path, lease.stat().st_mtime + 7_200) == [lease]


@pytest.mark.parametrize("ttl_s", [10**400, float("nan")], ids=["too large", "nan"])
def test_a_lease_whose_time_is_no_number_that_a_float_holds_is_read_as_one_that_says_none(
    tmp_path: Path, ttl_s: float
) -> None:
    """Who read from it was left with an OverflowError; of one that is no number nobody said that it was over."""
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        store.stream("x").add({"n": 1})
        lease = store.lease(["x"], ttl_s=86_400)
        described = next(path for path in lease.iterdir() if path.is_file() and "ttl_s" in path.read_text("utf-8"))
        described.write_text(json.dumps({**json.loads(described.read_bytes()), "ttl_s": ttl_s}))
        assert list(leases.used(lease, [1, 2])) == [1, 2]
        assert lease_files.sweep(store.path, lease.stat().st_mtime + 7_200) == [lease]


def sealed_copies(store: diskstream.Store) -> list[bytes]:
    """The copies of snapshots in the sealed segments of stream x."""
    log = log_of(store)
    found = []
    for view in log.segments.views():
        segment = log.segments.get(view)
        assert isinstance(segment, SealedSegment)
        found.append(segment.snapshot_copy())
    return found


def test_no_segment_is_sealed_without_the_copy_of_the_snapshot_because_that_cannot_be_read_just_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was sealed without: the copy that one bad block makes needed was not there, and nobody was told."""
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        store.stream("x").add({"n": 1})
        log_of(store).roll()
        with monkeypatch.context() as patch:
            unread(patch, spare, lambda path: path.suffix == ".log")
            with pytest.raises(StorageError, match=r"could not read .*00000002\.log"):
                store.seal()
        assert not list((tmp_path / "s").rglob("*.seg*"))
        assert store.seal() >= 1
        assert all(sealed_copies(store))
        assert len(store.stream("x")) == 1


@pytest.mark.parametrize("code", [errno.EIO, errno.EMFILE])
def test_a_log_that_cannot_be_asked_whether_it_was_left_behind_is_not_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Where its successor was missing, it was taken for the active one and appended to; without descriptors the error
    was not of ours."""
    with diskstream.open(tmp_path / "s", **{**SMALL, "seal": "manual"}) as store:
        store.stream("x").add({"n": 1}, "1-0")
        log_of(store).roll()
        folder = log_of(store).directory
        store.stream("x").add({"n": 2}, "2-0")
    names.log_path(folder, 2).rename(tmp_path / "away")
    with diskstream.open(tmp_path / "s", **SMALL) as store, monkeypatch.context() as patch:
        unread(patch, recovery, lambda path: path.suffix == ".log", code, times=1)
        with pytest.raises(StorageError, match=r"00000001\.log"):
            store.stream("x").add({"n": 3}, "2-0")
    (tmp_path / "away").rename(names.log_path(folder, 2))
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        assert [int(entry["n"]) for entry in store.stream("x")] == [1, 2]


def test_a_view_that_does_not_say_of_which_boot_it_is_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was asked again and again, for ever, while it was made anew again and again."""
    view, told = View(tmp_path), list[Exception]()

    def read() -> None:
        try:
            view.read(lambda _: None)
        except Exception as error:  # noqa: BLE001  # whatever it was, this thread's owner judges it
            told.append(error)

    with monkeypatch.context() as patch:
        unread(patch, state, lambda path: path.name == "epoch")
        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        reader.join(LIMIT_S / 10)
        stuck = reader.is_alive()
    reader.join(LIMIT_S)
    assert not stuck, "it waits for an answer that does not come"
    assert isinstance(told[0], StorageError)
    assert view.read(lambda _: "read") == "read"
    view.close()
