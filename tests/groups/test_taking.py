"""The short way of reading and acknowledging is gone where it can be; the long one where anything stands in the way."""

import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest

import diskstream
from diskstream import Consumer, Group, Store, taking
from diskstream.engine.page import FLAG_CHECK
from diskstream.errors import NoGroupError, ReadOnlyError
from diskstream.wanted import Wanted
from tests.engine.sample import log_of


class Ways:
    """Counts how often each way was gone."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.short = self.long = 0
        self.kept: set[object] = set()  # consumers that went on the long way with a place in the queue
        for name, way in (("take", taking.take), ("finish", taking.finish)):
            monkeypatch.setattr(f"diskstream.{'consumer' if name == 'take' else 'group'}.{name}", self._counted(way))

    def _counted(self, way: Callable[..., object]) -> Callable[..., object]:
        def counted(*given: object) -> object:
            found = way(*given)
            is_short = found is not None and not (isinstance(found, tuple) and found[0] is None)
            self.short += is_short
            self.long += not is_short
            if isinstance(found, tuple) and found[1] is not None:
                self.kept.add(given[1])
            return found

        return counted

    def gone(self) -> tuple[int, int]:
        """How often the short one and the long one, since the last call."""
        gone = self.short, self.long
        self.short = self.long = 0
        return gone


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> Ways:
    return Ways(monkeypatch)


def made(store: Store, entries: int = 0) -> tuple[Group, Consumer]:
    stream = store.stream("x")
    group = stream.group("g", start="0")
    stream.add_many([{"n": number} for number in range(entries)])
    consumer = group.consumer("c")
    group.create_consumer("c")
    return group, consumer


def numbers(entries: list[diskstream.Delivery]) -> list[int]:
    return [int(entry[b"n"]) for entry in entries]


def test_new_entries_and_acknowledgements_take_the_short_way(ways: Ways, tmp_path: Path) -> None:
    with diskstream.open(tmp_path) as store:
        group, consumer = made(store, 5)
        assert numbers(consumer.read(count=2)) == [0, 1]
        assert numbers(consumer.read(count=10, block=0.5)) == [2, 3, 4]
        assert consumer.read(count=1) == []
        assert consumer.read(count=1, block=0.001) == []
        ids = [entry.id for entry in consumer.read("0")]
        assert group.ack(*ids[:3], ids[0]) == 3
        assert group.ack(*ids) == 2
        assert ways.gone() == (6, 0)


def test_the_shortest_wait_is_not_for_ever(ways: Ways, tmp_path: Path) -> None:
    with diskstream.open(tmp_path) as store:
        _, consumer = made(store)
        for block in (5e-324, 1e-10, 1e-9, 0.0005):
            assert consumer.read(count=1, block=block) == []
        assert ways.gone() == (4, 0)


@pytest.mark.parametrize("count", [0, -1, None, 5000])
def test_a_read_without_a_bound_takes_the_long_way(count: int | None, ways: Ways, tmp_path: Path) -> None:
    with diskstream.open(tmp_path) as store:
        _, consumer = made(store, 5)
        assert numbers(consumer.read(count=count)) == [0, 1, 2, 3, 4]
        assert ways.gone() == (0, 1)


def test_under_always_the_long_way_waits_for_the_disk(ways: Ways, tmp_path: Path) -> None:
    with diskstream.open(tmp_path, fsync="always") as store:
        group, consumer = made(store, 2)
        (entry,) = consumer.read(count=1)
        assert group.ack(entry.id) == 1
        assert log_of(store, b"x").native.is_durable
        assert ways.gone() == (0, 2)


def test_sealed_entries_are_read_the_long_way_and_new_ones_the_short(ways: Ways, tmp_path: Path) -> None:
    with diskstream.open(tmp_path) as store:
        group, consumer = made(store, 3)
        group.stream.seal()
        assert numbers(consumer.read(count=2)) == [0, 1]
        assert numbers(consumer.read(count=2)) == [2]
        assert ways.gone() == (0, 2)
        group.stream.add({"n": 3})
        assert numbers(consumer.read(count=2)) == [3]
        assert ways.gone() == (1, 0)


def test_a_consumer_is_made_the_long_way(ways: Ways, tmp_path: Path) -> None:
    with diskstream.open(tmp_path) as store:
        group, _ = made(store, 3)
        other = group.consumer("other")
        assert numbers(other.read(count=1)) == [0]
        assert numbers(other.read(count=1)) == [1]
        assert ways.gone() == (1, 1)
        assert [info.name for info in group.consumers()] == [b"c", b"other"]


def test_what_is_not_there_is_said_as_before(ways: Ways, tmp_path: Path) -> None:
    with diskstream.open(tmp_path) as store:
        group, consumer = made(store, 1)
        (entry,) = consumer.read(count=1)
        group.destroy()
        with pytest.raises(NoGroupError):
            consumer.read(count=1)
        assert group.ack(entry.id) == 0
        store.delete("x")
        with pytest.raises(NoGroupError):
            consumer.read(count=1, block=0.001)
        assert ways.gone() == (1, 3)
    with diskstream.open(tmp_path, read_only=True) as store, pytest.raises(ReadOnlyError):
        store.stream("x").group("g", create=False).consumer("c").read(count=1)


def test_acknowledgements_that_only_the_view_knows_take_the_long_way(ways: Ways, tmp_path: Path) -> None:
    with diskstream.open(tmp_path, pending_rows=10) as store:
        group, consumer = made(store, 100)
        ids = [entry.id for entry in consumer.read(count=100)]  # more than overlays may hold: they are merged
        assert log_of(store, b"x").native.overlay_rows == 0
        assert ways.gone() == (1, 0)
        assert group.ack(*ids[:50]) == 50
        assert ways.gone() == (0, 1)
        assert len(group.pending_range(count=100)) == 50


def test_who_was_cut_short_keeps_the_place_in_the_queue(ways: Ways, tmp_path: Path) -> None:
    with diskstream.open(tmp_path) as store, diskstream.open(tmp_path) as other:
        group, consumer = made(store)
        served: list[str] = []

        def wait(name: str, who: Consumer) -> None:
            assert len(who.read(count=1, block=20)) == 1
            served.append(name)

        queue = log_of(store, b"x").ctl
        first = threading.Thread(target=wait, args=("first", consumer))
        first.start()
        until(lambda: queue.promised(1, queue.join_queue(1)) == 1)
        group.create_consumer("d")
        second = threading.Thread(target=wait, args=("second", other.stream("x").group("g").consumer("d")))
        second.start()
        until(lambda: queue.promised(1, queue.join_queue(1)) == 2)

        def goes_the_long_way() -> bool:
            queue.raise_flags(FLAG_CHECK)  # as a death does: who looks next goes the long way
            return b"c" in ways.kept

        until(goes_the_long_way)
        until(lambda: queue.promised(1, queue.join_queue(1)) == 2)
        group.stream.add({"n": 0})
        first.join(20)
        group.stream.add({"n": 1})
        second.join(20)
        assert served == ["first", "second"]


def test_what_is_given_after_a_wait_is_given_at_the_time_that_a_chosen_clock_says_then(tmp_path: Path) -> None:
    now = [1_000]
    with diskstream.open(tmp_path, clock=lambda: now[0]) as store:
        group, consumer = made(store)
        waiting = threading.Thread(target=consumer.read, kwargs={"count": 1, "block": 30})
        waiting.start()
        queue = log_of(store, b"x").ctl
        until(lambda: queue.promised(1, queue.join_queue(1)) == 1)
        now[0] = 61_000
        group.stream.add({"n": 7})
        waiting.join(20)
        now[0] = 62_500
        assert [each.idle_ms for each in group.pending_range()] == [1_500]


def test_the_workers_iterator_takes_it_too_and_can_be_stopped(ways: Ways, tmp_path: Path) -> None:
    with diskstream.open(tmp_path) as store:
        group, consumer = made(store, 3)
        seen: list[int] = []

        def work() -> None:
            seen.extend(int(entry[b"n"]) for entry in consumer.entries(ack=True, count=2))

        worker = threading.Thread(target=work)
        worker.start()
        queue = log_of(store, b"x").ctl
        until(lambda: queue.promised(1, queue.join_queue(1)) == 1)
        group.stream.add({"n": 3})
        until(lambda: group.info().pending == 0 and group.info().last_delivered_id == group.stream.last_id())
        consumer.stop()
        worker.join(20)
        assert not worker.is_alive()
        assert seen == [0, 1, 2, 3]
        assert ways.gone() == (
            8,
            0,
        )  # four acknowledgements; four reads, of which one was stopped


def test_what_another_has_claimed_is_not_acknowledged_on_the_way_out(ways: Ways, tmp_path: Path) -> None:
    with diskstream.open(tmp_path) as store:
        group, consumer = made(store, 2)
        for entry in consumer.entries(ack=True, block=None):
            if entry[b"n"] == b"0":
                group.consumer("other").claim(entry.id)
        (left,) = group.pending_range()
        assert left.consumer == b"other"
        assert ways.gone() == (4, 0)


def test_who_waits_holds_no_log_that_has_to_make_room_for_another(ways: Ways, tmp_path: Path) -> None:
    with (
        diskstream.open(tmp_path, max_open_streams=1) as store,
        diskstream.open(tmp_path) as other,
    ):
        _, consumer = made(store)
        given: list[diskstream.Delivery] = []
        waiting = threading.Thread(target=lambda: given.extend(consumer.read(count=1, block=30)))
        waiting.start()
        queue = log_of(store, b"x").ctl
        until(lambda: queue.promised(1, queue.join_queue(1)) == 1)
        gone = weakref.ref(log_of(store, b"x"))
        store.stream("y").add({"n": 1})
        until(lambda: gone() is None)
        until(lambda: ways.gone()[1] == 1)
        other.stream("x").add({"n": 7})
        waiting.join(20)
        assert numbers(given) == [7]


def test_what_the_block_has_left_counts_on_the_long_way_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The place in the queue may be lost on the way, where there is none for another.
    with diskstream.open(tmp_path) as store:
        _, consumer = made(store)
        asked: list[float | None] = []

        def read(_after: object, wanted: Wanted, _turn: object) -> list[diskstream.Delivery]:
            asked.append(wanted.block)
            return []

        monkeypatch.setattr("diskstream.consumer.take", lambda *_: (None, None))
        monkeypatch.setattr("diskstream.consumer.time.monotonic", iter((100.0, 103.0)).__next__)
        monkeypatch.setattr(consumer, "_read", read)
        assert consumer.read(count=1, block=5) == []
        assert asked == [2.0]


def until(holds: Callable[[], bool]) -> None:
    """Lets others run until something holds; the test's own limit of time ends it."""
    while not holds():
        os.sched_yield()


def test_a_wait_ends_where_the_store_is_closed_under_it(tmp_path: Path) -> None:
    store = diskstream.open(tmp_path)
    _, consumer = made(store)
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            consumer.read(count=1, block=30)
        except diskstream.DiskstreamError as error:
            ended.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    queue = log_of(store, b"x").ctl
    until(lambda: queue.promised(1, queue.join_queue(1)) == 1)
    store.close()
    thread.join(20)
    assert not thread.is_alive()
    assert [type(error).__name__ for error in ended] == ["ClosedError"]
