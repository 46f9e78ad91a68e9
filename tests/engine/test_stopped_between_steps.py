"""Renaming, deleting, closing and flushing that fail or are interrupted between two steps: what was there stays, and is
still made durable."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import DiskFullError, StorageError, Store, settling
from diskstream.engine.files import Files, NewFile
from diskstream.engine.log import FLAG_CHECK, FLAG_MOVED, StreamLog
from tests.engine.sample import log_of


class Failing(Files):
    """Fails in one call while it is told to."""

    def __init__(self) -> None:
        self.fails_in = ""

    def _perhaps(self, call: str, error: Callable[[], StorageError]) -> None:
        if call == self.fails_in:
            raise error()

    def rename(self, source: Path, target: Path) -> None:
        self._perhaps("rename", lambda: StorageError(str(source), "rename", 5, "planted"))
        super().rename(source, target)

    def create(self, path: Path) -> NewFile:
        self._perhaps(f"create {path.name}", lambda: DiskFullError(str(path), "create", 28, "planted"))
        return super().create(path)


def is_durable(log: StreamLog) -> bool:
    return bool(log.ctl.durable == log.ctl.written)


def flushes(store: Store) -> None:
    """What the background does once an interval."""
    keeper = store._keeper
    assert keeper is not None
    keeper._each(keeper._flush_one, FLAG_CHECK)


# --- renaming ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("new", ["y", "y" * 400])
def test_a_renaming_that_is_interrupted_before_its_last_step_leaves_the_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new: str
) -> None:
    with diskstream.open(tmp_path / "s", fsync="always") as store:
        store.stream("x").add({"x": "1"})
        kept = [store.stream(new).add({"y": "1"}) for _ in range(3)]

        whole = StreamLog.leave

        def interrupted(log: StreamLog, *given: Any, **named: Any) -> None:
            if log is log_of(store, b"x"):
                raise KeyboardInterrupt  # as it waits for a lock that a compaction elsewhere holds
            whole(log, *given, **named)

        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(StreamLog, "leave", interrupted)
            store.rename("x", new)
        assert [entry.id for entry in store.stream(new).range()] == kept
        store.rename("x", new)
        assert [len(stream) for stream in store] == [1]


def test_a_renaming_for_which_there_is_no_room_leaves_the_target(tmp_path: Path) -> None:
    files, new = Failing(), "y" * 400
    with diskstream.open(tmp_path / "s", fsync="always", files=files) as store:
        store.stream("x").add({"x": "1"})
        kept = store.stream(new).add({"y": "1"})
        files.fails_in = "create name.tmp"
        with pytest.raises(DiskFullError):
            store.rename("x", new)
        files.fails_in = ""
        assert [entry.id for entry in store.stream(new).range()] == [kept]
        assert len(store.stream("x")) == 1


# --- what failed to go is still made durable --------------------------------------------------------------------------


@pytest.mark.parametrize("work", [lambda store: store.delete("x"), lambda store: store.rename("x", "y")])
def test_a_stream_that_failed_to_go_is_flushed_on(tmp_path: Path, work: Callable[[Store], object]) -> None:
    files = Failing()
    with diskstream.open(tmp_path / "s", fsync="interval=600000", files=files) as store:
        store.stream("x").add_many([{"n": "1"}] * 3)
        log = log_of(store)
        files.fails_in = "rename"
        with pytest.raises(StorageError, match="planted"):
            work(store)
        files.fails_in = ""
        store.stream("x").add({"n": "2"})
        assert not is_durable(log)
        flushes(store)
        assert is_durable(log)


def test_an_interrupt_behind_the_word_that_a_stream_moves_takes_it_back(tmp_path: Path) -> None:
    class Interrupting:
        def __init__(self, ctl: Any) -> None:
            self._ctl = ctl

        def __getattr__(self, name: str) -> Any:
            return getattr(self._ctl, name)

        def raise_flags(self, flags: int) -> None:
            self._ctl.raise_flags(flags)
            raise KeyboardInterrupt

    with diskstream.open(tmp_path / "s", fsync="interval=600000") as store:
        store.stream("x").add({"n": "1"})
        log = log_of(store)
        ctl = log.ctl
        log.ctl = Interrupting(ctl)  # type: ignore[assignment]
        with pytest.raises(KeyboardInterrupt):
            store.delete("x")
        log.ctl = ctl
        assert not ctl.flags & FLAG_MOVED
        flushes(store)
        assert is_durable(log)


def test_a_death_under_the_lock_keeps_nobody_from_flushing(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s", fsync="interval=600000") as store:
        store.stream("x").add({"n": "1"})
        log = log_of(store)
        log.ctl.raise_flags(FLAG_CHECK)
        flushes(store)
        assert is_durable(log)


def test_one_error_ends_no_flushing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = diskstream.open(tmp_path / "s", fsync="interval=1")
    store.stream("x").add({"n": "1"})
    log, whole, failed, done = log_of(store), StreamLog.flush, threading.Event(), threading.Event()

    def flush(each: StreamLog) -> None:
        if not failed.is_set():
            failed.set()
            raise MemoryError
        whole(each)
        done.set()

    with store, monkeypatch.context() as patched:
        patched.setattr(StreamLog, "flush", flush)
        store.stream("x").add({"n": "2"})
        assert failed.wait(30)
        store.stream("x").add({"n": "3"})
        assert done.wait(30)
        assert is_durable(log)


# --- a second call goes on where the first one was interrupted --------------------------------------------------------


def test_a_store_whose_closing_was_interrupted_is_closed_by_the_next_call(tmp_path: Path) -> None:
    store = diskstream.open(tmp_path / "s", fsync="interval=600000")
    store.stream("x").add({"n": "1"})
    log, keeper = log_of(store), store._keeper
    assert keeper is not None
    stop = keeper.stop

    def interrupted() -> None:
        keeper.stop = stop  # type: ignore[method-assign]
        raise KeyboardInterrupt

    keeper.stop = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        store.close()
    assert not is_durable(log)
    store.close()
    assert is_durable(log)


def test_a_flush_that_was_interrupted_is_still_owed(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s", fsync="always") as store:
        stream = store.stream("x")
        ids = stream.add_many([{"n": number} for number in range(3)])
        group = stream.group("g", start="0")
        group.consumer("c").read(count=3)
        settling.put_off(store)
        log = log_of(store)
        group.ack(*ids)
        whole = log.flush

        def interrupted() -> None:
            log.flush = whole  # type: ignore[method-assign]
            raise KeyboardInterrupt

        log.flush = interrupted  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            settling.settle(store)
        assert not is_durable(log)
        settling.settle(store)
        assert is_durable(log)
