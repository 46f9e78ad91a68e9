"""redis-py with asyncio: workers as tasks, a read that is cancelled, a connection that is killed."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from tests.real_clients.servers import Target, kill_until_it_waits_again, until_waiting
from tests.real_clients.test_redis_py import PATIENCE_MS, entries

PROTOCOLS = pytest.mark.parametrize("protocol", [2, 3])


@asynccontextmanager
async def connected(target: Target, protocol: int, name: str = "") -> AsyncIterator[Any]:
    """A client whose connections try again at once when one breaks."""
    settings: dict[str, Any] = {"decode_responses": True, "protocol": protocol, "client_name": name or None}
    settings |= {"socket_timeout": None, "max_connections": 200}  # what waits is not given up, whatever the defaults
    client = redis.asyncio.Redis.from_url(target.url, retry=Retry(NoBackoff(), 3), **settings)
    try:
        yield client
    finally:
        await client.aclose()


def run(main: Coroutine[Any, Any, None]) -> None:
    """The whole of a test, which ends in time."""
    asyncio.run(asyncio.wait_for(main, 60))


@PROTOCOLS
def test_workers_are_tasks(target: Target, protocol: int) -> None:
    async def work(client: Any, name: str, done: "asyncio.Queue[int]") -> None:
        while True:
            found = await client.xreadgroup("g", name, {"jobs": ">"}, count=5, block=PATIENCE_MS)
            async with client.pipeline(transaction=False) as batch:
                for id, _ in entries(found):
                    batch.xack("jobs", "g", id)
                assert set(await batch.execute()) == {1}
            for _, fields in entries(found):
                done.put_nowait(int(fields["n"]))

    async def main() -> None:
        async with connected(target, protocol) as client:
            await client.xgroup_create("jobs", "g", mkstream=True)
            done: asyncio.Queue[int] = asyncio.Queue()
            workers = [asyncio.create_task(work(client, f"w{n}", done)) for n in range(5)]
            await asyncio.gather(*(client.xadd("jobs", {"n": n}) for n in range(100)))
            assert sorted([await done.get() for _ in range(100)]) == list(range(100))
            for worker in workers:
                worker.cancel()
            ends = await asyncio.gather(*workers, return_exceptions=True)
            assert all(isinstance(end, asyncio.CancelledError) for end in ends)
            assert (await client.xpending("jobs", "g"))["pending"] == 0

    run(main())


@PROTOCOLS
def test_a_read_that_is_cancelled_takes_no_entry(target: Target, protocol: int) -> None:
    async def main() -> None:
        with target.admin() as admin:
            async with connected(target, protocol, "ann") as client:
                await client.xgroup_create("jobs", "g", mkstream=True)
                reading = asyncio.create_task(client.xreadgroup("g", "ann", {"jobs": ">"}, block=0))
                await asyncio.to_thread(until_waiting, admin, "ann")
                reading.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await reading
                await asyncio.to_thread(until_waiting, admin)
                id = await client.xadd("jobs", {"n": 1})
                found = await client.xreadgroup("g", "bob", {"jobs": ">"}, block=PATIENCE_MS)
                assert entries(found) == [(id, {"n": "1"})]
                assert (await client.xpending("jobs", "g"))["consumers"] == [{"name": "bob", "pending": 1}]

    run(main())


@PROTOCOLS
def test_a_task_whose_connection_is_killed_waits_again(target: Target, protocol: int) -> None:
    async def main() -> None:
        with target.admin() as admin:
            async with connected(target, protocol, "ann") as client:
                await client.xgroup_create("jobs", "g", mkstream=True)
                reading = asyncio.create_task(client.xreadgroup("g", "ann", {"jobs": ">"}, block=PATIENCE_MS))
                await asyncio.to_thread(until_waiting, admin, "ann")
                await asyncio.to_thread(kill_until_it_waits_again, admin, "ann")
                admin.call("XADD", "jobs", "5-1", "n", 1)
                assert entries(await reading) == [("5-1", {"n": "1"})]

    run(main())
