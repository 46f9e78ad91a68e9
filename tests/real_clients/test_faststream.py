"""FastStream, a framework whose services read streams as groups, over the server."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
import redis.asyncio

from tests.real_clients.servers import Target

faststream: Any = pytest.importorskip("faststream.redis", reason="needs FastStream, which is not installed")

POLL_MS = 200


def run(main: Coroutine[Any, Any, None]) -> None:
    """The whole of a test, which ends in time."""
    asyncio.run(asyncio.wait_for(main, 60))


def sub(name: str, consumer: str, **options: Any) -> Any:
    """A stream as the group `g` reads it, from its beginning on."""
    return faststream.StreamSub(name, group="g", consumer=consumer, polling_interval=POLL_MS, **options)


async def until_none_pends(target: Target, name: str) -> None:
    """Returns once all that was given is acknowledged: a handler returns before that. The last reply tells."""
    async with redis.asyncio.Redis.from_url(target.url) as client:
        pending = -1
        for _ in range(10_000):
            pending = (await client.xpending(name, "g"))["pending"]
            if pending == 0:
                return
    raise AssertionError(f"{pending} entries pend")


def test_services_hand_on_what_they_read(target: Target) -> None:
    async def main() -> None:
        broker = faststream.RedisBroker(target.url, logger=None)
        seen: asyncio.Queue[int] = asyncio.Queue()

        async def double(order: dict[str, int]) -> dict[str, int]:
            return {"n": 2 * order["n"]}

        async def end(order: dict[str, int]) -> None:
            seen.put_nowait(order["n"])

        handler = broker.subscriber(stream=sub("orders", "ann"))(double)
        broker.publisher(stream=faststream.StreamSub("doubled"))(handler)
        broker.subscriber(stream=sub("doubled", "bob"))(end)

        async with broker:
            await broker.start()
            for n in range(20):
                await broker.publish({"n": n}, stream="orders")
            assert [await seen.get() for _ in range(20)] == [2 * n for n in range(20)]
            await until_none_pends(target, "orders")
            await until_none_pends(target, "doubled")

    run(main())


def test_a_service_reads_in_batches_and_trims(target: Target) -> None:
    async def main() -> None:
        broker = faststream.RedisBroker(target.url, logger=None)
        seen: asyncio.Queue[list[int]] = asyncio.Queue()

        async def take(orders: list[int]) -> None:
            seen.put_nowait(orders)

        broker.subscriber(stream=sub("orders", "ann", batch=True, max_records=7))(take)

        async with broker:
            await broker.start()
            for n in range(50):
                await broker.publish(n, stream="orders", maxlen=1000)
            found: list[int] = []
            while len(found) < 50:
                batch = await seen.get()
                assert len(batch) <= 7
                found += batch
            assert found == list(range(50))
            await until_none_pends(target, "orders")

    run(main())


@pytest.mark.parametrize("how", ["min_idle_time", "claim_min_idle_time"])
def test_a_service_takes_over_what_a_lost_one_held(target: Target, how: str) -> None:
    if how == "claim_min_idle_time" and not target.ours:
        pytest.skip("XREADGROUP CLAIM is of Redis 8.4 and of diskstream")

    async def main() -> None:
        broker = faststream.RedisBroker(target.url, logger=None)
        seen: asyncio.Queue[int] = asyncio.Queue()
        async with redis.asyncio.Redis.from_url(target.url) as lost:
            await lost.xgroup_create("orders", "g", "0", mkstream=True)
            await broker.connect()
            for n in range(5):
                await broker.publish(n, stream="orders")
            given = await lost.xreadgroup("g", "lost", {"orders": ">"})
            assert given

        async def take(order: int) -> None:
            seen.put_nowait(order)

        broker.subscriber(stream=sub("orders", "ann", **{how: 1}))(take)

        async with broker:
            await broker.start()
            assert sorted([await seen.get() for _ in range(5)]) == list(range(5))
            await until_none_pends(target, "orders")

    run(main())
