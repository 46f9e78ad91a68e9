"""A page that is closed while one of its locks is held: its opening ends with the lock, and no lock is taken by it."""

import os
from pathlib import Path

import pytest

import diskstream
from diskstream import ClosedError
from diskstream.engine.files import Files
from diskstream.engine.log import CLOSED, StreamLog
from diskstream.engine.moved import ForkedError, GivenUpError, StreamMoved
from diskstream.engine.page import APPEND, FLUSH, MAINTENANCE, Page
from tests.engine.children import child
from tests.engine.interruption import open_below
from tests.engine.sample import SMALL, log_of
from tests.engine.users import looks_and_closes

LOCKS = pytest.mark.parametrize("lock", [APPEND, FLUSH, MAINTENANCE])


def opened(path: Path) -> Page:
    """As who opens a stream: settled, where it is alone."""
    page = Page.open(Files(), path)
    assert not page.alone or page.settle(page.renew())
    return page


@LOCKS
def test_the_opening_of_a_page_ends_with_the_last_lock_that_is_held_by_it(tmp_path: Path, lock: int) -> None:
    """Who came next was alone with the page, and made the locks anew of which one was held."""
    path = tmp_path / "ctl"
    page = opened(path)
    generation = page.ctl.generation
    with page.ctl.locked(lock):
        with page.ctl.locked((lock + 1) % 3):
            page.close()
        assert page.closed
        other = opened(path)
        assert other.ctl.generation == generation
        with other.ctl.locked((lock + 1) % 3, False) as is_free:
            assert is_free
        other.close()
    assert open_below(tmp_path) == []
    last = Page.open(Files(), path)
    assert last.alone
    last.close()


@LOCKS
@pytest.mark.parametrize("wait", [True, False])
def test_no_lock_is_taken_by_an_opening_that_was_given_up(tmp_path: Path, lock: int, wait: bool) -> None:
    page = opened(tmp_path / "ctl")
    page.close()
    page.close()
    with pytest.raises(GivenUpError, match="closed by another thread") as told, page.ctl.locked(lock, wait):
        pass
    assert isinstance(told.value, ClosedError)
    assert isinstance(told.value, StreamMoved)


def test_a_forked_child_leaves_the_lock_to_its_parent_whose_opening_ends_with_it(tmp_path: Path) -> None:
    path = tmp_path / "ctl"
    page = opened(path)
    with page.ctl.locked(APPEND):
        page.close()
        pid = os.fork()
        if not pid:
            try:
                with pytest.raises(ForkedError), page.ctl.locked(APPEND):
                    pass
                page.after_fork()
            except BaseException:  # noqa: BLE001  # a child of the tests goes on with none of them
                os._exit(1)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        other = Page.open(Files(), path)
        assert not other.alone
        other.close()
    last = Page.open(Files(), path)
    assert last.alone
    last.close()


def test_another_process_is_not_alone_with_a_stream_whose_store_was_closed_out_of_its_own_compaction(
    tmp_path: Path,
) -> None:
    """It made the locks anew, one of which was held."""
    store = diskstream.open(tmp_path / "s", fsync="os", seal="manual")
    for _ in range(3):
        store.stream("x").add({"n": "1"})
        store.seal()
    ctl = log_of(store).ctl
    generation = ctl.generation
    seen: list[int] = []

    def progress(_entries: int, _size_bytes: int) -> None:
        store.close()
        with child(looks_and_closes, tmp_path / "s", 3) as other:
            assert other.hear() == "closed"
        seen.append(ctl.generation)

    with pytest.raises(ClosedError):
        store.compact("x", progress=progress)
    assert seen == [generation]
    with diskstream.open(tmp_path / "s") as again:
        assert len(again.stream("x")) == 3
        assert log_of(again).ctl.generation != generation


def test_who_is_about_to_lock_a_stream_that_is_closed_just_then_looks_it_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with very many streams, of which those that nobody uses are closed."""
    really = StreamLog.locked
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        stream = store.stream("x")
        for number in range(4):
            stream.add({"n": number})
        log = log_of(store)

        def closed_just_then(chosen: StreamLog) -> object:
            monkeypatch.setattr(StreamLog, "locked", really)
            store._forget(b"x", chosen)
            chosen.abandon()
            return really(chosen)

        monkeypatch.setattr(StreamLog, "locked", closed_just_then)
        assert stream.trim(maxlen=1) == 3
        assert log.page.closed
        assert log_of(store) is not log
        assert [entry["n"] for entry in stream.range()] == [b"3"]


@pytest.mark.parametrize("fsync", ["os", "always"])
def test_an_append_that_comes_too_late_for_a_lock_changes_nothing(tmp_path: Path, fsync: str) -> None:
    """Between the look whether the log is closed and the lock: under `always` it is taken without Python's."""
    with diskstream.open(tmp_path / "s", fsync=fsync) as store:
        store.stream("x").add({"n": "1"})
        log = log_of(store)
        written = log.ctl.written
        log.page.close()
        with pytest.raises(StreamMoved):
            log.native.add({"n": "2"}, None, None, fsync == "always", False, None)
        assert log.ctl.written == written
        store._forget(b"x", log)
        assert [entry["n"] for entry in store.stream("x").range()] == [b"1"]


def test_a_flush_that_comes_too_late_for_its_lock_flushes_nothing(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s", fsync="os") as store:
        store.stream("x").add({"n": "1"})
        log = log_of(store)
        assert log.ctl.durable != log.ctl.written
        log.page.close()
        assert log.native.flush() == CLOSED
        assert log.ctl.durable != log.ctl.written
        store._forget(b"x", log)
