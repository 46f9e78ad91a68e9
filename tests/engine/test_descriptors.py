"""Where there are no more descriptors: who gives up what, and who is left alone."""

import contextlib
import errno
import gc
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import diskstream
from diskstream import ClosedError, PoisonedError, StorageError, Store
from diskstream.engine import descriptors, kept_open, verify
from diskstream.engine.files import Files, open_regular, wrapped
from diskstream.engine.log import StreamLog
from diskstream.engine.page import APPEND
from tests.engine.interruption import Interruption, open_below
from tests.engine.sample import SMALL
from tests.streams.layers import log_of


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_keepers: None) -> Iterator[Store]:
    """A store with five streams, each with a sealed segment and one that is written to; all are open.

    Nobody else in the process is asked: what other tests have left open until a collection would go first. And no
    keeper looks at them: the log that it happens to look at is in use, and stays.
    """
    monkeypatch.setattr(descriptors, "_SEGMENTS", [])
    monkeypatch.setattr(descriptors, "_LOGS", [])
    with diskstream.open(tmp_path / "s", **{**SMALL, "fsync": "interval=600000", "seal": "manual"}) as opened:
        for name in "abcde":
            opened.stream(name).add({"n": 1})
            opened.seal(name)
            opened.stream(name).add({"n": 2})
            assert len(list(opened.stream(name).range())) == 2
        for name in "abcde":
            log_of(opened, name).was_used = False
        yield opened


def short(times: int) -> Callable[[], str]:
    """What fails so many times for want of a descriptor."""
    left = iter(range(times))

    def attempt() -> str:
        if next(left, None) is not None:
            raise StorageError("a file", "open", errno.EMFILE, os.strerror(errno.EMFILE))
        return "open"

    return attempt


def test_segments_go_before_logs_and_those_used_last_go_last(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptors, "_AT_ONCE", 2)
    list(store.stream("a").range())
    kept = list(store._cache._open)
    assert descriptors.tried_again(short(2)) == "open"
    assert list(store._cache._open) == kept[4:]
    assert len(store._logs) == 5
    descriptors.tried_again(short(2))  # the last segment, and two logs, but for the one that was used meanwhile
    assert not store._cache._open
    assert set(store._logs) == {b"a", b"d", b"e"}


def test_of_more_segments_than_may_be_open_those_used_last_stay(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_open, "_MAX_OPEN", 2)
    for name in "abcdea":
        store._cache.drop_owner(log_of(store, name).segments._owner)
        assert [entry["n"] for entry in store.stream(name).range()] == [b"1", b"2"]
    assert [key[0] for key in store._cache._open] == [log_of(store, name).segments._owner for name in "ea"]


def test_a_segment_that_somebody_reads_is_not_given_up(store: Store) -> None:
    """It would stay open all the same, and count as a descriptor that there is now."""
    key, read = next(iter(store._cache._open.items()))
    assert store._cache._give_up(100) == 4
    assert store._cache.get(key) is read


def test_what_is_used_stays_open_and_the_error_is_told(store: Store) -> None:
    entries = iter(store.stream("c").range())
    next(entries)
    log, segments = log_of(store, "c"), len(store._cache._open)
    with pytest.raises(StorageError, match="Too many open files"):
        descriptors.tried_again(short(1000))
    assert list(store._logs) == [b"c"]
    assert not log.closed
    assert len(store._cache._open) < segments
    assert next(entries)["n"] == b"2"


def test_what_was_closed_is_durable_and_needs_no_recovery(store: Store) -> None:
    pages = {name: log.ctl for name, log in store._logs.items()}
    with contextlib.suppress(StorageError):
        descriptors.tried_again(short(1000))
    assert not store._logs
    assert all(page.durable == page.written for page in pages.values())
    assert [len(list(stream.range())) for stream in store] == [2] * 5
    assert store.recoveries == []


def test_the_lock_of_a_log_is_not_waited_for(store: Store) -> None:
    """Who asks may have the lock of one stream, and who has the lock of another may be waiting for that."""
    page = log_of(store, "b").ctl
    with page.locked(APPEND), contextlib.suppress(StorageError):
        descriptors.tried_again(short(1000))
    assert list(store._logs) == [b"b"]
    store.stream("b").add({"n": 3})
    assert len(store.stream("b")) == 3


def test_a_log_that_takes_no_more_writes_stays_open_to_say_so(store: Store) -> None:
    log_of(store, "d").ctl.poison("a disk failed")
    with contextlib.suppress(StorageError):
        descriptors.tried_again(short(1000))
    assert list(store._logs) == [b"d"]
    with pytest.raises(PoisonedError):
        store.stream("d").add({"n": 3})
    with pytest.raises(PoisonedError):
        store.close()


def test_another_error_closes_nothing(store: Store, tmp_path: Path) -> None:
    segments = len(store._cache._open)
    with pytest.raises(StorageError, match="no regular file"), wrapped(tmp_path, "open"):
        open_regular(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "none")
    assert len(store._cache._open) == segments
    assert len(store._logs) == 5


def test_verify_tells_no_fault_where_descriptors_are_missing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment that could not be opened was told as one that cannot be read."""

    def refuse(*_: object, **__: object) -> None:
        short(1)()

    monkeypatch.setattr(verify, "open_sealed", refuse)
    with pytest.raises(StorageError, match="Too many open files"):
        store.verify()


def test_of_more_streams_than_may_be_open_the_one_in_use_stays(tmp_path: Path) -> None:
    """It was the one opened first that went: a stream in constant use was closed and opened again in every round."""
    with diskstream.open(tmp_path / "s", **SMALL, max_open_streams=3) as store:
        store.stream("busy").add({"n": 0})
        log = log_of(store, "busy")
        for number in range(10):
            store.stream("busy").add({"n": number})
            store.stream(str(number)).add({"n": number})
            assert len(store._logs) <= 3
        assert log_of(store, "busy") is log
        for number in range(3):  # which nobody uses now
            store.stream(str(number)).add({"n": number})
        for number in range(3, 6):
            store.stream(str(number)).add({"n": number})
        assert b"busy" not in store._logs


def test_a_stream_that_is_kept_keeps_nothing_of_a_log_that_was_closed(tmp_path: Path) -> None:
    """Each that had added kept its log mapped, however few streams may be open; the system has some 65,000 mappings."""

    def mapped() -> int:
        return sum(str(tmp_path) in line for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines())

    with diskstream.open(tmp_path / "s", **SMALL, max_open_streams=2) as store:
        kept = [store.stream(str(number)) for number in range(20)]
        for stream in kept:
            stream.add({"n": 0})
        gc.collect()
        assert mapped() <= 2 * (2 + 1) + 1  # of each log itself and its page, one being opened, and the store's page
        for stream in kept:
            stream.add({"n": 1})
            assert len(stream) == 2
    gc.collect()
    assert mapped() <= 1
    with pytest.raises(ClosedError):
        kept[-1].add({"n": 2})


def test_an_interrupt_at_any_moment_of_an_opening_leaves_nothing_open(tmp_path: Path) -> None:
    """Behind a native call the interpreter looks for signals before anybody has what it returned."""
    path = tmp_path / "file"
    path.touch()
    for nth in itertools.count(1):
        interruption, fd = Interruption(nth), -1
        with contextlib.suppress(KeyboardInterrupt):
            interruption.begin()
            try:
                fd = descriptors.opened(str(path), os.O_RDONLY)  # of a path the name is asked for, and interrupted
            finally:
                interruption.end()
        interruption.end()  # which may have been interrupted itself
        if fd >= 0:
            os.close(fd)
        assert open_below(tmp_path) == [], interruption.place
        if interruption.left > 0:
            break
    assert nth > 2


def test_an_interrupted_opening_of_a_stream_keeps_nothing_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its page has a number alone, and a lock by it: whoever's alarms raised in openings ran out of descriptors."""
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # a few come as something is freed, and are printed
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        store.stream("x").add({"n": "1"})
        beside, before = log_of(store).directory, open_below(tmp_path)
        for nth in itertools.count(1):
            interruption, log = Interruption(nth), None
            with contextlib.suppress(KeyboardInterrupt):
                interruption.begin()
                try:
                    log = StreamLog(beside, Files(), store.options, read_only=False)
                finally:
                    interruption.end()
            interruption.end()  # which may have been interrupted itself
            if log is not None:
                log.abandon()
            assert open_below(tmp_path) == before, interruption.place
            if interruption.left > 0:
                break
        assert nth > 50
