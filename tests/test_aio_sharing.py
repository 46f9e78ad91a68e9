"""Tasks that add or acknowledge, and wait for the disk, share flushes; each learns of its own alone."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import ArgumentError, EntryID, StorageError, aio
from diskstream.engine.log import StreamLog
from diskstream.engine.pending import StreamPending
from diskstream.stream import Stream

TASKS = 200


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many entries each call of the store behind was for."""
    found: list[int] = []
    add, add_many = Stream.add, Stream.add_many

    def counted(self: Stream, *args: Any, **options: Any) -> Any:
        found.append(1)
        return add(self, *args, **options)

    def counted_many(self: Stream, rows: Any, **options: Any) -> Any:
        found.append(len(rows))
        return add_many(self, rows, **options)

    monkeypatch.setattr(Stream, "add", counted)
    monkeypatch.setattr(Stream, "add_many", counted_many)
    return found


def run(path: Path, work: Callable[[aio.Store], Coroutine[Any, Any, None]], **options: Any) -> None:
    async def whole() -> None:
        async with await aio.open(path, **{"fsync": "always", **options}) as store:
            await asyncio.wait_for(work(store), 60)  # where an answer never comes

    asyncio.run(whole())


@pytest.mark.parametrize(("options", "durable"), [({}, {}), ({"fsync": "os"}, {"durable": True})])
def test_what_many_tasks_add_at_once_shares_a_flush(
    tmp_path: Path, calls: list[int], options: dict[str, Any], durable: dict[str, Any]
) -> None:
    async def work(store: aio.Store) -> None:
        added = await asyncio.gather(*(store.stream("s").add({"n": n}, **durable) for n in range(TASKS)))
        assert [(entry.id, entry["n"]) async for entry in store.stream("s").range()] == [
            (entry_id, str(n).encode()) for n, entry_id in enumerate(added)
        ]
        assert (await store.stream("s").info()).durable

    run(tmp_path / "s", work, **options)
    assert calls == [TASKS]


def test_what_is_added_while_a_batch_is_under_way_is_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: list[int]
) -> None:
    begun, goes_on = threading.Event(), threading.Event()
    add = Stream.add

    def held(self: Stream, *args: Any, **options: Any) -> Any:
        begun.set()
        assert goes_on.wait(60)
        return add(self, *args, **options)

    async def work(store: aio.Store) -> None:
        stream = store.stream("s")
        first = asyncio.create_task(stream.add({"n": 0}))
        assert await asyncio.to_thread(begun.wait, 60)
        rest = [asyncio.create_task(stream.add({"n": n})) for n in range(1, 5)]
        await asyncio.wait(rest, timeout=0)
        goes_on.set()
        ids = await asyncio.gather(first, *rest)
        assert ids == sorted(set(ids))

    monkeypatch.setattr(Stream, "add", held)
    run(tmp_path / "s", work)
    assert calls == [1, 4]


def test_an_entry_that_cannot_be_added_is_told_to_its_own_task(tmp_path: Path, calls: list[int]) -> None:
    rows: list[Any] = [{"n": 1}, {}, iter([("n", 2), ("n", 3)]), 7, {"n": 4}]

    async def work(store: aio.Store) -> None:
        found = await asyncio.gather(*(store.stream("s").add(row) for row in rows), return_exceptions=True)
        assert [isinstance(each, EntryID) for each in found] == [True, False, True, False, True]
        assert isinstance(found[1], ArgumentError)
        assert isinstance(found[3], TypeError)
        kept = [entry.pairs async for entry in store.stream("s").range()]
        assert kept == [[(b"n", b"1")], [(b"n", b"2"), (b"n", b"3")], [(b"n", b"4")]]

    run(tmp_path / "s", work)
    assert calls == [5, 3], "the others share a flush all the same"


def test_what_is_too_large_for_a_frame_is_added_one_by_one(tmp_path: Path, calls: list[int]) -> None:
    large = b"x" * (13 << 20)

    async def work(store: aio.Store) -> None:
        added = await asyncio.gather(*(store.stream("s").add({"n": n, "large": large}) for n in range(5)))
        assert [(entry.id, entry["n"]) async for entry in store.stream("s").range()] == [
            (entry_id, b"%d" % n) for n, entry_id in enumerate(added)
        ]

    run(tmp_path / "s", work)
    assert calls == [5, 1, 1, 1, 1, 1]


def test_a_disk_that_says_no_says_so_to_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Stream, *args: Any, **options: Any) -> Any:
        raise StorageError("log", "flush", 5, "Input/output error")

    async def work(store: aio.Store) -> None:
        found = await asyncio.gather(*(store.stream("s").add({"n": n}) for n in range(9)), return_exceptions=True)
        assert [type(each) for each in found] == [StorageError] * 9
        assert await store.stream("s").length() == 0, "tried once more, one by one"

    monkeypatch.setattr(Stream, "add_many", refused)
    run(tmp_path / "s", work)


def test_a_task_that_is_cancelled_takes_no_other_along(tmp_path: Path) -> None:
    async def work(store: aio.Store) -> None:
        stream = store.stream("s")
        tasks = [asyncio.create_task(stream.add({"n": n})) for n in range(30)]
        await asyncio.wait(tasks, timeout=0)
        for task in tasks[::3]:
            task.cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(each, EntryID) for each in found] == [bool(n % 3) for n in range(30)]
        assert {int(entry["n"]) async for entry in stream.range()} >= {n for n in range(30) if n % 3}

    run(tmp_path / "s", work)


def test_more_than_a_batch_holds_is_added_all_the_same(tmp_path: Path, calls: list[int]) -> None:
    async def work(store: aio.Store) -> None:
        await asyncio.gather(*(store.stream("s").add({"n": n}) for n in range(2500)))
        assert [int(entry["n"]) async for entry in store.stream("s").range()] == list(range(2500))

    run(tmp_path / "s", work)
    assert calls == [1024, 1024, 452]


def test_options_that_are_more_than_adding_are_seen_to(tmp_path: Path, calls: list[int]) -> None:
    async def work(store: aio.Store) -> None:
        stream = store.stream("s")
        assert await stream.add({"n": 0}, nomkstream=True) is None
        assert await stream.add({"n": 1}, "5-1") == EntryID(5, 1)
        assert await stream.add({"n": 2}, maxlen=1) > EntryID(5, 1)
        assert await stream.length() == 1

    run(tmp_path / "s", work)
    assert calls == [1, 1, 1]


def test_a_store_may_be_used_in_one_loop_after_the_other(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s", fsync="always") as behind:
        stream = aio.Store(behind).stream("s")

        async def add() -> EntryID:
            return await stream.add({"n": 1})

        ids = [asyncio.run(add()) for _ in range(3)]
        assert ids == sorted(set(ids))
        assert len(behind.stream("s")) == 3


def test_a_loop_whose_threads_are_gone_says_so(tmp_path: Path) -> None:
    async def work(store: aio.Store) -> None:
        await asyncio.get_running_loop().shutdown_default_executor()
        adds = (store.stream("s").add({"n": n}) for n in range(2000))
        found = await asyncio.wait_for(asyncio.gather(*adds, return_exceptions=True), 60)
        assert {type(each) for each in found} == {RuntimeError}

    with diskstream.open(tmp_path / "s", fsync="always") as behind:
        asyncio.run(work(aio.Store(behind)))


def test_adding_to_a_store_that_was_closed_meanwhile_is_an_error(tmp_path: Path) -> None:
    async def work(store: aio.Store) -> None:
        stream = store.stream("s")
        await stream.add({"n": 1})
        await store.close()
        found = await asyncio.gather(*(stream.add({"n": n}) for n in range(3)), return_exceptions=True)
        assert all(isinstance(each, diskstream.ClosedError) for each in found)

    run(tmp_path / "s", work)


@pytest.mark.parametrize("begun", [False, True])
def test_a_loop_that_was_closed_over_adds_is_kept_by_nobody(tmp_path: Path, begun: bool) -> None:
    """Its answers kept it, and what it had made, for as long as the stream was used in other loops."""

    async def add(stream: aio.Stream) -> EntryID:
        return await stream.add({"n": 1})

    with diskstream.open(tmp_path / "s", fsync="always") as behind:
        stream = aio.Store(behind).stream("s")
        loop, threads = asyncio.new_event_loop(), ThreadPoolExecutor(1)
        loop.set_default_executor(threads)
        task = loop.create_task(add(stream))
        for _ in range(1 + begun):  # the task comes to its add; and the batch begins
            loop.call_soon(loop.stop)
            loop.run_forever()
        loop.close()
        threads.shutdown()
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio's own
        gone = weakref.ref(loop)
        del loop, task
        gc.collect()
        assert gone() is None
        asyncio.run(add(stream))
        assert len(behind.stream("s")) == 1 + begun


@pytest.fixture
def flushes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One for each flush that was asked for."""
    found: list[int] = []
    flush = StreamLog.flush

    def counted(self: StreamLog) -> None:
        found.append(1)
        flush(self)

    monkeypatch.setattr(StreamLog, "flush", counted)
    return found


async def given(store: aio.Store, count: int, consumer: str = "c") -> tuple[aio.Group, list[EntryID]]:
    """A group, and what one consumer of it was given."""
    stream = store.stream("s")
    await stream.add_many([{"n": n} for n in range(count)])
    group = await stream.group("g", start="0")
    return group, [entry.id for entry in await group.consumer(consumer).read(count=count)]


def test_what_many_tasks_acknowledge_at_once_shares_a_flush(tmp_path: Path, flushes: list[int]) -> None:
    async def work(store: aio.Store) -> None:
        group, ids = await given(store, TASKS)
        flushes.clear()
        again = [group.ack(ids[0]), group.consumer("d").ack(ids[1], ids[2], ids[2], "7-7")]
        assert await asyncio.gather(*map(group.ack, ids[1:]), *again) == [1] * (TASKS - 1) + [1, 0]
        assert len(flushes) == 1
        assert (await group.info()).pending == 0

    run(tmp_path / "s", work)


def test_groups_that_are_acknowledged_at_once_are_told_apart(tmp_path: Path) -> None:
    async def work(store: aio.Store) -> None:
        group, ids = await given(store, 6)
        other = await store.stream("s").group("h", start="0")
        await other.consumer("c").read(count=2)
        none = await store.stream("s").group("gone")
        await none.destroy()
        asked = [each.ack(entry_id) for entry_id in ids for each in (group, other, none)]
        assert await asyncio.gather(*asked) == [1, 1, 0] * 2 + [1, 0, 0] * 4

    run(tmp_path / "s", work)


def test_what_others_have_claimed_meanwhile_stays_theirs(tmp_path: Path) -> None:
    async def work(store: aio.Store) -> None:
        group, ids = await given(store, 4)
        worker = group.consumer("c").entries(ack=True, block=None)
        assert (await anext(worker)).id == ids[0]
        assert len(await group.consumer("d").claim(ids[0])) == 1
        assert [entry.id async for entry in worker] == ids[1:]
        assert [(each.id, each.consumer) for each in await group.pending_range()] == [(ids[0], b"d")]

    run(tmp_path / "s", work)


def test_acknowledging_waits_for_nothing_where_there_is_nothing_to_wait_for(tmp_path: Path) -> None:
    async def work(store: aio.Store) -> None:
        group, ids = await given(store, 3)
        await asyncio.get_running_loop().shutdown_default_executor()
        assert await asyncio.gather(*map(group.ack, ids)) == [1, 1, 1], "a thread was asked for"

    with diskstream.open(tmp_path / "s", fsync="os") as behind:
        asyncio.run(work(aio.Store(behind)))


def test_the_view_is_written_in_a_thread_where_acknowledgements_make_it_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    checkpoint = StreamPending.checkpoint

    def noted(self: StreamPending) -> None:
        threads.append(threading.current_thread())
        checkpoint(self)

    async def work(store: aio.Store) -> None:
        group, ids = await given(store, 90)
        monkeypatch.setattr(StreamPending, "checkpoint", noted)
        log = store.sync_store._logs[b"s"]
        monkeypatch.setattr(StreamPending, "most_rows", 80)  # as if more had been given meanwhile
        assert await group.ack(ids[0]) == 1
        await asyncio.get_running_loop().shutdown_default_executor()
        assert len(threads) == 1
        assert threading.current_thread() not in threads
        assert log.native.overlay_rows == 0

    with diskstream.open(tmp_path / "s", fsync="os", pending_rows=100) as behind:
        asyncio.run(work(aio.Store(behind)))


def test_a_bad_id_is_told_to_its_own_task(tmp_path: Path) -> None:
    async def work(store: aio.Store) -> None:
        group, ids = await given(store, 2)
        found = await asyncio.gather(
            group.ack(ids[0]), group.ack("nonsense"), group.ack(ids[1]), return_exceptions=True
        )
        assert (found[0], found[2]) == (1, 1)
        assert isinstance(found[1], ArgumentError)

    run(tmp_path / "s", work)


def test_acknowledging_in_a_store_that_was_closed_meanwhile_is_an_error(tmp_path: Path) -> None:
    async def work(store: aio.Store) -> None:
        group, ids = await given(store, 3)
        await store.close()
        found = await asyncio.gather(*map(group.ack, ids), return_exceptions=True)
        assert [type(each) for each in found] == [diskstream.ClosedError] * 3

    run(tmp_path / "s", work)


async def under_way() -> None:
    """Returns once the tasks that were made have begun."""
    begun = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(begun.set_result, None)
    await begun


@pytest.mark.parametrize("options", [{}, {"maxlen": 100}], ids=["shared", "alone"])
def test_what_is_added_is_what_was_given(tmp_path: Path, options: dict[str, Any]) -> None:
    """A mapping and a buffer that are used again at once: entries were packed later, as the last one was."""

    async def work(store: aio.Store) -> None:
        row: dict[str, Any] = {}
        buffer, adding = bytearray(2), []
        for number in range(20):
            buffer[:] = b"%02d" % number
            row.update(n=number, buffer=buffer, view=memoryview(buffer))
            adding.append(asyncio.ensure_future(store.stream("s").add(row, **options)))
            await under_way()
        await asyncio.gather(*adding)
        found = [[entry["n"], entry["buffer"], entry["view"]] async for entry in store.stream("s").range()]
        assert sorted(found) == sorted([b"%d" % number, b"%02d" % number, b"%02d" % number] for number in range(20))

    run(tmp_path / "s", work)


def test_so_are_rows(tmp_path: Path) -> None:
    async def work(store: aio.Store) -> None:
        rows, adding = [{"n": 0}], []
        for number in range(20):
            rows[0]["n"] = number
            adding.append(asyncio.ensure_future(store.stream("s").add_many(rows)))
            await under_way()
        rows.clear()
        await asyncio.gather(*adding)
        found = sorted([int(entry["n"]) async for entry in store.stream("s").range()])
        assert found == list(range(20))

    run(tmp_path / "s", work)


def test_a_cancelled_add_is_of_what_was_given_or_not_at_all(tmp_path: Path) -> None:
    async def work(store: aio.Store) -> None:
        buffer = bytearray(b"first")
        adding = asyncio.ensure_future(store.stream("s").add({"n": buffer}))
        await under_way()
        adding.cancel()
        buffer[:] = b"other"
        await store.stream("s").add({"n": "last"})
        assert [entry["n"] async for entry in store.stream("s").range()] in ([b"last"], [b"first", b"last"])

    run(tmp_path / "s", work)


def test_an_add_that_is_cancelled_before_its_flush_has_begun_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: list[int]
) -> None:
    """A slow disk, and tasks that give up and try again: what had only stood in line was there twice."""
    began, go = threading.Event(), threading.Event()
    add = Stream.add

    def slow(self: Stream, *args: Any, **options: Any) -> Any:
        began.set()
        go.wait(20)
        return add(self, *args, **options)

    async def work(store: aio.Store) -> None:
        stream = store.stream("s")
        first = asyncio.create_task(stream.add({"n": "first"}))
        await asyncio.to_thread(began.wait, 20)
        for _ in range(3):
            attempt = asyncio.gather(*(stream.add({"n": n}) for n in range(700)))
            await under_way()
            attempt.cancel()
            with pytest.raises(asyncio.CancelledError):
                await attempt
        last = asyncio.create_task(stream.add({"n": "last"}))
        await under_way()
        go.set()
        assert await first < await last
        assert [entry["n"] async for entry in stream.range()] == [b"first", b"last"]
        given_up = asyncio.create_task(stream.add({"n": "given up"}))
        asyncio.get_running_loop().call_soon(given_up.cancel)  # behind its first step, before the batch that it begins
        with pytest.raises(asyncio.CancelledError):
            await given_up
        assert await stream.add({"n": "next"}) > await last
        assert await stream.length() == 3

    monkeypatch.setattr(Stream, "add", slow)
    run(tmp_path / "s", work)
