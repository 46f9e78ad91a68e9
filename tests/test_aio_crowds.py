"""More consumers of asyncio than a queue has places for: an entry concerns few of them, and none is forgotten."""

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

from diskstream import aio, aio_queueing
from diskstream.group_calls import GroupCall
from tests.test_aio_consumers import numbers, until_waiting

CROWD = 150  # 96 of them have a place


async def crowd(store: aio.Store, **options: Any) -> "list[asyncio.Task[Any]]":
    """Consumers that wait, each for one entry."""
    group = await store.stream("x").group("g")
    reads = [group.consumer(f"c{n}").read(count=1, block=0, **options) for n in range(CROWD)]
    tasks = [asyncio.create_task(read) for read in reads]
    await until_waiting(store, CROWD)
    return tasks


async def end(tasks: "list[asyncio.Task[Any]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


@pytest.mark.parametrize("claim_ms", [None, 3_600_000])
def test_an_entry_calls_a_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, claim_ms: int | None) -> None:
    """All that had no place looked at each entry, and who was given it waited for them."""
    monkeypatch.setattr(aio_queueing, "LOOK_MS", 3_600_000)
    looks, look = itertools.count(), GroupCall.look

    def count_looks(self: GroupCall) -> Any:
        next(looks)
        return look(self)

    async def run() -> None:
        async with await aio.open(tmp_path / "s") as store:
            tasks = await crowd(store, claim_ms=claim_ms)
            monkeypatch.setattr(GroupCall, "look", count_looks)
            for n in range(5):
                await store.stream("x").add({"n": n})
                await until_waiting(store, CROWD - 1 - n)
            assert sorted(int(task.result()[0]["n"]) for task in tasks if task.done()) == list(range(5))
            assert next(looks) <= 10  # of who was called, and of one who may get the place
            await end(tasks)

    asyncio.run(run())


@pytest.mark.parametrize("fsync", ["always", "os"])
@pytest.mark.parametrize("together", [True, False])
def test_as_many_entries_reach_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, fsync: str, together: bool
) -> None:
    """Without a look at what called nobody: who leaves some calls the next."""
    monkeypatch.setattr(aio_queueing, "LOOK_MS", 3_600_000)

    async def run() -> None:
        async with await aio.open(tmp_path / "s", fsync=fsync) as store:
            tasks, rows = await crowd(store), [{"n": n} for n in range(CROWD)]
            if together:
                await store.stream("x").add_many(rows)
            else:
                await asyncio.gather(*map(store.stream("x").add, rows))
            assert sorted([(await numbers(task))[0] for task in tasks]) == list(range(CROWD))

    asyncio.run(run())


def test_all_look_at_what_called_nobody(tmp_path: Path) -> None:
    """A group that is set back has what lies behind."""

    async def run() -> None:
        async with await aio.open(tmp_path / "s") as store:
            await store.stream("x").add_many([{"n": n} for n in range(CROWD)])
            tasks = await crowd(store)
            await (await store.stream("x").group("g")).set_id("0")
            assert sorted([(await numbers(task))[0] for task in tasks]) == list(range(CROWD))

    asyncio.run(run())


def test_who_has_a_place_may_be_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that had none are called then, though the bell rang before."""
    monkeypatch.setattr(aio_queueing, "LOOK_MS", 3_600_000)

    async def run() -> None:
        async with await aio.open(tmp_path / "s") as store:
            tasks = await crowd(store)
            await store.stream("x").add({"n": 0})
            await until_waiting(store, CROWD - 1)
            left = [task for task in tasks if not task.done()]
            await end(left[: len(left) - 20])
            await store.stream("x").add_many([{"n": n} for n in range(20)])
            assert sorted([(await numbers(task))[0] for task in left[-20:]]) == list(range(20))

    asyncio.run(run())
