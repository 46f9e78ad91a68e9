"""A stream is removed or renamed while it is sealed or compacted, which may take hours: nobody waits for that."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import diskstream
from diskstream import CompactReport, NoSuchStreamError, Store, Stream
from diskstream.engine import making_way
from diskstream.engine.page import MAINTENANCE
from diskstream.engine.seal import Progress
from tests.engine.children import LIMIT_S
from tests.engine.sample import log_of

SEGMENTS, ENTRIES = 60, 20
# Of each step of slow work: all of them together take longer than a busy machine needs to remove a stream.
STEP_S = 0.2


class Slow:
    """A progress of somebody whose work takes long: each step waits until the mover, who is started by the first one,
    has done what it is there for, but not for ever."""

    def __init__(self, move: Callable[[], object]) -> None:
        self._move, self.has_moved, self.steps = move, threading.Event(), 0
        self._mover = threading.Thread(target=self._moved)

    def _moved(self) -> None:
        self._move()
        self.has_moved.set()

    def __call__(self, _entries: int, _size_bytes: int) -> None:
        self.steps += 1
        if self.steps == 1:
            self._mover.start()
        self.has_moved.wait(STEP_S)

    def end(self) -> None:
        self._mover.join(LIMIT_S)
        assert self.has_moved.is_set()


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Store]:
    """A store in which a stream has much to be sealed or compacted; its process does so in the foreground alone."""
    with diskstream.open(tmp_path / "store", seal="manual", fsync="os", segment_bytes=8192) as store:
        yield store


@pytest.fixture
def other(busy: Store) -> Iterator[Store]:
    """The same store, as another opening has it."""
    with diskstream.open(busy.path, seal="manual", fsync="os", segment_bytes=1 << 20) as store:
        yield store


def filled(store: Store, *, sealed: bool) -> Stream:
    """A stream of many segments."""
    stream = store.stream("x")
    stream.group("readers", start="0")
    for segment in range(SEGMENTS):
        stream.add_many([{"n": segment * ENTRIES + number, "pad": "." * 500} for number in range(ENTRIES)])
    if sealed:
        store.seal("x")
    return stream


def numbers(stream: Stream) -> list[int]:
    return [int(entry["n"]) for entry in stream.range()]


def test_who_removes_a_stream_does_not_wait_until_it_is_compacted(busy: Store, other: Store) -> None:
    filled(busy, sealed=True)
    slow = Slow(lambda: busy.delete("x"))

    with pytest.raises(NoSuchStreamError):  # it was compacted before it could be removed
        other.compact("x", progress=slow)

    slow.end()
    assert busy.streams() == []


def test_nor_who_renames_it_until_it_is_sealed_and_it_is_whole_under_its_new_name(busy: Store, other: Store) -> None:
    filled(busy, sealed=False)
    slow = Slow(lambda: busy.rename("x", "y"))

    with pytest.raises(NoSuchStreamError):
        other.seal("x", progress=slow)

    slow.end()
    assert len([*(busy.path / "streams" / "y").glob("*.seg")]) < SEGMENTS // 2
    assert numbers(other.stream("y")) == list(range(SEGMENTS * ENTRIES))
    busy.seal("y")
    busy.compact("y")
    assert numbers(busy.stream("y")) == list(range(SEGMENTS * ENTRIES))
    assert busy.verify().problems == []


def test_who_compacts_a_stream_goes_on_with_the_one_that_took_its_name(busy: Store, other: Store) -> None:
    """Nothing was done, nor said: the command ended well."""
    filled(busy, sealed=True)
    busy.rename("x", "y")
    filled(busy, sealed=True)
    slow = Slow(lambda: busy.rename("y", "x"))

    (report,) = other.compact("x", progress=slow)

    slow.end()
    assert report.segments_before > report.segments_after
    assert numbers(other.stream("x")) == list(range(SEGMENTS * ENTRIES))
    assert busy.streams() == [b"x"]


def test_a_compaction_of_all_streams_passes_over_what_is_gone(busy: Store, other: Store) -> None:
    filled(busy, sealed=True)
    slow = Slow(lambda: busy.delete("x"))
    assert other.compact(progress=slow) == []
    slow.end()


@pytest.mark.parametrize(
    "move",
    [lambda store: store.delete("x"), lambda store: store.rename("x", "y"), lambda store: store.rename("y", "x")],
    ids=["removed", "renamed", "replaced"],
)
def test_where_somebody_is_stopped_at_its_files_its_mover_waits_alone(
    busy: Store, other: Store, move: Callable[[Store], object]
) -> None:
    """A compaction that is stopped makes no way: whoever added to a new stream waited behind the mover."""
    for name in ("x", "y"):
        busy.stream(name).add({"n": 1})
    mover = threading.Thread(target=move, args=(busy,))
    with diskstream.open(busy.path) as third:
        maker = threading.Thread(target=lambda: third.stream("new").add({"n": 1}))
        with log_of(other).ctl.locked(MAINTENANCE):
            mover.start()
            mover.join(0.2)  # it has to wait: so long that it would be through
            assert mover.is_alive()
            maker.start()
            maker.join(LIMIT_S / 8)
            has_waited = maker.is_alive()
        mover.join(LIMIT_S)
        maker.join(LIMIT_S)
    assert not has_waited
    assert len(busy.streams()) == 2


def test_a_mover_that_gives_up_is_made_way_for_and_the_work_is_done_to_its_end(busy: Store) -> None:
    stream = filled(busy, sealed=True)
    wanted = making_way.wanting(log_of(busy).directory)
    steps = 0

    def want_for_a_moment(_entries: int, _size_bytes: int) -> None:
        nonlocal steps
        steps += 1
        if steps == 1:
            wanted.__enter__()
            threading.Timer(0.05, wanted.__exit__, (None, None, None)).start()

    (report,) = _compacted_large(busy, want_for_a_moment)

    assert report.segments_before == SEGMENTS
    assert report.segments_after < SEGMENTS // 2
    assert numbers(stream) == list(range(SEGMENTS * ENTRIES))
    assert busy.verify().problems == []


def test_one_that_was_stopped_holds_up_nothing_for_long(busy: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making_way, "_PATIENCE_S", 0.0)
    stream = filled(busy, sealed=True)
    with making_way.wanting(log_of(busy).directory):
        (report,) = _compacted_large(busy, lambda _entries, _size_bytes: None)
    assert report.segments_after < report.segments_before == SEGMENTS
    assert numbers(stream) == list(range(SEGMENTS * ENTRIES))


def _compacted_large(store: Store, progress: Progress) -> list[CompactReport]:
    """Compaction into segments that take many of those that are there."""
    with diskstream.open(store.path, seal="manual", segment_bytes=1 << 20) as large:
        return large.compact("x", progress=progress)
