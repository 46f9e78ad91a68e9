"""A store that nobody closed, and nobody holds any more: it says so, and what it had open is let go of."""

import errno
import gc
import os
import threading
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import Store
from diskstream import store as stores
from diskstream.dropped import Dropped
from diskstream.engine import keeper
from tests.engine.stand_ins import Watched, failure

LIMIT_S = 60


def used(path: Path, **options: Any) -> Store:
    """A store with all that one may have open: a log, a sealed segment, what is pending, and its threads."""
    store = diskstream.open(path, **options)
    stream = store.stream("x")
    stream.add_many([{"n": 1}, {"n": 2}], ids=["1-0", "2-0"])
    stream.seal()
    stream.group("g", start="0").consumer("c").read(count=1)
    stream.set_retention(max_entries=100)
    assert [entry.id.ms for entry in stream] == [1, 2]
    return store


def reader(path: Path) -> Store:
    with used(path):
        pass
    store = diskstream.open(path, read_only=True)
    assert len(list(store.stream("x"))) == 2
    return store


def unused(path: Path) -> Store:
    return diskstream.open(path)


def ours(path: Path) -> list[str]:
    """What this process has open below a directory."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            target = str(Path("/proc/self/fd", fd).readlink())
        except FileNotFoundError:
            continue
        found += [target] if target.startswith(str(path)) else []
    return found


def in_its_last_flush(path: Path) -> threading.Event:
    """A store that was dropped, and whose last flush goes on until the event is set."""
    flushing, go_on = threading.Event(), threading.Event()

    def disk(kind: str, _: Path) -> None:
        if kind == "flush":
            flushing.set()
            assert go_on.wait(LIMIT_S)

    go_on.set()
    store = used(path, fsync="os", files=Watched(disk))
    store.stream("x").add({"n": 3})
    go_on.clear()
    flushing.clear()
    with pytest.warns(ResourceWarning, match="unclosed"):
        del store
    assert flushing.wait(LIMIT_S)
    return go_on


def ended() -> None:
    """Returns once those that were dropped are let go of. Threads of stores that others have open go on."""
    keeper.wait_for_last()


@pytest.mark.parametrize("made", [used, reader, unused])
def test_a_store_that_is_dropped_lets_go_of_everything(tmp_path: Path, made: Callable[[Path], Store]) -> None:
    """Its threads held it, and ran until the process ended."""
    store = made(tmp_path / "s")
    there = weakref.ref(store)
    with pytest.warns(ResourceWarning, match=r"^unclosed <diskstream\.Store '.*/s'>$"):
        del store
    assert there() is None
    ended()
    gc.collect()
    assert ours(tmp_path) == []
    with diskstream.open(tmp_path / "s") as again:
        assert again.recoveries == [], "it was closed cleanly"
        assert len(again.stream("x")) == (0 if made is unused else 2)


def test_one_in_a_cycle_goes_with_it(tmp_path: Path) -> None:
    class Holder:
        def __init__(self, store: Store) -> None:
            self.store, self.me = store, self

    Holder(used(tmp_path / "s"))
    with pytest.warns(ResourceWarning, match="unclosed"):
        gc.collect()
    ended()
    assert ours(tmp_path) == []


@pytest.mark.parametrize("what", [lambda store: store.stream("x"), lambda store: iter(store.stream("x"))])
def test_who_has_something_of_a_store_has_the_store(tmp_path: Path, what: Callable[[Store], Iterable[object]]) -> None:
    kept = [what(used(tmp_path / "s"))]
    gc.collect()
    with pytest.warns(ResourceWarning, match="unclosed"):
        assert len(list(kept.pop())) == 2
    ended()
    assert ours(tmp_path) == []


def test_what_cannot_be_flushed_any_more_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ill, told = False, []

    def disk(kind: str, path: Path) -> None:
        if ill and kind == "flush":
            raise failure(path, kind, errno.EIO)

    has_told = threading.Event()

    def tell(given: threading.ExceptHookArgs) -> None:
        told.append(given.exc_type)
        has_told.set()

    monkeypatch.setattr(threading, "excepthook", tell)
    store = used(tmp_path / "s", fsync="os", files=Watched(disk))
    store.stream("x").add({"n": 3})
    ill = True
    with pytest.warns(ResourceWarning, match="unclosed"):
        del store
    assert has_told.wait(LIMIT_S)
    assert told == [diskstream.StorageError]


def test_a_process_that_ends_waits_for_what_is_let_go_of(tmp_path: Path) -> None:
    go_on = in_its_last_flush(tmp_path / "s")
    ends = threading.Thread(target=keeper.wait_for_last)
    ends.start()
    assert ends.is_alive()
    go_on.set()
    ends.join(LIMIT_S)
    assert not ends.is_alive()
    assert ours(tmp_path) == []


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_child_that_is_forked_meanwhile_has_nothing_of_it_open(tmp_path: Path) -> None:
    go_on = in_its_last_flush(tmp_path / "s")
    child = os.fork()
    if not child:
        os._exit(len([name for name in ours(tmp_path) if name.endswith("ctl")]))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    go_on.set()
    ended()


def half_closed(path: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Store:
    """A store with something that is not flushed, of which Ctrl-C ended the closing as it waited for its threads."""
    store = used(path, **options)
    store.stream("x").add({"n": 3})

    def interrupted(self: keeper.Keeper) -> None:
        self._stop.set()
        self._wake.set()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(keeper.Keeper, "stop", interrupted)
        store.close()
    return store


@pytest.mark.filterwarnings("error")
def test_one_whose_closing_was_interrupted_is_closed_by_the_next_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = half_closed(tmp_path / "s", monkeypatch)
    store.close()
    assert ours(tmp_path) == []
    store.close()
    del store
    with diskstream.open(tmp_path / "s") as again:
        assert again.recoveries == [], "it was closed cleanly"


def test_one_whose_closing_was_interrupted_lets_go_when_it_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It kept its threads and files until the process ended: it was closed, and so it was not one that was dropped."""
    store = half_closed(tmp_path / "s", monkeypatch)
    began = store._keeper
    assert began is not None
    began.wait()  # its threads are gone, and can do nothing more
    with pytest.warns(ResourceWarning, match=r"^not closed to the end: <diskstream\.Store '.*/s' closed>$"):
        del store
    ended()
    gc.collect()
    assert ours(tmp_path) == []
    with diskstream.open(tmp_path / "s") as again:
        assert again.recoveries == [], "it was closed cleanly"
        assert len(again.stream("x")) == 3


def test_one_whose_closing_was_interrupted_goes_with_its_cycle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collection came to its logs, too: they gave their locks up, and then were written to and marked without any."""
    faults: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda fault: faults.append(str(fault.exc_value)))
    store = half_closed(tmp_path / "s", monkeypatch)
    assert store._keeper is not None
    store._keeper.wait()  # its threads are gone, and hold nothing
    collected, let_go = threading.Event(), Dropped.let_go

    def let_go_later(self: Dropped) -> None:
        assert collected.wait(LIMIT_S)
        let_go(self)

    monkeypatch.setattr(Dropped, "let_go", let_go_later)
    cycle: list[object] = [store]
    cycle.append(cycle)
    del store, cycle
    with pytest.warns(ResourceWarning, match="not closed to the end"):
        gc.collect()
    collected.set()
    ended()
    assert faults == []
    gc.collect()
    assert ours(tmp_path) == []
    with diskstream.open(tmp_path / "s") as again:
        assert again.recoveries == [], "it was closed cleanly"
        assert len(again.stream("x")) == 3


def test_one_whose_closing_was_interrupted_is_flushed_when_the_process_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[Path] = []
    disk = Watched(lambda kind, path: flushed.append(path) if kind == "flush" else None)
    store = half_closed(tmp_path / "s", monkeypatch, fsync="interval=3600000", files=disk)
    flushed.clear()
    stores._at_exit()
    assert [path.suffix for path in flushed] == [".log"]
    store.close()


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_child_has_nothing_of_one_whose_closing_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = half_closed(tmp_path / "s", monkeypatch)
    child = os.fork()
    if not child:
        left = len([name for name in ours(tmp_path) if name.endswith("ctl")])
        store.close()
        os._exit(left)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    store.close()
    assert ours(tmp_path) == []
