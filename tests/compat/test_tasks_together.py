"""Many tasks of one client that add, or acknowledge: they share flushes, and each is answered as if it were alone."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import redis

from diskstream.compat import aio
from diskstream.engine.log import StreamLog
from diskstream.stream import Stream

TASKS = 100
PATIENCE_S = 60


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many entries were added together, each time that it was more than one."""
    found: list[int] = []
    add_many = Stream.add_many

    def counted(self: Stream, rows: Any, **options: Any) -> Any:
        if len(rows) > 1:
            found.append(len(rows))
        return add_many(self, rows, **options)

    monkeypatch.setattr(Stream, "add_many", counted)
    return found


def run(path: Path, work: Callable[[aio.Redis], Coroutine[Any, Any, None]], **options: Any) -> None:
    async def whole() -> None:
        async with aio.Redis(path, **{"fsync": "os", **options}) as client:
            await asyncio.wait_for(work(client), PATIENCE_S)

    asyncio.run(whole())


@pytest.mark.parametrize("fsync", ["os", "always"])
def test_what_tasks_add_at_once_is_one_frame(tmp_path: Path, frames: list[int], fsync: str) -> None:
    async def work(client: aio.Redis) -> None:
        added = await asyncio.gather(*(client.xadd("s", {"n": n}) for n in range(TASKS)))
        assert await client.xrange("s") == [(entry_id, {b"n": b"%d" % n}) for n, entry_id in enumerate(added)]
        assert (await client.info("commandstats"))["cmdstat_xadd"]["calls"] == TASKS

    run(tmp_path / "s", work, fsync=fsync)
    assert frames == [TASKS]


def test_each_key_and_each_command_with_options_is_answered_for_itself(tmp_path: Path, frames: list[int]) -> None:
    async def work(client: aio.Redis) -> None:
        await client.xadd("full", {"n": 0}, id=f"{2**64 - 1}-{2**64 - 1}")
        asked = [client.xadd(key, {"n": n}) for key in ("s", "full", "t") for n in range(2)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(each) for each in found] == [bytes] * 2 + [redis.ResponseError] * 2 + [bytes] * 2
        await client.xadd("s", {"n": 2}, maxlen=1, approximate=False)
        assert [await client.xlen(key) for key in ("s", "full", "t")] == [1, 1, 2]

    run(tmp_path / "s", work)
    assert frames == [2, 2, 2]


def test_what_fails_together_is_tried_one_by_one_and_others_have_their_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_many = Stream.add_many

    def short_of_memory(self: Stream, rows: Any, **options: Any) -> Any:
        if self.name == b"t" and len(rows) > 1:
            raise MemoryError
        return add_many(self, rows, **options)

    async def work(client: aio.Redis) -> None:
        monkeypatch.setattr(Stream, "add_many", short_of_memory)
        found = await asyncio.gather(*(client.xadd(key, {"n": n}) for key in ("s", "t") for n in range(3)))
        assert [entry_id for key in ("s", "t") for entry_id, _ in await client.xrange(key)] == found

    run(tmp_path / "s", work)


def test_a_transaction_keeps_what_is_its_own(tmp_path: Path) -> None:
    """Commands without a pipeline have the caller that was free last: the first of them, here, one with a MULTI."""

    async def work(client: aio.Redis) -> None:
        async def add(*numbers: int) -> list[bool]:
            asked = (client.execute_command("XADD", "s", "*", "n", n) for n in numbers)
            return [reply == b"QUEUED" for reply in await asyncio.gather(*asked)]

        await client.execute_command("MULTI")
        assert await add(0, 1) == [True, False]
        assert await add(2, 3) == [False, True], "the other caller was free last"
        assert len(await client.execute_command("EXEC")) == 2
        assert [fields[b"n"] for _, fields in await client.xrange("s")] == [b"1", b"2", b"0", b"3"]

    run(tmp_path / "s", work)


def test_databases_are_told_apart(tmp_path: Path) -> None:
    async def work(client: aio.Redis) -> None:
        await client.execute_command("SELECT", 1)
        await asyncio.gather(*(client.xadd("s", {"n": n}) for n in range(3)))

    run(tmp_path / "s", work)

    async def look(client: aio.Redis) -> None:
        assert [fields[b"n"] for _, fields in await client.xrange("s")] == [b"1", b"2"]

    run(tmp_path / "s", look)


def test_adding_by_a_client_that_is_closed_is_an_error(tmp_path: Path) -> None:
    async def work(client: aio.Redis) -> None:
        await client.aclose()
        found = await asyncio.gather(*(client.xadd("s", {"n": n}) for n in range(3)), return_exceptions=True)
        assert [type(each) for each in found] == [redis.ConnectionError] * 3

    run(tmp_path / "s", work)


def test_what_tasks_acknowledge_at_once_is_flushed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushes: list[int] = []
    flush = StreamLog.flush

    def counted(self: StreamLog) -> None:
        flushes.append(1)
        flush(self)

    async def work(client: aio.Redis) -> None:
        ids = await asyncio.gather(*(client.xadd("s", {"n": n}) for n in range(TASKS)))
        await client.xgroup_create("s", "g", "0")
        await client.xreadgroup("g", "c", {"s": ">"}, count=TASKS)
        monkeypatch.setattr(StreamLog, "flush", counted)
        found = await asyncio.gather(
            *(client.xack("s", "g", entry_id) for entry_id in ids), client.xack("s", "g", *ids)
        )
        assert found == [1] * TASKS + [0]
        assert flushes == [1]
        assert (await client.info("commandstats"))["cmdstat_xack"]["calls"] == TASKS + 1

    run(tmp_path / "s", work, fsync="always")


def test_an_acknowledgement_that_is_wrong_is_told_to_its_own_task(tmp_path: Path) -> None:
    async def work(client: aio.Redis) -> None:
        entry_id = await client.xadd("s", {"n": 1})
        await client.xgroup_create("s", "g", "0")
        await client.xreadgroup("g", "c", {"s": ">"})
        groups = ("g", "none", "g")
        asked = [client.xack("s", group, given) for group in groups for given in ("nonsense", entry_id)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert found[1:4] == [1, 0, 0]
        assert found[5] == 0
        assert [type(each) for each in (found[0], found[4])] == [redis.ResponseError] * 2

    run(tmp_path / "s", work)
