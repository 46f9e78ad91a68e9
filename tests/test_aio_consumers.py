"""Consumers of asyncio that wait: one thread stands in the queues of groups for all; each is called in its turn."""

import asyncio
import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import aio, aio_queueing
from diskstream.aio_queueing import Called, Queueing
from diskstream.engine.page import Page
from diskstream.errors import ArgumentError, ClosedError, NoGroupError, ReadOnlyError
from diskstream.group_calls import GroupCall, begin_call
from diskstream.wanted import Wanted
from tests.engine.children import child, hear, say
from tests.group_specs.clock import Clock

THREAD = "diskstream consumers"


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == THREAD]


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    yield
    for thread in threads():
        thread.join(10)
        assert not thread.is_alive()


def waiting(store: aio.Store) -> list[Called] | None:
    """Those for whom the thread waits; None while some are on their way to it, or from it."""
    queueing = store._readers._queueing
    watcher = queueing.here.watcher
    assert watcher is None or isinstance(watcher, Queueing)
    return None if queueing.here.coming else ([] if watcher is None else watcher._calls)


async def until_waiting(store: aio.Store, count: int) -> None:
    """Until so many consumers wait in the thread."""
    never = asyncio.get_running_loop().create_future()
    async with asyncio.timeout(30):
        while (calls := waiting(store)) is None or len(calls) != count:
            await asyncio.wait([never], timeout=0.001)


async def numbers(read: "asyncio.Task[Any]") -> list[int]:
    async with asyncio.timeout(30):
        return [int(entry["n"]) for entry in await read]


def test_a_thousand_consumers_have_one_thread(tmp_path: Path) -> None:
    """Each had its own, which looked five times a second."""

    async def run() -> None:
        async with await aio.open(tmp_path / "s") as store:
            before = threading.active_count()
            groups = [await store.stream(f"jobs:{n}").group("g") for n in range(100)]
            reads = [asyncio.create_task(groups[n % 100].consumer(f"c{n}").read(count=1, block=0)) for n in range(1000)]
            await until_waiting(store, 1000)
            assert len(threads()) == 1
            assert threading.active_count() - before < 40  # with those of `to_thread`
            for n in range(1000):
                await store.stream(f"jobs:{n % 100}").add({"n": n})
            assert sorted([(await numbers(read))[0] for read in reads]) == list(range(1000))

    asyncio.run(run())


def test_who_waits_longest_is_served_first(tmp_path: Path) -> None:
    async def run() -> None:
        async with await aio.open(tmp_path / "s") as store:
            group, reads = await store.stream("x").group("g"), []
            for n, name in enumerate("abcd"):
                reads.append(asyncio.create_task(group.consumer(name).read(count=1, block=0)))
                await until_waiting(store, n + 1)
            for n in range(4):
                await store.stream("x").add({"n": n})
                assert await numbers(reads[n]) == [n]
                assert not any(read.done() for read in reads[n + 1 :])

    asyncio.run(run())


def test_more_than_a_queue_has_places_for_are_served_all(tmp_path: Path) -> None:
    """Who finds no place waits for the bell of the stream."""

    async def run() -> None:
        async with await aio.open(tmp_path / "s") as store:
            group = await store.stream("x").group("g")
            reads = [asyncio.create_task(group.consumer(f"c{n}").read(count=1, block=0)) for n in range(150)]
            await until_waiting(store, 150)
            for n in range(150):
                await store.stream("x").add({"n": n})
            assert sorted([(await numbers(read))[0] for read in reads]) == list(range(150))

    asyncio.run(run())


def append_when_told(path: str) -> None:
    with diskstream.open(path) as store:
        say("open")
        hear()
        store.stream("x").add({"n": 7})


@pytest.mark.parametrize("fsync", ["always", "everysec"])
def test_what_another_process_appends_calls_a_consumer(tmp_path: Path, fsync: str) -> None:
    async def run() -> None:
        async with await aio.open(tmp_path / "s", fsync=fsync) as store:
            group = await store.stream("x").group("g")
            read = asyncio.create_task(group.consumer("a").read(block=0))
            await until_waiting(store, 1)
            with child(append_when_told, tmp_path / "s") as other:
                assert other.hear() == "open"
                other.tell()
                assert await numbers(read) == [7]

    asyncio.run(run())


def test_a_read_of_several_streams_is_ended_by_any_of_them(tmp_path: Path) -> None:
    async def run() -> None:
        async with await aio.open(tmp_path / "s") as store:
            for name in "xyz":
                await store.stream(name).group("g")
            for n, name in enumerate("zxy"):
                read = asyncio.create_task(store.read_group("g", "a", dict.fromkeys("xyz", ">"), block=0))
                await until_waiting(store, 1)
                await store.stream(name).add({"n": n})
                found = await read
                assert [(at, int(entries[0]["n"])) for at, entries in found.items()] == [(name.encode(), n)]

    asyncio.run(run())


def test_a_task_that_is_cancelled_leaves_the_queue_to_the_next(tmp_path: Path) -> None:
    async def run() -> None:
        async with await aio.open(tmp_path / "s") as store:
            group = await store.stream("x").group("g")
            first = asyncio.create_task(group.consumer("a").read(count=1, block=0))
            await until_waiting(store, 1)
            second = asyncio.create_task(group.consumer("b").read(count=1, block=0))
            await until_waiting(store, 2)
            first.cancel()
            await asyncio.wait([first])
            await store.stream("x").add({"n": 1})
            assert await numbers(second) == [1]
            assert (await group.pending()).consumers == {b"b": 1}
            await until_waiting(store, 0)  # the one that was cancelled is not kept

    asyncio.run(run())


def waiters(store: diskstream.Store) -> int:
    """How many places of the queue of `g` in `x` are taken, whoever still has them."""
    log = store._log(b"x", create=False)
    assert log is not None
    number = log.native.group_number(b"g")
    assert number is not None
    turn = log.ctl.join_queue(number)
    assert turn is not None
    try:
        return log.ctl.promised(number, turn)
    finally:
        turn.leave()


def test_who_waited_in_a_loop_that_is_closed_holds_up_nobody(tmp_path: Path) -> None:
    """Each of them was called before those who still wait, for a fifth of a second in vain."""
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _loop, _context: None)  # it complains of tasks that nobody ended

    async def begin() -> tuple[aio.Store, "list[asyncio.Task[Any]]"]:
        store = await aio.open(tmp_path / "s")
        group = await store.stream("x").group("g")
        reads = [asyncio.create_task(group.consumer(f"c{n}").read(count=1, block=0)) for n in range(20)]
        await until_waiting(store, 20)
        return store, reads

    store, reads = loop.run_until_complete(begin())
    assert waiters(store.sync_store) == 20
    loop.close()

    async def run() -> None:
        async with store:
            await until_waiting(store, 0)
            assert waiters(store.sync_store) == 0
            group = await store.stream("x").group("g")
            read = asyncio.create_task(group.consumer("alive").read(block=0))
            await until_waiting(store, 1)
            await store.stream("x").add({"n": 1})
            assert await numbers(read) == [1]

    asyncio.run(run())
    assert not any(read.done() for read in reads)  # they are kept till here: nobody ends them


def begin(store: diskstream.Store) -> GroupCall:
    return begin_call(store, "g", "a", {"x": ">"}, Wanted(1, 0, False, None, None, None))


def test_who_waits_stands_in_the_queue_of_the_stream_that_has_the_name_now(tmp_path: Path) -> None:
    """Who looked once it was open here stood on in the queue of the one that gave way, and was called by nobody."""
    with diskstream.open(tmp_path / "s") as store:
        store.stream("x").group("g")
        with begin(store) as first, begin(store) as second:
            assert first.look() == second.look() == {}
            store.stream("y").group("g")
            store.rename("y", "x")
            assert first.look() == second.look() == {}
            assert waiters(store) == 2
            store.stream("x").add_many([{"n": 1}, {"n": 2}])
            assert [list(call.look()) for call in (first, second)] == [[b"x"]] * 2


def test_who_has_no_place_in_a_queue_looks_for_itself(tmp_path: Path) -> None:
    """Nobody else looks for it: who takes some calls those that have one."""
    with diskstream.open(tmp_path / "s") as store:
        store.stream("x").group("g")
        with contextlib.ExitStack() as calls:
            waiting = [calls.enter_context(begin(store)) for _ in range(100)]
            assert not any(call.look() for call in waiting)
            alike = [call.waits_alike(Page.is_in_place) for call in waiting]
            assert alike[0] is not None
            assert alike == [alike[0]] * 96 + [None] * 4


def test_a_look_that_ends_behind_its_task_leaves_no_place(tmp_path: Path) -> None:
    """A task that was cancelled keeps its read for as long as it is kept itself."""
    with diskstream.open(tmp_path / "s") as store:
        store.stream("x").group("g")
        call = begin(store)
        assert call.look() == {}
        assert waiters(store) == 1
        call.close()
        assert call.look() == {}  # it was under way as the task left
        assert waiters(store) == 0


def test_it_ends_with_nothing_once_its_time_is_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aio_queueing, "LOOK_MS", 3_600_000)

    async def run() -> None:
        async with await aio.open(tmp_path / "s") as store:
            group = await store.stream("x").group("g")
            loop = asyncio.get_running_loop()
            began = loop.time()
            assert await group.consumer("a").read(block=0.05) == []
            assert loop.time() - began >= 0.05
            assert await group.consumer("a").read(block=None) == []
            assert await group.consumer("a").read("0", block=0) == []  # its own history is there, or is not

    asyncio.run(run())


def test_a_clock_that_stands_still_does_not_make_for_one_look_after_another(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s", clock=Clock()) as store:
        store.stream("x").group("g").consumer("a").read()
        store.stream("x").add({"n": 1})
        wanted = Wanted(1, 0, False, 0, None, None)  # what is given is ripe at once
        with begin_call(store, "g", "b", {"x": ">"}, wanted) as call:
            assert call.look()
            assert call.rest_s > 0
        with begin_call(store, "g", "b", {"x": ">"}, Wanted(1, 1e-9, False, None, None, None)) as call:
            assert call.rest_s > 0  # its time is up


def test_what_has_lain_long_enough_is_claimed_by_who_waits(tmp_path: Path) -> None:
    async def run() -> None:
        async with await aio.open(tmp_path / "s") as store:
            group = await store.stream("x").group("g")
            await store.stream("x").add({"n": 1})
            assert await numbers(asyncio.create_task(group.consumer("a").read())) == [1]
            read = asyncio.create_task(group.consumer("b").read(block=0, claim_ms=30))
            assert await numbers(read) == [1]
            assert (await group.pending()).consumers == {b"b": 1}

    asyncio.run(run())


def test_who_waits_learns_that_the_group_is_gone(tmp_path: Path) -> None:
    async def run() -> None:
        async with await aio.open(tmp_path / "s") as store:
            group = await store.stream("x").group("g")
            read = asyncio.create_task(group.consumer("a").read(block=0))
            await until_waiting(store, 1)
            await group.destroy()
            with pytest.raises(NoGroupError, match="XREADGROUP"):
                await numbers(read)

    asyncio.run(run())


@pytest.mark.parametrize("called", [True, False])
def test_who_waits_learns_that_the_store_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, called: bool
) -> None:
    """Also who stood in the queue a moment after all who stood there were called."""
    monkeypatch.setattr(aio_queueing, "LOOK_MS", 3_600_000)
    if not called:
        monkeypatch.setattr(Called, "is_called", lambda _called, _now: False)

    async def run() -> None:
        async with await aio.open(tmp_path / "s") as store:
            group = await store.stream("x").group("g")
            read = asyncio.create_task(group.consumer("a").read(block=0))
            await until_waiting(store, 1)
        with pytest.raises(ClosedError):
            await numbers(read)

    asyncio.run(run())


def test_what_called_nobody_is_found_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is killed between an append and its ring has called nobody."""
    monkeypatch.setattr(Called, "is_called", lambda _called, _now: False)

    async def run() -> None:
        async with await aio.open(tmp_path / "s") as store:
            group = await store.stream("x").group("g")
            read = asyncio.create_task(group.consumer("a").read(block=0))
            await until_waiting(store, 1)
            await store.stream("x").add({"n": 1})
            assert await numbers(read) == [1]

    asyncio.run(run())


def test_an_error_of_a_turn_is_raised_in_each_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with await aio.open(tmp_path / "s") as store:
            group = await store.stream("x").group("g")
            reads = [asyncio.create_task(group.consumer(name).read(block=0)) for name in "ab"]
            await until_waiting(store, 2)

            def fail(_queueing: Queueing) -> None:
                raise OSError("no more of that")

            monkeypatch.setattr(Queueing, "_wait", fail)
            for read in reads:
                with pytest.raises(OSError, match="no more of that"):
                    await numbers(read)
            monkeypatch.undo()
            again = asyncio.create_task(group.consumer("a").read(block=0))
            await until_waiting(store, 1)
            await store.stream("x").add({"n": 1})
            assert await numbers(again) == [1]

    asyncio.run(run())


def test_what_cannot_be_read_is_refused_before_anything_waits(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s") as made:
        made.stream("x").group("g")

    async def run() -> None:
        async with await aio.open(tmp_path / "s") as store:
            with pytest.raises(NoGroupError):
                await store.read_group("other", "a", {"x": ">"}, block=0)
            with pytest.raises(ArgumentError, match="XREADGROUP"):
                await store.read_group("g", "a", {"x": "$"}, block=0)
            with pytest.raises(ArgumentError):
                await store.read_group("g", "a", {"x": ">"}, block=float("nan"))
        async with await aio.open(tmp_path / "s", read_only=True) as store:
            with pytest.raises(ReadOnlyError):
                await store.read_group("g", "a", {"x": ">"}, block=0)
        assert threads() == []

    asyncio.run(run())


def test_times_are_those_of_the_stores_clock(tmp_path: Path) -> None:
    """An entry's age is, by which it is claimed; how long a call waits is not."""
    clock = Clock()

    async def run() -> None:
        async with await aio.open(tmp_path / "s", clock=clock) as store:
            group = await store.stream("x").group("g")
            await store.stream("x").add({"n": 1})
            await group.consumer("a").read()
            assert await group.consumer("b").read(block=0.03, claim_ms=60_000) == []
            clock.go_on(60_000)
            assert await numbers(asyncio.create_task(group.consumer("b").read(block=0, claim_ms=60_000))) == [1]

    asyncio.run(run())


OVER_A_PENDING_READ = """
import asyncio, sys
import diskstream.aio

async def begin(path):
    store = await diskstream.aio.open(path)
    group = await store.stream("x").group("g")
    tasks = [asyncio.ensure_future(group.consumer(name).read(block=0)) for name in "ab"]
    queueing = store._readers._queueing
    while queueing.here.watcher is None or len(queueing.here.watcher._calls) < 2:
        await asyncio.sleep(0)
    return store, tasks

loop = asyncio.new_event_loop()
kept = loop.run_until_complete(begin(sys.argv[1]))
if sys.argv[2] == "closed":
    loop.close()
print("the program ends", flush=True)
"""


@pytest.mark.parametrize("loop", ["closed", "left open"])
def test_a_program_ends_though_consumers_still_wait(tmp_path: Path, loop: str) -> None:
    words = [sys.executable, "-c", OVER_A_PENDING_READ, str(tmp_path / "s"), loop]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (0, "the program ends\n"), done.stderr
