"""What failed before anything was tried may be tried again: no file could be opened, or what is torn not be copied."""

import contextlib
import errno
import os
import threading
from pathlib import Path

import pytest

import diskstream
from diskstream import CorruptionError, DiskFullError, StorageError, Store
from diskstream.engine import torn
from diskstream.engine.files import Files, LogFileLike, NewFile
from tests.engine.sample import SMALL
from tests.streams.layers import log_of

POLICIES = ("always", "everysec", "os")


class Scarce(Files):
    """Files of a process that may open no more of them, or map them: one call fails, so many times."""

    def __init__(self, call: str, times: int = 1, *, action: str = "open", code: int = errno.EMFILE) -> None:
        self.call, self.times, self.armed = call, times, False
        self.action, self.code = action, code

    def _perhaps(self, call: str, path: Path) -> None:
        if self.armed and call == self.call and self.times:
            self.times -= 1
            raise StorageError(str(path), self.action, self.code, os.strerror(self.code))

    def sync_dir(self, path: Path) -> None:
        self._perhaps("sync_dir", path)
        super().sync_dir(path)

    def open_log(self, path: Path, *, writable: bool) -> LogFileLike:
        self._perhaps("open_log", path)
        return super().open_log(path, writable=writable)

    def create(self, path: Path) -> NewFile:
        self._perhaps("create", path)
        return super().create(path)


def opened(path: Path, files: Files, fsync: str = "everysec") -> Store:
    return diskstream.open(path, **{**SMALL, "fsync": fsync, "seal": "manual"}, files=files)


@pytest.mark.parametrize("fsync", POLICIES)
@pytest.mark.parametrize("call", ["create", "sync_dir", "open_log"])
def test_a_roll_for_which_no_file_can_be_opened_is_done_by_the_next_call(tmp_path: Path, fsync: str, call: str) -> None:
    """The stream took no more writes until all had closed it, though nothing was wrong with the disk."""
    files = Scarce(call, times=2)
    with opened(tmp_path / "s", files, fsync) as store:
        stream = store.stream("x")
        before = [stream.add({"n": number}) for number in range(6)]
        files.armed = True
        with pytest.raises(StorageError, match="Too many open files"):
            stream.seal()
        with pytest.raises(StorageError, match="Too many open files"):
            stream.add({"n": "x" * 8000})
        later = [stream.add({"n": number}) for number in range(6, 9)]
        assert [entry.id for entry in stream.range()] == [*before, *later]
        assert store.verify().problems == []
    with opened(tmp_path / "s", Files(), fsync) as again:
        assert [entry.id for entry in again.stream("x").range()] == [*before, *later]


@pytest.mark.parametrize("fsync", POLICIES)
def test_a_roll_for_which_there_is_no_memory_is_done_by_who_has_some(tmp_path: Path, fsync: str) -> None:
    """One process with a limit (ulimit -v) made all others, which had memory, take no more writes to the stream."""
    with (
        opened(tmp_path / "s", Scarce("open_log", 9, action="map", code=errno.ENOMEM), fsync) as short,
        opened(tmp_path / "s", Files(), fsync) as store,
    ):
        before = [each.stream("x").add({"n": 1}) for each in (store, short)]
        short._files.armed = True  # type: ignore[attr-defined]  # those are the scarce ones
        with pytest.raises(StorageError, match="Cannot allocate memory"):
            short.seal()
        later = [store.stream("x").add({"n": 2}) for _ in range(3)]
        short._files.armed = False  # type: ignore[attr-defined]  # those are the scarce ones
        last = short.stream("x").add({"n": 3})
        assert [entry.id for entry in store.stream("x").range()] == [*before, *later, last]
        assert len(list((tmp_path / "s" / "streams" / "x").glob("*.log"))) == 2
        assert store.verify().problems == []


class Full(Files):
    """There is no room for a copy of what is torn."""

    room = False

    def create(self, path: Path) -> NewFile:
        if not self.room and path.suffix == ".torn":
            raise DiskFullError(str(path), "write", errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().create(path)


def dies_under_the_lock(store: Store, leaves: bytes) -> None:
    """Somebody takes the stream's lock, writes a part of a frame and is gone."""
    log = log_of(store)
    dies = threading.Thread(target=contextlib.ExitStack().enter_context, args=(log.locked(),))
    dies.start()
    dies.join()
    log.file.pwrite(log.native.tail[1], leaves)


@pytest.mark.parametrize("fsync", POLICIES)
def test_what_a_killed_process_left_is_copied_and_cut_when_there_is_room(tmp_path: Path, fsync: str) -> None:
    """A full disk made the stream take no more writes, though its log was as it had been."""
    files = Full()
    with opened(tmp_path / "s", files, fsync) as store:
        stream = store.stream("x")
        first = stream.add({"n": 0})
        dies_under_the_lock(store, b"half a frame")
        for _ in range(2):
            with pytest.raises(DiskFullError):
                stream.add({"n": 1})
        quarantine = log_of(store).directory / "quarantine"
        assert list(quarantine.iterdir()) == []
        files.room = True
        second = stream.add({"n": 2})
        (kept,) = quarantine.iterdir()
        assert kept.read_bytes().startswith(b"half a frame")
        assert [entry.id for entry in stream.range()] == [first, second]


def test_rot_behind_the_end_is_not_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who took the lock of a dead one found it, told nobody, and went on where it stood."""
    with opened(tmp_path / "s", Files()) as store:
        stream = store.stream("x")
        stream.add({"n": 0})
        log = log_of(store)
        found = torn.Finding("rotten", log.directory, log.native.tail[1], 100, torn.READ_ONLY)
        dies_under_the_lock(store, b"")
        with monkeypatch.context() as patched:
            patched.setattr(torn, "settle_left", lambda *_: found)
            with pytest.raises(CorruptionError):
                stream.add({"n": 1})
        with pytest.raises(CorruptionError):
            stream.add({"n": 2})
        assert log.native.tail[1] == found.offset
