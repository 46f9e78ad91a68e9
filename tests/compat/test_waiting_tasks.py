"""Many tasks of one client: what waits holds up nothing else, and not the end of the program."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis

from diskstream import compat
from diskstream.compat import aio
from tests.compat import endings
from tests.compat.backends import Compat
from tests.engine.children import child

PATIENCE_S = 20


@pytest.mark.parametrize("kind", ["xread", "xreadgroup", "pipeline", "watching"])
def test_a_program_ends_though_a_task_waits(tmp_path: Path, kind: str) -> None:
    """Its loop was closed without cancelling the task: nothing would ever have ended the thread that waits for it."""
    with child(endings.close_the_loop, tmp_path / "s", kind) as program:
        assert program.hear() == "1 left waiting"
        assert program.wait() == 0


async def full(local: Compat, client: compat.aio.Redis) -> list[asyncio.Task[object]]:
    """As many readers as may wait."""
    readers: list[asyncio.Task[object]] = []
    for _ in range(aio._MOST_WAITING):
        readers.append(asyncio.create_task(client.xread({"s": "$"}, block=0)))
        await asyncio.to_thread(local.until_one_waits)
    return readers


def test_a_pipeline_appends_what_all_readers_wait_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not wait for one of their threads."""
    monkeypatch.setattr(aio, "_MOST_WAITING", 3)
    local = Compat(tmp_path / "s")

    async def main() -> None:
        async with local.aio() as client:
            readers = await full(local, client)
            pipe = client.pipeline()
            await asyncio.wait_for(pipe.watch("s"), PATIENCE_S)
            pipe.multi()
            await asyncio.wait_for(pipe.xadd("s", {"a": 1}, id="1-1").execute(), PATIENCE_S)
            assert await asyncio.gather(*readers) == [[[b"s", [(b"1-1", {b"a": b"1"})]]]] * 3

    asyncio.run(main())


def test_one_reader_too_many_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by redis-py's pool, rather than kept from beginning its wait; the places of those that end are free again."""
    monkeypatch.setattr(aio, "_MOST_WAITING", 3)
    local = Compat(tmp_path / "s")

    async def main() -> None:
        async with local.aio() as client:
            readers = await full(local, client)
            with pytest.raises(redis.ConnectionError, match="Too many connections: 3 calls"):
                await asyncio.wait_for(client.xread({"s": "$"}, block=1), PATIENCE_S)
            with pytest.raises(redis.ConnectionError, match="Too many connections"):
                await asyncio.wait_for(
                    client.pipeline(transaction=False).xread({"s": "$"}, block=1).execute(), PATIENCE_S
                )
            await client.xadd("s", {"a": 1})
            await asyncio.gather(*readers)
            assert await client.xread({"s": "$"}, block=1) == []

    asyncio.run(main())


def test_a_pipeline_goes_on_behind_a_read_that_waited(tmp_path: Path) -> None:
    local = Compat(tmp_path / "s")

    async def main() -> None:
        async with local.aio() as client:
            pipe = client.pipeline(transaction=False).xlen("s").xread({"s": "$"}, block=0).xadd("s", {"a": 2}, id="2-1")
            replies = asyncio.create_task(pipe.execute())
            await asyncio.to_thread(local.until_one_waits)
            await client.xadd("s", {"a": 1}, id="1-1")
            assert await replies == [0, [[b"s", [(b"1-1", {b"a": b"1"})]]], b"2-1"]
            assert len(pipe) == 0

    asyncio.run(main())


def test_a_pipeline_that_is_cancelled_while_it_waits_does_no_more(tmp_path: Path) -> None:
    """As where a connection to Redis is closed."""
    local = Compat(tmp_path / "s")

    async def main() -> None:
        async with local.aio() as client:
            pipe = client.pipeline(transaction=False).xread({"s": "$"}, block=0).xadd("s", {"a": 2})
            replies = asyncio.create_task(pipe.execute())
            await asyncio.to_thread(local.until_one_waits)
            replies.cancel()
            with pytest.raises(asyncio.CancelledError):
                await replies
            assert len(pipe) == 0
            assert await client.xlen("s") == 0

    asyncio.run(main())


def test_a_client_is_closed_though_the_task_that_closes_it_is_cancelled(tmp_path: Path) -> None:
    """As by a timeout that runs out as `async with` is left, while all threads of the loop are busy: it stayed open."""
    busy = threading.Event()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        client = compat.aio.Redis(tmp_path / "s")
        waiting = loop.run_in_executor(None, busy.wait)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(None) as limit, client:
                limit.reschedule(loop.time())
        busy.set()
        await waiting
        await asyncio.to_thread(other_threads_end)
        with pytest.raises(redis.ConnectionError, match="is closed"):
            await client.xlen("s")

    def other_threads_end() -> None:
        for thread in threading.enumerate():
            if thread.name == "diskstream waiting":
                thread.join(PATIENCE_S)

    asyncio.run(main())
