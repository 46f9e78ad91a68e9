"""Consumers of several processes wait for one group: in the order in which they came, whoever dies meanwhile."""

import functools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import diskstream
from diskstream import EntryID, Group, PoisonedError, Store, Stream
from diskstream.membership import group_number
from tests.engine.children import LIMIT_S, Child, child, until
from tests.groups.workers import SMALL, hold, wait, wait_for_old

POLICIES = ["always", "os"]
PROMISE_MS = 100  # for so long an entry is left to whom it was promised: see docs/groups.md
ATTEMPTS = 4


@contextmanager
def opened(path: Path, fsync: str = "os") -> Iterator[tuple[Store, Stream, Group]]:
    with diskstream.open(path / "s", **{**SMALL, "fsync": fsync}) as store:
        stream = store.stream("x")
        yield store, stream, stream.group("g")


class Waiters:
    """Processes that wait; each stands in the queue when `join` returns."""

    def __init__(self, path: Path, group: Group, stack: ExitStack, fsync: str = "os") -> None:
        self.path, self.group, self.stack, self.fsync = path / "s", group, stack, fsync
        self.children: list[Child] = []

    def join(self, *, count: int = 1, turns: int = 1) -> Child:
        name = f"c{len(self.children)}"
        waiting = self.stack.enter_context(child(wait, self.path, name, count, turns, self.fsync))
        self.children.append(waiting)
        # A consumer is made in the same step in which it begins to wait.
        until(lambda: name.encode() in {each.name for each in self.group.consumers()})
        return waiting


@contextmanager
def waiters(path: Path, group: Group, fsync: str = "os") -> Iterator[Waiters]:
    with ExitStack() as stack:
        yield Waiters(path, group, stack, fsync)


def added(stream: Stream, count: int = 1) -> list[EntryID]:
    return stream.add_many([{"n": str(number)} for number in range(count)])


def was_late(path: Path) -> bool:
    """Whether an entry was given out so long after it was added that it may have been promised to another."""
    with opened(path) as (_, _, group):
        rows, now_ms = group.pending_range(count=1000), time.time_ns() // 1_000_000
        return any(now_ms - row.idle_ms - row.id.ms >= PROMISE_MS for row in rows)


def in_time(test: Callable[..., None]) -> Callable[..., None]:
    """Runs a test of the order again, where a busy machine let one that was called come later than is promised."""

    @functools.wraps(test)
    def run(tmp_path: Path, **given: str) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            place = tmp_path / str(attempt)
            place.mkdir()
            try:
                return test(place, **given)
            except AssertionError:
                if attempt == ATTEMPTS or not was_late(place):
                    raise
        return None

    return run


@pytest.mark.parametrize("fsync", POLICIES)
@in_time
def test_each_entry_goes_to_who_waits_longest(tmp_path: Path, fsync: str) -> None:
    with opened(tmp_path, fsync) as (_, stream, group), waiters(tmp_path, group, fsync) as waiting:
        for _ in range(5):
            waiting.join()
        for each in waiting.children:
            [entry_id] = added(stream)
            assert each.hear() == f"got {entry_id}"
        shown = {row.id: row.consumer for row in group.pending_range(count=10)}
        assert list(shown.values()) == [b"c0", b"c1", b"c2", b"c3", b"c4"]


@in_time
def test_entries_of_one_call_are_shared_in_that_order(tmp_path: Path) -> None:
    with opened(tmp_path) as (_, stream, group), waiters(tmp_path, group) as waiting:
        for count in (1, 2, 1, 1):
            waiting.join(count=count)
        ids = added(stream, 4)
        assert [each.hear() for each in waiting.children[:3]] == [
            f"got {ids[0]}",
            f"got {ids[1]} {ids[2]}",
            f"got {ids[3]}",
        ]
        [last] = added(stream)
        assert waiting.children[3].hear() == f"got {last}"


def in_queue(group: Group) -> tuple[int, int]:
    """How many stand in the queue and wait, and how many are woken, as the page has it: see docs/format/ctl.md."""
    page = (group.stream._store.path / "streams" / "x" / "ctl").read_bytes()
    states = [page[at] for at in range(1024, 1024 + 96 * 32, 32)]
    return states.count(1), states.count(2)


def waiting_now(group: Group) -> int:
    return in_queue(group)[0]


def test_one_is_woken_for_one_entry(tmp_path: Path) -> None:
    """Of four processes that are stopped as they wait, so that none of them can go on."""
    with opened(tmp_path) as (store, stream, group), waiters(tmp_path, group) as waiting:
        for _ in range(4):
            waiting.join()
        until(lambda: in_queue(group) == (4, 0))
        log = store._log(stream.name, create=False)
        assert log is not None
        with log.locked():  # who stands in the queue may have it yet, and stopped with it would keep it
            for each in waiting.children:
                os.kill(each.pid, signal.SIGSTOP)
                os.waitid(os.P_PID, each.pid, os.WSTOPPED | os.WNOWAIT)
        for woken in (1, 2, 3):
            added(stream)
            assert in_queue(group) == (4 - woken, woken)
        for each in waiting.children:
            each.kill()
        assert group.pending().total == 0


@in_time
def test_who_was_served_and_waits_again_is_the_last(tmp_path: Path) -> None:
    with opened(tmp_path) as (_, stream, group), waiters(tmp_path, group) as waiting:
        for _ in range(3):
            waiting.join(turns=4)
        for turn in range(12):
            [entry_id] = added(stream)
            assert waiting.children[turn % 3].hear() == f"got {entry_id}", f"turn {turn}"
            if turn < 9:
                until(lambda: waiting_now(group) == 3)


@pytest.mark.parametrize("fsync", POLICIES)
def test_a_waiter_that_is_killed_is_passed_over(tmp_path: Path, fsync: str) -> None:
    with opened(tmp_path, fsync) as (_, stream, group), waiters(tmp_path, group, fsync) as waiting:
        dead, alive, other = waiting.join(), waiting.join(), waiting.join()
        dead.kill()
        [entry_id] = added(stream)
        assert alive.hear() == f"got {entry_id}"
        [entry_id] = added(stream)
        assert other.hear() == f"got {entry_id}"


def test_a_waiter_that_is_dead_and_not_buried_is_passed_over(tmp_path: Path) -> None:
    """A zombie still answers to signal 0: only the time of its promise tells."""
    with opened(tmp_path) as (_, stream, group), waiters(tmp_path, group) as waiting:
        dead, alive = waiting.join(), waiting.join()
        os.kill(dead.pid, signal.SIGKILL)
        os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
        [entry_id] = added(stream)
        assert alive.hear() == f"got {entry_id}"


def test_a_waiter_that_dies_between_its_call_and_its_entry_stalls_nobody(tmp_path: Path) -> None:
    with opened(tmp_path) as (_, stream, group), waiters(tmp_path, group) as waiting:
        called, alive, other = waiting.join(), waiting.join(), waiting.join()
        os.kill(called.pid, signal.SIGSTOP)
        ids = added(stream, 2)
        # Nobody else is called: each looks by itself in the end. Who looks first takes the first entry, and leaves one
        # to the other if that waits longer.
        assert {alive.hear(), other.hear()} == {f"got {entry_id}" for entry_id in ids}
        called.kill()
        assert group.pending().consumers == {b"c1": 1, b"c2": 1}


def test_a_waiter_that_was_stopped_for_long_goes_on_at_the_end(tmp_path: Path) -> None:
    with opened(tmp_path) as (_, stream, group), waiters(tmp_path, group) as waiting:
        slow, quick = waiting.join(), waiting.join()
        os.kill(slow.pid, signal.SIGSTOP)
        [entry_id] = added(stream)
        assert quick.hear() == f"got {entry_id}"
        os.kill(slow.pid, signal.SIGCONT)
        [entry_id] = added(stream)
        assert slow.hear() == f"got {entry_id}"


@pytest.mark.parametrize("end", ["destroy", "delete", "rename", "replace"])
def test_who_waits_for_a_group_that_goes_is_told(tmp_path: Path, end: str) -> None:
    with opened(tmp_path) as (store, _, group), waiters(tmp_path, group) as waiting:
        waiting.join()
        waiting.join()
        if end == "destroy":
            assert group.destroy()
        elif end == "delete":
            assert store.delete("x")
        elif end == "rename":
            store.rename("x", "y")
        else:
            store.stream("y").add({"n": "1"})
            store.rename("y", "x")
        assert [each.hear() for each in waiting.children] == ["no group", "no group"]


def test_the_entries_of_a_killed_consumer_are_there_to_be_claimed(tmp_path: Path) -> None:
    with opened(tmp_path) as (_, stream, group):
        ids = added(stream, 7)
        with child(hold, tmp_path / "s", "dead", "always") as other:
            assert other.hear() == " ".join(["got", *map(str, ids)])
            other.kill()
        assert group.consumer("alive").read() == []
        assert group.pending().consumers == {b"dead": 7}
        assert group.consumer("alive").claim_ids(*ids[:2]) == ids[:2]
        claimed = group.consumer("alive").autoclaim(0, start=ids[2], count=100)
        assert [entry.id for entry in claimed.entries] == ids[2:]
        assert group.pending().consumers == {b"alive": 7}
        assert group.ack(*ids) == 7


def test_who_waits_with_claim_gets_what_a_dead_consumer_had(tmp_path: Path) -> None:
    with opened(tmp_path) as (_, stream, group):
        ids = added(stream, 3)
        with child(hold, tmp_path / "s", "dead", "os") as other:
            other.hear()
            other.kill()
        with child(wait_for_old, tmp_path / "s", "alive", 300) as waiting:
            assert waiting.hear() == " ".join(["got", *map(str, ids)])
        assert [row.deliveries for row in group.pending_range()] == [2, 2, 2]


def test_who_waits_with_claim_is_called_when_something_is_given_back(tmp_path: Path) -> None:
    with opened(tmp_path) as (_, stream, group):
        [entry_id] = added(stream)
        group.consumer("first").read()
        with child(wait_for_old, tmp_path / "s", "second", 3_600_000) as waiting:
            until(lambda: len(group.consumers()) == 2)
            assert group.nack(entry_id) == 1
            assert waiting.hear() == f"got {entry_id}"


def test_more_waiters_than_there_are_places_are_served_all_the_same(tmp_path: Path) -> None:
    with opened(tmp_path) as (_, stream, group):
        got: list[EntryID] = []

        def wait_for_one(number: int) -> None:
            got.extend(entry.id for entry in group.consumer(f"c{number}").read(count=1, block=LIMIT_S))

        threads = [threading.Thread(target=wait_for_one, args=(number,)) for number in range(110)]
        for thread in threads:
            thread.start()
        until(lambda: len(group.consumers()) == len(threads))
        ids = [added(stream)[0] for _ in threads]
        for thread in threads:
            thread.join(LIMIT_S)
        assert sorted(got) == ids


@pytest.mark.parametrize("count", [1, None])
def test_who_is_deleted_while_he_waits_is_made_again_by_an_entry_alone(tmp_path: Path, count: int | None) -> None:
    with opened(tmp_path) as (_, stream, group):
        group.create_consumer("c")  # else the wait itself makes it, and goes another way from then on
        given: list[EntryID] = []
        waiter = threading.Thread(
            target=lambda: given.extend(each.id for each in group.consumer("c").read(count=count, block=LIMIT_S))
        )
        waiter.start()
        until(lambda: waiting_now(group) == 1)
        group.delete_consumer("c")
        waiter.join(0.5)  # who waits looks again by then
        assert group.consumers() == []
        ids = added(stream)
        waiter.join(LIMIT_S)
        assert given == ids
        assert [(each.name, each.pending) for each in group.consumers()] == [(b"c", 1)]


@pytest.mark.parametrize(("fsync", "count"), [("os", 1), ("os", None), ("always", 1)])
def test_who_waits_looks_again_only_where_something_has_changed(tmp_path: Path, fsync: str, count: int | None) -> None:
    """A look takes the append lock: a thousand idle consumers took it five thousand times a second, and a processor."""
    with opened(tmp_path, fsync) as (store, stream, group):
        consumer = group.consumer("c")
        consumer.read()
        reader = threading.Thread(target=consumer.read, kwargs={"count": count, "block": 2.0})
        reader.start()
        until(lambda: in_queue(group) == (1, 0))
        log = store._log(stream.name, create=False)
        assert log is not None
        with log.locked():
            reader.join(LIMIT_S)
            assert not reader.is_alive()


@pytest.mark.parametrize("count", [1, None])
def test_who_left_an_entry_to_another_sees_by_himself_that_it_was_not_taken(tmp_path: Path, count: int | None) -> None:
    with opened(tmp_path) as (store, stream, group):
        consumer, found = group.consumer("c"), []
        consumer.read()
        log = store._log(stream.name, create=False)
        assert log is not None
        older = log.ctl.join_queue(group_number(log, group))
        assert older is not None
        reader = threading.Thread(target=lambda: found.extend(consumer.read(count=count, block=LIMIT_S)))
        reader.start()
        until(lambda: in_queue(group) == (2, 0))
        added(stream)
        assert older.called
        assert older.again()
        until(lambda: older.called)  # by who stands behind, and leaves it the entry
        older.leave(served=True)  # which calls nobody
        reader.join(2 * LIMIT_S)
        assert len(found) == 1


@pytest.mark.parametrize("count", [1, None])
def test_who_waits_is_told_where_the_stream_takes_no_more_writes(tmp_path: Path, count: int | None) -> None:
    """That writes nothing to the log, and calls nobody in the queue."""
    with ThreadPoolExecutor(1) as reader:
        store = diskstream.open(tmp_path / "s", **SMALL)
        stream = store.stream("x")
        group = stream.group("g")
        consumer = group.consumer("c")
        consumer.read()
        reading = reader.submit(consumer.read, count=count, block=LIMIT_S)
        until(lambda: in_queue(group) == (1, 0))
        log = store._log(stream.name, create=False)
        assert log is not None
        log.ctl.poison("the disk failed")
        with pytest.raises(PoisonedError, match="the disk failed"):
            reading.result(LIMIT_S / 2)
        with pytest.raises(PoisonedError):
            store.close()
