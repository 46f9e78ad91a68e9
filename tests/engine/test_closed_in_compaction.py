"""A store that is closed while another thread compacts: the locks of a page stay while one of them is held."""

import contextlib
import threading
from pathlib import Path

import pytest

import diskstream
from diskstream import ClosedError, DiskstreamError
from diskstream.engine.page import MAINTENANCE, Page
from tests.engine.children import child, until
from tests.engine.users import looks_and_closes

_PATIENCE_S = 0.3  # for a close that does not wait, as it should


def test_the_page_is_given_up_when_the_compaction_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who opened it next was alone and made the locks anew, one of which was held: the process ended by SIGSEGV."""
    store = diskstream.open(tmp_path / "s", fsync="os", seal="manual")
    stream = store.stream("x")
    for _ in range(3):
        stream.add({"n": "1"})
        stream.seal()
    page = store._log(b"x", create=False).page  # type: ignore[union-attr]  # it is there
    happened: list[str] = []
    give_up = Page.close

    def close(given: Page) -> None:
        if given is page:
            happened.append("closed")
        give_up(given)

    monkeypatch.setattr(Page, "close", close)
    closer = threading.Thread(target=store.close)

    def progress(_entries: int, _size_bytes: int) -> None:
        if not happened:
            happened.append("compacting")
            closer.start()
            closer.join(_PATIENCE_S)
            happened.append("compacted")

    with contextlib.suppress(DiskstreamError):
        store.compact("x", progress=progress)
    assert happened
    closer.join()
    # The lock is given up in `compact`; the page only behind that.
    assert happened == ["compacting", "compacted", "closed"]


def test_a_compaction_ends_early_for_who_closes_the_store(tmp_path: Path) -> None:
    store = diskstream.open(tmp_path / "s", fsync="os", seal="manual", node_max_entries=4)
    stream = store.stream("x")
    for _ in range(3):
        stream.add_many([{"n": "1"}] * 100)
        stream.seal()
    log = store._log(b"x", create=False)
    assert log is not None
    closer = threading.Thread(target=store.close)
    told: list[int] = []

    def progress(entries: int, _size_bytes: int) -> None:
        told.append(entries)
        if len(told) == 1:
            closer.start()
            until(lambda: log.closed)

    with pytest.raises(ClosedError):
        store.compact("x", progress=progress)
    closer.join()
    assert len(told) == 1
    with diskstream.open(tmp_path / "s") as again:
        assert len(again.stream("x")) == 300


def test_a_store_can_be_closed_out_of_its_own_compaction(tmp_path: Path) -> None:
    store = diskstream.open(tmp_path / "s", fsync="os", seal="manual")
    for _ in range(3):
        store.stream("x").add({"n": "1"})
        store.seal()
    with pytest.raises(ClosedError):
        store.compact("x", progress=lambda _entries, _size_bytes: store.close())
    with diskstream.open(tmp_path / "s") as again:
        assert len(again.stream("x")) == 3


def test_nobody_waits_for_what_another_process_has_under_way(tmp_path: Path) -> None:
    """It may be a compaction of minutes; and that process has the page open, so its locks stay."""
    with diskstream.open(tmp_path / "s", fsync="os") as store:
        store.stream("x").add({"n": "1"})
        log = store._log(b"x", create=False)
        assert log is not None
        with log.ctl.locked(MAINTENANCE):
            assert log.ctl.is_maintained_here
            with child(looks_and_closes, tmp_path / "s") as other:
                assert other.hear() == "closed"
        assert not log.ctl.is_maintained_here
