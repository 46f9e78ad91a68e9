"""A log that gave way to others, and is read yet: what is added to its stream meanwhile is as durable as anything."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream.engine.log import StreamLog
from diskstream.store import Store
from diskstream.stream import Stream
from tests.engine import forks
from tests.engine.children import LIMIT_S, child, until
from tests.engine.sample import SMALL, log_of

TIMELY = {**SMALL, "fsync": "interval=5"}


@contextmanager
def retired(path: Path, **options: Any) -> Iterator[tuple[Store, Stream, StreamLog]]:
    """A stream whose log was retired while an iterator, which goes on as long as this does, reads it."""
    with diskstream.open(path, **{**TIMELY, **options}, max_open_streams=1) as store:
        stream = store.stream("x")
        for number in range(3):
            stream.add({"n": number})
        log = log_of(store)
        reading = stream.range()
        next(reading)
        store.stream("y").add({"n": 0})
        assert b"x" not in store._logs
        assert not log.closed
        yield store, stream, log
        if not store.closed:
            assert len(list(reading)) == 2


def test_what_is_added_behind_it_is_durable_after_a_sync(tmp_path: Path) -> None:
    """It was added to the log that nobody looked after, and `sync` returned without a flush."""
    with retired(tmp_path / "s", fsync="os") as (store, stream, log):
        stream.add({"n": 3})
        store.sync()
        log.refresh()
        assert log.native.is_durable


def test_what_is_added_behind_it_goes_to_a_log_that_is_kept(tmp_path: Path) -> None:
    with retired(tmp_path / "s") as (store, stream, _):
        stream.add({"n": 3})
        assert b"x" in store._logs


def test_what_a_thread_adds_that_had_it_is_flushed_on_time(tmp_path: Path) -> None:
    with retired(tmp_path / "s") as (_, _, log):
        log.native.add({"n": 3}, None, None, False, False, None)
        until(lambda: log.native.is_durable)


def test_what_a_thread_adds_that_had_it_is_durable_after_a_sync(tmp_path: Path) -> None:
    with retired(tmp_path / "s", fsync="os") as (store, _, log):
        log.native.add({"n": 3}, None, None, False, False, None)
        store.sync()
        assert log.native.is_durable


def test_it_is_closed_with_its_store(tmp_path: Path) -> None:
    """Entries were still added, and the directory stayed in use."""
    with retired(tmp_path / "s") as (store, stream, log):
        log.native.add({"n": 3}, None, None, False, False, None)
        store.close()
        assert log.has_let_go
        with pytest.raises(diskstream.ClosedError):
            stream.add({"n": 4})
    with diskstream.open(tmp_path / "s", **TIMELY) as store:
        assert [dict(entry.fields) for entry in store.stream("x")] == [{b"n": b"%d" % number} for number in range(4)]


def test_it_is_the_parents_in_a_child(tmp_path: Path) -> None:
    with child(forks.fork_with_a_retired_log, tmp_path / "s") as parent:
        assert parent.hear() == "0"
        assert parent.wait() == 0


def test_who_used_it_last_and_its_store_do_not_close_it_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both would give up the same descriptor, whose number may be another file's by then."""
    with retired(tmp_path / "s") as (store, _, log):
        began: list[str] = []
        other = threading.Thread(target=log.close)

        def close_cleanly(_: StreamLog) -> None:
            began.append(threading.current_thread().name)
            if len(began) == 1:
                other.start()
                other.join(0.2)

        monkeypatch.setattr(StreamLog, "_close_cleanly", close_cleanly)
        log.close()
        other.join()
        assert began == [threading.current_thread().name]
        monkeypatch.undo()
        store.close()


def test_one_that_garbage_collection_comes_to_under_the_lock_of_its_stream_is_let_go_of(tmp_path: Path) -> None:
    """Its thread could not have the lock again: the page stayed locked, and nobody was ever alone with the stream."""
    path = tmp_path / "s"
    with diskstream.open(path, **TIMELY, max_open_streams=1) as store:
        store.stream("x").add({"n": 0})
        held = [log_of(store)]
        store.stream("y").add({"n": 0})
        assert b"x" not in store._logs
        with log_of(store).locked():
            held.clear()
        for thread in threading.enumerate():
            if thread.name == "diskstream-leaving":
                thread.join(LIMIT_S)
    with diskstream.open(path, **TIMELY) as store:
        assert log_of(store).opened_alone
        assert store.recoveries == []


@pytest.mark.parametrize("read_only", [False, True])
def test_one_that_was_closed_is_freed_without_a_step_of_python_code(tmp_path: Path, *, read_only: bool) -> None:
    """A signal is heard at the first one behind what is freed natively. In a `__del__` its handler's error is lost: who
    opened many streams in turn was not stopped by one Ctrl-C of twenty.
    """
    with diskstream.open(tmp_path / "s", **TIMELY) as store:
        store.stream("x").add({"n": 0})
    with diskstream.open(tmp_path / "s", **TIMELY, read_only=read_only) as store:
        store.stream("x").last_id()
        held, _keeper = [log_of(store)], store._keeper  # which has threads, and stays with an open store
    steps: list[str] = []
    sys.setprofile(lambda frame, event, _: steps.append(frame.f_code.co_qualname) if event == "call" else None)
    try:
        held.clear()
    finally:
        sys.setprofile(None)
    assert steps == ["StreamLog.__del__"]  # the first of all, before anything is freed
