"""A store that is closed while another thread compacts: the locks of a page stay while one of them is held."""

import contextlib
import threading
from pathlib import Path

import pytest

import diskstream
from diskstream import DiskstreamError
from diskstream.engine.page import Page

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
