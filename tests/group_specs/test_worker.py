"""The worker's iterator: its own backlog, then what is new, until it is told to stop."""

import os
import signal
import sys
import threading
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from diskstream import Consumer, Delivery, Group, NoGroupError, Store, Stream
from diskstream.errors import ArgumentError
from tests.group_specs.clock import Clock
from tests.group_specs.shown import fill, held, joined, owners, until
from tests.streams.background import LIMIT_S, Background
from tests.streams.layers import ids, small_store


def test_its_own_backlog_comes_first(group: Group, alice: Consumer, bob: Consumer) -> None:
    alice.read(count=2)
    bob.read(count=1)
    found = list(group.consumer("alice").entries(block=None))
    assert ids(found) == ["1-0", "2-0", "4-0", "5-0"]
    assert [entry.deliveries for entry in found] == [1, 1, 0, 0]
    assert held(group) == [
        ("1-0", b"alice", 0, 2),
        ("2-0", b"alice", 0, 2),
        ("3-0", b"bob", 0, 1),
        ("4-0", b"alice", 0, 1),
        ("5-0", b"alice", 0, 1),
    ]


@pytest.mark.parametrize("count", [1, 2, 100])
def test_however_many_are_fetched_at_a_time(stream: Stream, group: Group, alice: Consumer, count: int) -> None:
    alice.read(count=3)
    assert ids(alice.entries(block=None, count=count)) == ["1-0", "2-0", "3-0", "4-0", "5-0"]


def test_iterating_a_consumer_is_the_same_and_waits_for_ever(stream: Stream, alice: Consumer) -> None:
    found = list(islice(alice, 5))
    assert ids(found) == ["1-0", "2-0", "3-0", "4-0", "5-0"]
    waiting = Background(lambda: next(iter(alice.group.consumer("other"))))
    joined(alice.group, b"other")
    stream.add({"n": 6}, "6-0")
    assert ids([waiting.result()]) == ["6-0"]


def test_it_ends_when_nothing_came_for_its_time(group: Group, alice: Consumer) -> None:
    assert len(list(alice.entries(block=0.01))) == 5
    assert list(group.consumer("bob").entries(block=0.001)) == []
    assert list(group.consumer("bob").entries(block=None)) == []


def test_it_acknowledges_each_when_the_next_is_asked_for(group: Group, alice: Consumer) -> None:
    seen = []
    for entry in alice.entries(ack=True, block=None, count=2):
        seen.append(str(entry.id))
        assert next(iter(owners(group))) == str(entry.id)
    assert seen == ["1-0", "2-0", "3-0", "4-0", "5-0"]
    assert held(group) == []


def test_without_ack_it_acknowledges_nothing(group: Group, alice: Consumer) -> None:
    assert len(list(alice.entries(block=None))) == 5
    assert len(held(group)) == 5


def test_what_was_under_way_when_the_loop_was_left_is_pending(group: Group, alice: Consumer) -> None:
    for entry in alice.entries(ack=True, block=None):
        if str(entry.id) == "3-0":
            break
    assert list(owners(group)) == ["3-0", "4-0", "5-0"]
    assert ids(group.consumer("alice").entries(ack=True, block=None)) == ["3-0", "4-0", "5-0"]
    assert held(group) == []


def test_so_it_is_when_the_loop_fails(group: Group, alice: Consumer) -> None:
    def work() -> None:
        for entry in alice.entries(ack=True, block=None):
            if str(entry.id) == "2-0":
                raise ValueError(entry.id)

    with pytest.raises(ValueError, match="2-0"):
        work()
    assert list(owners(group)) == ["2-0", "3-0", "4-0", "5-0"]


def test_what_the_loop_acknowledged_itself_is_fine(group: Group, alice: Consumer) -> None:
    for entry in alice.entries(ack=True, block=None):
        assert entry.ack()
    assert held(group) == []


def test_what_the_loop_gave_back_is_not_acknowledged(group: Group, alice: Consumer) -> None:
    """Else it is lost: the worker said that it could not do it."""
    for entry in alice.entries(ack=True, block=None):
        if entry["n"] in (b"2", b"4"):
            entry.nack()
    assert held(group) == [("2-0", b"", -1, 1), ("4-0", b"", -1, 1)]


@pytest.mark.parametrize("ack", [False, True])
def test_what_is_gone_is_passed_over(stream: Stream, group: Group, alice: Consumer, ack: bool) -> None:
    alice.read(count=3)
    stream.delete("1-0", "3-0", "4-0")
    found = list(group.consumer("alice").entries(ack=ack, block=None))
    assert ids(found) == ["2-0", "5-0"]
    assert list(owners(group)) == ([] if ack else ["1-0", "2-0", "3-0", "5-0"])


# --- stopping ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backlog", [False, True])
def test_stop_ends_it_after_the_entry_under_way(group: Group, alice: Consumer, backlog: bool) -> None:
    if backlog:
        alice.read()
    worker = group.consumer("alice")
    seen = []
    for entry in worker.entries(ack=True):
        seen.append(str(entry.id))
        if len(seen) == 2:
            worker.stop()
    assert seen == ["1-0", "2-0"]
    assert list(owners(group)) == ["3-0", "4-0", "5-0"]
    assert ids(group.consumer("alice").entries(block=None)) == ["3-0", "4-0", "5-0"]


def test_stop_from_another_thread_ends_a_wait(group: Group, alice: Consumer, bob: Consumer) -> None:
    alice.read()
    working = Background(lambda: list(bob.entries()))
    joined(group, b"bob")
    bob.stop()
    assert working.result() == []


def test_stop_before_the_first_entry_leaves_all_to_others(group: Group, alice: Consumer, bob: Consumer) -> None:
    alice.stop()
    assert list(alice.entries()) == []
    assert len(bob.read()) == 5


def test_stop_is_for_one_consumer_object(group: Group, alice: Consumer) -> None:
    alice.stop()
    assert len(list(group.consumer("alice").entries(block=None))) == 5


# Not SIGTERM or SIGINT, which others here may want to handle.
NUMBERS = (signal.SIGUSR1, signal.SIGUSR2)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_ends_it_after_the_entry_under_way(group: Group, alice: Consumer, number: int) -> None:
    before = [signal.getsignal(each) for each in NUMBERS]
    seen = []
    for entry in alice.entries(ack=True, signals=NUMBERS):
        seen.append(str(entry.id))
        if len(seen) == 3:
            signal.raise_signal(number)
    assert seen == ["1-0", "2-0", "3-0"]
    assert list(owners(group)) == ["4-0", "5-0"]
    assert [signal.getsignal(each) for each in NUMBERS] == before


def test_a_signal_ends_a_wait(group: Group, alice: Consumer) -> None:
    last = threading.Event()

    def send() -> None:
        assert last.wait(LIMIT_S)
        until(lambda: held(group) == [], "the last is acknowledged: it waits, or is about to")
        os.kill(os.getpid(), signal.SIGUSR1)

    sending = Background(send)
    for entry in alice.entries(ack=True, signals=NUMBERS):
        if str(entry.id) == "5-0":
            last.set()
    sending.result()


def test_handlers_come_back_when_the_loop_is_left(group: Group, alice: Consumer) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    working = alice.entries(signals=(signal.SIGUSR1,))
    next(iter(working))
    assert signal.getsignal(signal.SIGUSR1) != before
    working.close()  # type: ignore[attr-defined]  # what a `for` that is left does sooner or later
    assert signal.getsignal(signal.SIGUSR1) == before


@pytest.mark.parametrize("number", [signal.SIGKILL, 999, -1, 2**70, "SIGTERM", None])
def test_a_signal_that_cannot_end_it_is_refused_and_the_others_are_as_before(alice: Consumer, number: Any) -> None:
    """Those before it stayed handled: a SIGTERM did nothing any more."""
    before = signal.getsignal(signal.SIGUSR1)
    with pytest.raises(ArgumentError, match=r"signal"):
        next(alice.entries(signals=(signal.SIGUSR1, number)))
    assert signal.getsignal(signal.SIGUSR1) == before


def test_a_signal_that_is_named_twice_comes_back(alice: Consumer) -> None:
    """What came back was the handler of the first time, which stops a consumer that has gone on."""
    before = signal.getsignal(signal.SIGUSR1)
    assert list(alice.entries(block=None, signals=(signal.SIGUSR1, int(signal.SIGUSR1))))
    assert signal.getsignal(signal.SIGUSR1) == before


def test_a_handler_that_could_not_be_set_back_stays(alice: Consumer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a program that has Python within it: it was replaced, and at the end of the loop there was a TypeError."""
    before = signal.getsignal(signal.SIGUSR1)
    with monkeypatch.context() as patched, pytest.raises(ArgumentError, match="is not Python's"):
        patched.setattr(signal, "getsignal", lambda _number: None)
        next(alice.entries(signals=(signal.SIGUSR1,)))
    assert signal.getsignal(signal.SIGUSR1) == before


def test_one_signal_ends_all_loops_that_it_ends_in_whatever_order_they_are_left(group: Group, alice: Consumer) -> None:
    """It ended the one that began last; and with the first one gone before it, what came back was a dead handler."""
    before = signal.getsignal(signal.SIGUSR1)
    bob = group.consumer("bob")
    loops = [iter(each.entries(count=1, signals=(signal.SIGUSR1,))) for each in (alice, bob)]
    assert [str(next(loop).id) for loop in loops] == ["1-0", "2-0"]
    signal.raise_signal(signal.SIGUSR1)
    assert [next(loop, None) for loop in loops] == [None, None]
    assert signal.getsignal(signal.SIGUSR1) == before


def test_a_loop_that_goes_on_is_still_ended_behind_one_that_was_left(group: Group, alice: Consumer) -> None:
    before = signal.getsignal(signal.SIGUSR1)
    bob = group.consumer("bob")
    first, second = (iter(each.entries(count=1, signals=(signal.SIGUSR1,))) for each in (alice, bob))
    assert [str(next(first).id), str(next(second).id)] == ["1-0", "2-0"]
    first.close()  # type: ignore[attr-defined]  # a generator, as it is now
    assert str(next(second).id) == "3-0"
    signal.raise_signal(signal.SIGUSR1)
    assert next(second, None) is None
    assert signal.getsignal(signal.SIGUSR1) == before


def test_a_loop_that_another_thread_leaves_leaves_no_signal_unheard(alice: Consumer) -> None:
    """Only the main thread can set back what handled it."""
    heard: list[int] = []
    before = [signal.signal(each, lambda number, _: heard.append(number)) for each in NUMBERS]
    try:
        loop = alice.entries(signals=NUMBERS)
        next(iter(loop))
        with pytest.raises(ValueError, match="main thread"):
            Background(loop.close).result()  # type: ignore[attr-defined]  # a generator, as it is now
        for each in NUMBERS:
            signal.raise_signal(each)
        assert heard == list(NUMBERS)
    finally:
        for each, handler in zip(NUMBERS, before, strict=True):
            signal.signal(each, handler)


def test_signals_are_for_the_main_thread(alice: Consumer) -> None:
    with pytest.raises(ArgumentError, match="main thread"):
        Background(lambda: next(alice.entries(signals=(signal.SIGUSR1,)))).result()


# --- with others ------------------------------------------------------------------------------------------------------


def test_it_takes_over_what_others_leave(group: Group, alice: Consumer, bob: Consumer, clock: Clock) -> None:
    alice.read(count=3)
    clock.go_on(500)
    alice.claim("2-0")
    group.nack("3-0")
    clock.go_on(500)
    found = list(bob.entries(ack=True, block=None, claim_ms=1000))
    assert ids(found) == ["3-0", "1-0", "4-0", "5-0"]
    assert held(group) == [("2-0", b"alice", 500, 2)]


def test_it_takes_over_what_ripens_while_it_waits(group: Group, alice: Consumer, bob: Consumer, clock: Clock) -> None:
    alice.read()
    taken: list[Delivery] = []

    def work() -> None:
        for entry in bob.entries(ack=True, claim_ms=1000):
            taken.append(entry)
            if len(taken) == 5:
                bob.stop()

    working = Background(work)
    joined(group, b"bob")
    assert held(group) == [(f"{n}-0", b"alice", 0, 1) for n in range(1, 6)]
    clock.go_on(1000)
    working.result()
    assert ids(taken) == ["1-0", "2-0", "3-0", "4-0", "5-0"]
    assert held(group) == []


@pytest.mark.parametrize("gone", ["group", "stream"])
def test_it_fails_when_its_group_goes(store: Store, group: Group, alice: Consumer, bob: Consumer, gone: str) -> None:
    alice.read()
    working = Background(lambda: list(bob.entries()))
    joined(group, b"bob")
    if gone == "group":
        group.destroy()
    else:
        store.delete("s")
    with pytest.raises(NoGroupError):
        working.result()


@pytest.mark.parametrize("pending_rows", [1, 4096])
def test_workers_share_what_a_writer_adds_over_rolls_and_seals(tmp_path: Path, pending_rows: int) -> None:
    with small_store(tmp_path / "store", pending_rows=pending_rows) as store:
        stream = store.stream("x")
        group = stream.group("g")
        workers = [group.consumer(f"w{number}") for number in range(3)]
        done: list[list[int]] = [[] for _ in workers]

        def work(number: int) -> None:
            for entry in workers[number].entries(ack=True, count=7):
                done[number].append(entry.id.ms)

        working = [Background(lambda number=number: work(number)) for number in range(3)]  # type: ignore[misc]  # bound now
        for number in range(1, 801):
            stream.add({"n": number, "pad": "." * 50}, (number, 0))
            if number % 300 == 0:
                stream.seal()
        until(lambda: group.info().lag == 0 and group.info().pending == 0, "all is done")
        for worker in workers:
            worker.stop()
        for each in working:
            each.result()
        assert sorted(number for part in done for number in part) == list(range(1, 801))
        assert all(part == sorted(part) for part in done)
        assert stream.info().segments > 3


def test_a_worker_that_comes_back_goes_on_where_it_was(stream: Stream, group: Group) -> None:
    fill(stream, 6, 100)
    done: list[str] = []
    for _ in range(100):
        worker = group.consumer("w")
        for at, entry in enumerate(worker.entries(ack=True, block=None, count=30)):
            done.append(str(entry.id))
            if at == 12:
                worker.stop()
        if group.info().lag == 0 and not held(group):
            break
    assert done == [f"{number}-0" for number in range(1, 101)]


def test_stop_may_be_called_in_the_middle_of_stop(alice: Consumer) -> None:
    """Two signals at a time: the second handler runs within the first one, on the same thread."""
    calls = []

    def at_each_line(frame: FrameType, event: str, _: object) -> Any:
        if event == "line":
            sys.settrace(None)
            frame.f_trace = None
            calls.append(frame.f_lineno)
            alice.stop()
            sys.settrace(at_each_line)
        return at_each_line

    def stop() -> None:
        sys.settrace(at_each_line)
        alice.stop()
        sys.settrace(None)

    thread = threading.Thread(target=stop, daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    assert not thread.is_alive()
    assert calls
    assert list(alice.entries()) == []
