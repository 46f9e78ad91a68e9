"""When a consumer of asyncio that waits looks again though nobody has called it: rarely, and one for all alike."""

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

from diskstream import aio, aio_queueing
from diskstream.aio_queueing import Called, Queueing
from diskstream.group_calls import GroupCall
from tests.test_aio_consumers import numbers, until_waiting


def test_it_is_not_looked_again_where_nothing_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Very many may wait: five looks a second of each, which take the lock of the stream, were most of a core."""
    turns, looks = itertools.count(), itertools.count()
    turn, look = Queueing.turn, GroupCall.look

    def count_turns(self: Queueing, coming: Any) -> None:
        next(turns)
        turn(self, coming)

    def count_looks(self: GroupCall) -> Any:
        next(looks)
        return look(self)

    monkeypatch.setattr(Queueing, "turn", count_turns)
    monkeypatch.setattr(GroupCall, "look", count_looks)
    monkeypatch.setattr(aio_queueing, "LOOK_MS", 1)

    async def run() -> None:
        async with await aio.open(tmp_path / "s", fsync="os") as store:
            group = await store.stream("x").group("g")
            read = asyncio.create_task(group.consumer("a").read(block=0))
            await until_waiting(store, 1)
            never, before = asyncio.get_running_loop().create_future(), next(turns)
            while next(turns) < before + 100:
                await asyncio.wait([never], timeout=0.001)
            assert next(looks) <= 3  # the first, and one behind what was not all written then
            await store.stream("x").add({"n": 1})
            assert await numbers(read) == [1]

    asyncio.run(run())


def test_those_who_wait_for_more_streams_than_may_be_open_do_not_open_them_in_turn(
    tmp_path: Path, logs_opened: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A place in the queue of a page that was made anew was given up with the one before: that called its waiter."""
    turns = itertools.count()
    turn = Queueing.turn

    def count_turns(self: Queueing, coming: Any) -> None:
        next(turns)
        turn(self, coming)

    monkeypatch.setattr(Queueing, "turn", count_turns)
    monkeypatch.setattr(aio_queueing, "LOOK_MS", 1)

    async def until_passed(count: int) -> None:
        never, before = asyncio.get_running_loop().create_future(), next(turns)
        while next(turns) < before + count:
            await asyncio.wait([never], timeout=0.001)

    async def run() -> None:
        async with await aio.open(tmp_path / "s", fsync="os", max_open_streams=4) as store:
            groups = [await store.stream(f"s{n}").group("g") for n in range(12)]
            reads = [asyncio.create_task(group.consumer("a").read(count=1, block=0)) for group in groups]
            await until_waiting(store, 12)
            await until_passed(100)  # each looks once more, where its stream was closed, and marked, behind its look
            await until_waiting(store, 12)
            opened = len(logs_opened)
            await until_passed(200)
            assert len(logs_opened) == opened
            for n in range(12):
                await store.stream(f"s{n}").add({"n": n})
                assert await numbers(reads[n]) == [n]

    asyncio.run(run())


def test_one_of_those_who_wait_alike_looks_for_what_called_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them did, five times a second where entries come often: four thousand were given a hundred a second."""
    told: list[int] = []
    turn = Queueing.turn

    def count_told(self: Queueing, coming: Any) -> None:
        before = len(self._calls) + len(coming)
        turn(self, coming)
        told.append(before - len(self._calls))

    monkeypatch.setattr(Queueing, "turn", count_told)
    monkeypatch.setattr(Called, "is_called", lambda _called, _now: False)
    monkeypatch.setattr(aio_queueing, "LOOK_MS", 1)

    async def run() -> None:
        async with await aio.open(tmp_path / "s") as store:
            group = await store.stream("x").group("g")
            reads = [asyncio.create_task(group.consumer(f"c{n}").read(count=1, block=0)) for n in range(20)]
            await until_waiting(store, 20)
            told.clear()
            await store.stream("x").add_many([{"n": n} for n in range(20)])
            async with asyncio.timeout(30):
                assert sorted([(await numbers(read))[0] for read in reads]) == list(range(20))

    asyncio.run(run())
    assert max(told) == 1


def test_each_learns_of_what_called_nobody_where_they_do_not_wait_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two groups, of which one is also waited for with a time to claim, or with another stream."""
    monkeypatch.setattr(Called, "is_called", lambda _called, _now: False)

    async def run() -> None:
        async with await aio.open(tmp_path / "s") as store:
            x, y = store.stream("x"), store.stream("y")
            for stream in (x, y):
                await stream.group("g")
            other = await x.group("h")
            await x.add({"n": 1})
            given = await other.consumer("dead").read()
            reads = [
                other.consumer("a").read(block=0),
                other.consumer("b").read(block=0, claim_ms=3_600_000),
                store.read_group("g", "c", {"x": ">", "y": ">"}, block=0),
            ]
            tasks = [asyncio.create_task(each) for each in reads]
            async with asyncio.timeout(30):
                assert list(await tasks[2]) == [b"x"]
                await until_waiting(store, 2)
                await other.nack(given[0].id)
                assert await numbers(tasks[1]) == [1]
                await x.add({"n": 2})
                assert await numbers(tasks[0]) == [2]

    asyncio.run(run())
