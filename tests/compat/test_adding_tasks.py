"""Many tasks of one client that add: they share frames, and each is answered as if it were alone."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import redis

from diskstream.compat import aio
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
