"""What is used after its store was closed says so; what was read before stays what it was."""

import gc
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest

import diskstream
from diskstream import ClosedError, CorruptionError, Store, Stream
from diskstream.engine.page import Page
from tests.engine.children import child
from tests.engine.interruption import open_below
from tests.engine.sample import SMALL, build, log_of, rows
from tests.engine.users import end_before_a_flush

Use = Callable[[Store, Stream], object]

USES: dict[str, Use] = {
    "stream": lambda store, stream: store.stream("y"),
    "streams": lambda store, stream: store.streams(),
    "iteration": lambda store, stream: list(store),
    "exists": lambda store, stream: store.exists("x"),
    "in": lambda store, stream: "x" in store,
    "delete": lambda store, stream: store.delete("x"),
    "rename": lambda store, stream: store.rename("x", "y"),
    "read": lambda store, stream: store.read({"x": "0"}),
    "sync": lambda store, stream: store.sync(),
    "seal": lambda store, stream: store.seal(),
    "compact": lambda store, stream: store.compact(),
    "verify": lambda store, stream: store.verify(),
    "add": lambda store, stream: stream.add({"n": "1"}),
    "add durably": lambda store, stream: stream.add({"n": "1"}, durable=True),
    "add to a new stream": lambda store, stream: Stream(store, b"new").add({"n": "1"}),
    "add, trimming": lambda store, stream: stream.add({"n": "1"}, maxlen=2),
    "add_many": lambda store, stream: stream.add_many([{"n": "1"}]),
    "range": lambda store, stream: list(stream.range()),
    "revrange": lambda store, stream: list(stream.revrange(count=1)),
    "iteration of a stream": lambda store, stream: list(stream),
    "get": lambda store, stream: stream.get("1-7"),
    "read a stream": lambda store, stream: stream.read("0"),
    "blocking read": lambda store, stream: stream.read("$", block=0),
    "tail": lambda store, stream: list(stream.tail(block=0.01)),
    "len": lambda store, stream: len(stream),
    "delete entries": lambda store, stream: stream.delete("1-7"),
    "trim": lambda store, stream: stream.trim(maxlen=1),
    "set_id": lambda store, stream: stream.set_id("900-0"),
    "info": lambda store, stream: stream.info(),
    "columns": lambda store, stream: stream.columns(),
    "seal a stream": lambda store, stream: stream.seal(),
    "compact a stream": lambda store, stream: stream.compact(),
    "with": lambda store, stream: store.__enter__().streams(),
}


@pytest.mark.parametrize("read_only", [False, True], ids=["writing", "read-only"])
@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
def test_every_use_after_close_says_that_the_store_is_closed(tmp_path: Path, use: Use, read_only: bool) -> None:
    store = diskstream.open(tmp_path / "s", **SMALL)
    store.stream("x").add({"n": "1"})
    if read_only:
        store.close()
        store = diskstream.open(tmp_path / "s", read_only=True)
    stream = store.stream("x")
    assert len(stream) == 1
    store.close()
    with pytest.raises(ClosedError, match="is closed") as caught:
        use(store, stream)
    assert str(tmp_path / "s") in str(caught.value)


def test_closing_twice_is_fine_and_a_closed_store_can_be_looked_at(tmp_path: Path) -> None:
    store = diskstream.open(tmp_path / "s")
    store.close()
    store.close()
    assert store.closed
    assert store.path == tmp_path / "s"
    assert "closed" in repr(store)
    assert store.recoveries == []


def test_entries_outlive_their_store_and_its_files(tmp_path: Path) -> None:
    """They are small pieces of memory of their own, whatever segment they came from."""
    sample = build(tmp_path / "s")["x"]
    store = diskstream.open(tmp_path / "s", **SMALL)
    entries = list(store.stream("x").range())
    store.stream("x").trim(maxlen=0)
    store.delete("x")
    store.close()
    assert rows(entries) == sample.live


@pytest.mark.parametrize("begun", [0, 3, 9, 12])
def test_an_iterator_that_was_begun_ends_in_words_or_with_the_right_entries(tmp_path: Path, begun: int) -> None:
    sample = build(tmp_path / "s")["x"]
    store = diskstream.open(tmp_path / "s", **SMALL)
    entries = store.stream("x").range()
    found = [next(entries) for _ in range(begun)]
    store.close()
    try:
        found += entries
        assert rows(found) == sample.live
    except ClosedError:
        assert rows(found) == sample.live[: len(found)]


def test_a_store_that_was_never_closed_is_no_trouble(tmp_path: Path) -> None:
    store = diskstream.open(tmp_path / "s", **SMALL)
    store.stream("x").add({"n": "1"})
    with pytest.warns(ResourceWarning, match="unclosed"):
        del store
    with diskstream.open(tmp_path / "s", **SMALL) as again:
        again.stream("x").add({"n": "2"})
        assert len(again.stream("x")) == 2


@pytest.mark.parametrize("fsync", ["always", "interval=1", "os"])
def test_closing_under_the_hands_of_threads_ends_each_in_words_and_loses_nothing(tmp_path: Path, fsync: str) -> None:
    """Nor is it taken for a failure of the disk, which would close the stream to others too."""
    other = diskstream.open(tmp_path / "s", **{**SMALL, "fsync": fsync})
    for _ in range(6):
        store = diskstream.open(tmp_path / "s", **{**SMALL, "fsync": fsync, "seal": "background"})
        stream = store.stream("x")
        added: list[str] = []
        raised: list[BaseException] = []
        going = threading.Barrier(4)

        def work(stream: Stream = stream, going: threading.Barrier = going) -> None:
            going.wait()
            try:
                while True:
                    added.append(str(stream.add({"n": "." * 100})))
                    list(stream.revrange(count=3))
            except BaseException as error:  # noqa: BLE001  # what it is, is what this is about
                raised.append(error)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        going.wait()
        for _ in range(30):
            other.stream("x").add({"n": "other"})
        store.close()
        for thread in threads:
            thread.join()
        assert [type(error) for error in raised] == [ClosedError] * 3, raised
        there = {str(entry.id) for entry in other.stream("x").range()}
        assert set(added) <= there
    other.stream("x").add({"n": "last"})
    other.close()


def test_a_stream_that_is_moved_as_it_is_closed_is_not_let_go_of_by_two_threads_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of a descriptor that one has closed may be another file's by then, whose locks the other gives up."""
    store = diskstream.open(tmp_path / "s", **SMALL)
    store.stream("x").add({"n": "1"})
    log = log_of(store)
    close, closers, closed_meanwhile = Page.close, [threading.Thread(target=log.close)], []  # by its store, say

    def close_as_another_does(page: Page) -> None:
        if page is log.page and closers:
            other = closers.pop()
            other.start()
            other.join(0.1)
            closed_meanwhile.append(page.closed)
        close(page)

    monkeypatch.setattr(Page, "close", close_as_another_does)
    store._forget(b"x", log)  # as who finds that it was moved
    store.close()
    assert closed_meanwhile == [False]
    assert log.page.closed


def test_a_segment_that_a_reader_opens_as_its_stream_is_closed_is_kept_by_nobody(tmp_path: Path) -> None:
    """Nobody would close it again: what was deleted took its room on the disk for as long as the store was open."""
    store = diskstream.open(tmp_path / "s", **SMALL)
    store.stream("x").add({"n": "1"})
    store.stream("x").seal()
    segments = log_of(store).segments
    (view,) = segments.views()
    log_of(store).abandon()  # as of a stream that was removed or renamed
    assert segments.get(view).entries == 1
    assert [name for name in open_below(tmp_path / "s") if name.endswith(".seg")] == []
    store.close()


def test_behind_a_damaged_log_no_view_stays_open(tmp_path: Path) -> None:
    """Its error held the log, and that the view, until garbage was collected: its files were mapped for so long."""
    with diskstream.open(tmp_path / "s") as store:
        stream = store.stream("x")
        stream.add({"n": 1})
        stream.group("g", start="0").consumer("c").read()
        stream.seal()
    (log,) = (tmp_path / "s" / "streams").glob("*/*.log")
    data = bytearray(log.read_bytes())
    data[26] ^= 0x80  # of the header: the state comes from the copy in the sealed segment
    log.write_bytes(data)
    gc.disable()
    try:
        with diskstream.open(tmp_path / "s") as store:
            with pytest.raises(CorruptionError):
                list(store.stream("x").range())
            assert store.stream("x").info_full(1).groups[0].pel_count == 1
            with pytest.raises(CorruptionError):
                store.stream("x").group("g", create=False).pending()
            assert store._view is not None
            view = weakref.ref(store._view)
        assert view() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "how",
    [
        "the end",
        "an exit",
        "an error",
        "a thread",
        "fork: the end",
        "fork: a thread",
        "forkserver: the end",
        "a fork with its parent's store",
    ],
)
def test_a_process_that_ends_without_closing_flushes_what_the_next_interval_would_have(
    tmp_path: Path, how: str
) -> None:
    """Nobody was left to do so: a power cut took what was older than the interval."""
    with diskstream.open(tmp_path / "s", **{**SMALL, "fsync": "interval=600000"}) as store:
        stream = store.stream("x")
        stream.add({"n": "before"})
        store.sync()
        with child(end_before_a_flush, tmp_path / "s", how) as process:
            assert process.wait() == {"an exit": 3, "an error": 1}.get(how, 0)
        assert len(stream) == 2 + how.endswith("thread")
        assert stream.durable_id() == stream.last_id()
