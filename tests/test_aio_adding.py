"""Tasks that add and wait for the disk share flushes, and each learns of its own entry alone."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import ArgumentError, EntryID, StorageError, aio
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
