"""Renaming, deleting, closing and flushing that fail or are interrupted between two steps: what was there stays, and is
still made durable."""

import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import ClosedError, DiskFullError, EntryID, StorageError, Store, settling
from diskstream.engine.files import Files, NewFile
from diskstream.engine.log import StreamLog
from diskstream.engine.page import FLAG_CHECK, FLAG_MOVED, MAINTENANCE
from diskstream.engine.state import open_view
from tests.engine.children import LIMIT_S, until
from tests.engine.sample import log_of
from tests.engine.stand_ins import Watched, failure


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


def interrupt_once(where: object, name: str) -> None:
    """The next call of a method is interrupted as it begins; the one behind it is whole."""

    def interrupted(*_: object) -> None:
        delattr(where, name)
        raise KeyboardInterrupt

    setattr(where, name, interrupted)


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


def test_a_renaming_whose_last_step_fails_brings_the_target_back(tmp_path: Path) -> None:
    class FailingLast(Failing):
        """Takes the target's name away, and gives it to nobody."""

        def rename(self, source: Path, target: Path) -> None:
            if source.name == "x":
                self._perhaps("last", lambda: StorageError(str(source), "rename", 5, "planted"))
            super().rename(source, target)

    files = FailingLast()
    with (
        diskstream.open(tmp_path / "s", fsync="always", files=files) as store,
        diskstream.open(tmp_path / "s", fsync="always") as other,
    ):
        store.stream("x").add({"x": "1"})
        kept = [each.stream("y").add({"y": "1"}) for each in (store, other)]
        files.fails_in = "last"
        with pytest.raises(StorageError, match="planted"):
            store.rename("x", "y")
        files.fails_in = ""
        kept += [each.stream("y").add({"y": "2"}) for each in (store, other)]
        assert [entry.id for entry in store.stream("y").range()] == kept
        assert len(store.stream("x")) == 1
    with diskstream.open(tmp_path / "s") as store:
        assert [entry.id for entry in store.stream("y").range()] == kept
        assert store.verify().problems == []


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
        log.ctl = Interrupting(ctl)  # type: ignore[assignment]  # a stand-in
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
        until(lambda: is_durable(log))  # what went before it may have been all that this flush found


# --- what the view knows of a stream ----------------------------------------------------------------------------------


def with_rows(store: Store) -> list[EntryID]:
    """Makes a stream of which the view has more rows than the log keeps in memory. Returns what is pending."""
    stream = store.stream("x")
    ids = stream.add_many([{"n": number} for number in range(40)])
    stream.group("g", start="0").consumer("c").read(count=40)
    stream.seal()
    return ids


def rows_of(store: Store, uuid: bytes) -> list[bytes]:
    """The keys of what the view has of a stream."""

    def look(txn: Any) -> list[bytes]:
        return [bytes(key) for key, _ in txn.cursor() if bytes(key).startswith(uuid)]

    return open_view(store.path / "view").read(look)


@pytest.mark.parametrize("reopened", [False, True])
def test_a_stream_that_failed_to_go_has_what_was_pending(tmp_path: Path, reopened: bool) -> None:
    files = Failing()
    with diskstream.open(tmp_path / "s", pending_rows=4, files=files) as store:
        ids = with_rows(store)
        files.fails_in = "rename"
        with pytest.raises(StorageError, match="planted"):
            store.delete("x")
        files.fails_in = ""
        if not reopened:
            assert [row.id for row in store.stream("x").group("g", create=False).pending_range(count=40)] == ids
    with diskstream.open(tmp_path / "s", pending_rows=4) as store:
        assert [row.id for row in store.stream("x").group("g", create=False).pending_range(count=40)] == ids


@pytest.mark.parametrize(
    "work",
    [
        lambda store: store.delete("x"),
        lambda store: store._delete(b"x", lambda _: True),
        lambda store: store._delete_all([b"x"]),
        lambda store: (store.stream("y").add({"n": "1"}), store.rename("y", "x")),
    ],
)
def test_nothing_of_a_stream_that_went_is_left_in_the_view(tmp_path: Path, work: Callable[[Store], object]) -> None:
    with diskstream.open(tmp_path / "s", pending_rows=4) as store:
        with_rows(store)
        uuid = log_of(store).native.uuid
        assert rows_of(store, uuid)
        work(store)
        assert rows_of(store, uuid) == []


def test_nor_is_anything_of_one_that_went_without_being_opened(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s", pending_rows=4) as store:
        with_rows(store)
        uuid = log_of(store).native.uuid
    with diskstream.open(tmp_path / "s", pending_rows=4) as store:
        assert rows_of(store, uuid)
        store._delete_all([b"x"])
        assert rows_of(store, uuid) == []


# --- a second call goes on where the first one was interrupted --------------------------------------------------------


def test_a_store_whose_closing_was_interrupted_is_closed_by_the_next_call(tmp_path: Path) -> None:
    store = diskstream.open(tmp_path / "s", fsync="interval=600000")
    store.stream("x").add({"n": "1"})
    log = log_of(store)
    interrupt_once(store._keeper, "stop")
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
        interrupt_once(log, "flush")
        with pytest.raises(KeyboardInterrupt):
            settling.settle(store)
        assert not is_durable(log)
        settling.settle(store)
        assert is_durable(log)


def test_a_store_that_two_threads_close_is_closed_when_either_call_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = diskstream.open(tmp_path / "s", fsync="interval=600000")
    for name in ("x", "y"):
        store.stream(name).add({"n": "1"})
    logs = [log_of(store, name) for name in (b"x", b"y")]
    in_first, go_on = threading.Event(), threading.Event()
    seen: list[bool] = []
    whole = StreamLog.close

    def close(log: StreamLog) -> None:
        in_first.set()
        go_on.wait(30)
        whole(log)

    monkeypatch.setattr(StreamLog, "close", close)

    def second() -> None:
        store.close()
        seen.extend(is_durable(log) for log in logs)

    threads = [threading.Thread(target=work) for work in (store.close, second)]
    threads[0].start()
    assert in_first.wait(30)
    threads[1].start()
    assert not seen
    go_on.set()
    for thread in threads:
        thread.join(30)
    assert seen == [True, True]


def test_a_store_whose_last_flush_failed_is_closed(tmp_path: Path) -> None:
    ill = threading.Event()

    def broken(kind: str, path: Path) -> None:
        if ill.is_set() and kind == "flush":
            raise failure(path, kind, errno.EIO)

    store = diskstream.open(tmp_path / "s", fsync="interval=600000", files=Watched(broken))
    store.stream("x").add({"n": "1"})
    ill.set()
    with pytest.raises(StorageError):
        store.close()
    store.close()
    with pytest.raises(ClosedError):
        store.streams()


def test_who_closes_does_not_wait_for_another_who_compacts(tmp_path: Path) -> None:
    """What is to be removed is left to a later look: a compaction may take hours."""
    done = threading.Event()
    with diskstream.open(tmp_path / "s") as store, diskstream.open(tmp_path / "s") as other:
        store.stream("x").add({"n": "1"})
        keeper, log = store._keeper, log_of(store)
        assert keeper is not None

        def attend() -> None:
            keeper._attend(log)
            done.set()

        with log_of(other).ctl.locked(MAINTENANCE):
            looks = threading.Thread(target=attend)
            looks.start()
            attended = done.wait(30)
        looks.join(30)
        assert attended


# --- who looks after a stream -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("started", [0, 1])
def test_a_stream_that_nobody_looks_after_takes_nothing_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: int
) -> None:
    """Else what is added is not flushed in time, by no one, and the last interval is not all that a power cut takes."""
    whole = threading.Thread.start
    begun: list[threading.Thread] = []

    def start(thread: threading.Thread) -> None:
        if len(begun) == started:
            raise RuntimeError("can't start new thread")
        begun.append(thread)
        whole(thread)

    with diskstream.open(tmp_path / "s", fsync="everysec") as store:
        monkeypatch.setattr(threading.Thread, "start", start)
        with pytest.raises(StorageError, match=r"could not start a thread for .*new thread"):
            store.stream("x").add({"n": "1"})
        monkeypatch.undo()
        for thread in begun:
            thread.join(LIMIT_S)
            assert not thread.is_alive()
        store.stream("x").add({"n": "2"})
        names = {thread.name for thread in threading.enumerate()}
        assert {"diskstream-flush", "diskstream-keeper"} <= names
        assert [entry["n"] for entry in store.stream("x").range()] == [b"2"]


@pytest.mark.parametrize("stumble", [KeyError("<Thread>"), RuntimeError("release unlocked lock")], ids=repr)
@pytest.mark.parametrize("raised", [TimeoutError, KeyboardInterrupt])
def test_a_signal_as_a_thread_begins_is_heard_as_what_its_handler_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stumble: Exception, raised: type[BaseException]
) -> None:
    """`Thread.start` raises such errors behind it: Ctrl-C was told as a system without more threads."""
    whole = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        whole(thread)
        stumble.__context__ = raised()
        raise stumble

    with diskstream.open(tmp_path / "s", fsync="everysec") as store:
        monkeypatch.setattr(threading.Thread, "start", start)
        with pytest.raises(raised):
            store.stream("x").add({"n": "1"})
        monkeypatch.undo()
        store.stream("x").add({"n": "2"})
        assert [entry["n"] for entry in store.stream("x").range()] == [b"2"]


def test_that_there_are_too_many_threads_is_told_to_who_handles_another_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That error is no signal's, though this one comes in its context."""

    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with diskstream.open(tmp_path / "s") as store:
        monkeypatch.setattr(threading.Thread, "start", start)
        try:
            int("nothing")
        except ValueError:
            with pytest.raises(StorageError, match=r"could not start a thread for .*new thread"):
                store.stream("x").add({"n": "1"})
        monkeypatch.undo()
