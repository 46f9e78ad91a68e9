"""What holds for a connection, said by `execute_command`: with asyncio as with redis-py's pool."""

import asyncio
from typing import Any

import pytest

from tests.compat.backends import DATABASE, Backend

ANOTHER = DATABASE + 1


async def busy(client: Any) -> None:
    """So many commands at once that one thread, or connection, is not enough."""
    await asyncio.gather(*(client.ping() for _ in range(20)))


def test_select_holds_for_the_commands_behind_it(backend: Backend) -> None:
    """They went to the threads that were free, each with a database of its own: entries landed in either."""

    async def main() -> None:
        async with backend.aio() as client:
            await busy(client)
            await client.execute_command("SELECT", ANOTHER)
            await client.delete("s")
            for _ in range(20):
                await client.xadd("s", {"a": 1})
            assert await client.xlen("s") == 20
            await client.execute_command("SELECT", DATABASE)
            assert await client.exists("s") == 0

    asyncio.run(main())
    there = backend.client(db=ANOTHER)
    assert there.xlen("s") == 20
    there.delete("s")


def test_commands_behind_multi_wait_for_exec(backend: Backend) -> None:
    async def main() -> None:
        async with backend.aio() as client:
            await busy(client)
            assert await client.execute_command("MULTI")
            queued = [await client.execute_command("XADD", "s", f"{n}-1", "a", n) for n in range(1, 21)]
            assert {bytes(one) for one in queued} == {b"QUEUED"}
            assert len(await client.execute_command("EXEC")) == 20
            assert await client.xlen("s") == 20

    asyncio.run(main())


def test_a_command_that_waits_keeps_its_connection(backend: Backend) -> None:
    """What others say meanwhile is not said to it."""

    async def main() -> None:
        async with backend.aio() as client:
            reader = asyncio.create_task(client.xread({"s": "$"}, block=20_000))
            await asyncio.to_thread(backend.until_one_waits)
            await client.execute_command("SELECT", ANOTHER)
            await client.execute_command("XADD", "s", "1-1", "a", 1)
            await client.delete("s")
            await client.execute_command("SELECT", DATABASE)
            await client.xadd("s", {"a": 1}, id="2-1")
            assert await reader == [[b"s", [(b"2-1", {b"a": b"1"})]]]

    asyncio.run(main())


@pytest.mark.parametrize("command", [["SELECT", ANOTHER], ["MULTI"]])
def test_a_pipeline_has_a_connection_of_its_own(backend: Backend, command: list[object]) -> None:
    async def main() -> None:
        async with backend.aio() as client:
            pipe = client.pipeline()
            await pipe.watch("s")
            await client.execute_command(*command)
            pipe.multi()
            assert await pipe.xadd("s", {"a": 1}, id="1-1").execute() == [b"1-1"]

    asyncio.run(main())
    assert backend.client().xlen("s") == 1
