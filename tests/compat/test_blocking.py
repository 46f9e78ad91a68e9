"""Reads that wait: for an append, by this client or another, until the time is over, or until they are given up."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import redis

import diskstream
from diskstream.commands.keyspace import Keyspace
from diskstream.commands.replies import NIL_ARRAY
from diskstream.commands.waiting import Waiting
from diskstream.compat.waiting import wait
from diskstream.watching import Watch
from tests.commands.world import Ours
from tests.compat.backends import Backend, Compat

PATIENCE_MS = 20_000


def begun(backend: Backend, read: Callable[[], Any]) -> Future[Any]:
    """A read in a thread, which has begun to wait."""
    pool = ThreadPoolExecutor(1)
    future = pool.submit(read)
    pool.shutdown(wait=False)
    backend.until_one_waits()
    return future


def test_a_read_waits_for_an_append(backend: Backend) -> None:
    reader, writer = backend.client(), backend.client()
    reading = begun(backend, lambda: reader.xread({"s": "$", "t": "$"}, block=PATIENCE_MS))
    writer.xadd("t", {"a": 1}, id="5-1")
    assert reading.result(PATIENCE_MS / 1000) == [[b"t", [(b"5-1", {b"a": b"1"})]]]


def test_a_group_waits_for_an_append(backend: Backend) -> None:
    client = backend.client(protocol=3)
    client.xgroup_create("s", "g", mkstream=True)
    reading = begun(backend, lambda: client.xreadgroup("g", "ann", {"s": ">"}, block=PATIENCE_MS))
    client.xadd("s", {"a": 1}, id="5-1")
    assert reading.result(PATIENCE_MS / 1000) == {b"s": [[(b"5-1", {b"a": b"1"})]]}


def test_a_group_that_goes_ends_the_wait(backend: Backend) -> None:
    client = backend.client()
    client.xgroup_create("s", "g", mkstream=True)
    reading = begun(backend, lambda: client.xreadgroup("g", "ann", {"s": ">"}, block=PATIENCE_MS))
    client.xgroup_destroy("s", "g")
    with pytest.raises(redis.ResponseError, match="NOGROUP"):
        reading.result(PATIENCE_MS / 1000)


def test_a_group_that_is_taken_back_ends_the_wait(ours: Backend) -> None:
    """Redis lets its consumers wait for the next entry."""
    client = ours.client()
    client.xadd("s", {"a": 1}, id="5-1")
    client.xgroup_create("s", "g", id="$")
    reading = begun(ours, lambda: client.xreadgroup("g", "ann", {"s": ">"}, block=PATIENCE_MS))
    client.xgroup_setid("s", "g", "0")
    assert reading.result(PATIENCE_MS / 2000) == [[b"s", [(b"5-1", {b"a": b"1"})]]]


@pytest.mark.parametrize(("protocol", "empty"), [(None, []), (2, []), (3, {})])
def test_the_time_is_over(backend: Backend, protocol: int | None, empty: object) -> None:
    client, began = backend.client(protocol=protocol), time.monotonic()
    assert client.xread({"s": "$"}, block=30) == empty
    assert 0.03 <= time.monotonic() - began < 20


def test_tasks_wait_for_an_append(backend: Backend) -> None:
    async def main() -> None:
        async with backend.aio() as client:
            reads = [asyncio.create_task(client.xread({f"s{n}": "0"}, block=PATIENCE_MS)) for n in range(20)]
            await asyncio.gather(*(client.xadd(f"s{n}", {"n": n}, id="1-1") for n in range(20)))
            for n, found in enumerate(await asyncio.gather(*reads)):
                assert found == [[b"s%d" % n, [(b"1-1", {b"n": b"%d" % n})]]]

    asyncio.run(main())


def test_another_opening_of_the_store_ends_the_wait(ours: Backend) -> None:
    if not isinstance(ours, Compat):
        pytest.skip("of compat only")
    client = ours.client(db=0)
    reading = begun(ours, lambda: client.xread({"s": "$"}, block=PATIENCE_MS))
    with diskstream.open(ours.path) as store:
        id = store.stream("s").add({"a": "1"})
    assert reading.result(PATIENCE_MS / 1000) == [[b"s", [(str(id).encode(), {b"a": b"1"})]]]


def test_a_task_that_is_cancelled_leaves_no_thread_waiting(ours: Backend) -> None:
    if not isinstance(ours, Compat):
        pytest.skip("of compat only")

    async def main() -> None:
        async with ours.aio() as client:
            read = asyncio.create_task(client.xread({"s": "$"}, block=0))
            await asyncio.to_thread(ours.until_one_waits)
            read.cancel()
            with pytest.raises(asyncio.CancelledError):
                await read

    asyncio.run(main())
    for thread in threading.enumerate():
        if thread.name.startswith("diskstream waiting"):
            thread.join(20)
            assert not thread.is_alive()


@pytest.mark.parametrize("kind", ["xread", "xreadgroup"])
@pytest.mark.parametrize("others", ["another client has the directory", "the last client"])
def test_a_client_that_is_closed_ends_its_wait(tmp_path: Path, kind: str, others: str) -> None:
    """Which else would last for as long as another client had the directory open."""
    local = Compat(tmp_path / "s")
    client = local.client()
    other = local.client() if others.startswith("another") else None
    client.xgroup_create("s", "g", mkstream=True)
    reads: dict[str, Callable[[], Any]] = {
        "xread": lambda: client.xread({"s": "$"}, block=PATIENCE_MS),
        "xreadgroup": lambda: client.xreadgroup("g", "ann", {"s": ">"}, block=PATIENCE_MS),
    }
    reading = begun(local, reads[kind])
    client.close()
    with pytest.raises(redis.ConnectionError, match="is closed"):
        reading.result(PATIENCE_MS / 2000)
    if other is not None:
        assert other.xlen("s") == 0
    local.close()


def test_a_client_that_is_closed_ends_the_waits_of_its_tasks(tmp_path: Path) -> None:
    local = Compat(tmp_path / "s")
    other = local.client()

    async def main() -> None:
        client = local.aio()
        reads = [
            client.xread({"s": "$"}, block=0),
            client.pipeline(transaction=False).xread({"s": "$"}, block=0).execute(),
        ]
        tasks = [asyncio.create_task(read) for read in reads]
        for _ in tasks:
            await asyncio.to_thread(local.until_one_waits)
        await client.aclose()
        for task in tasks:
            with pytest.raises(redis.ConnectionError, match="is closed"):
                await asyncio.wait_for(task, PATIENCE_MS / 1000)

    asyncio.run(main())
    other.close()


def test_a_pipeline_of_a_closed_client_is_refused_as_a_command_is(tmp_path: Path) -> None:
    local = Compat(tmp_path / "s")

    async def main() -> None:
        client = local.aio()
        await client.aclose()
        with pytest.raises(redis.ConnectionError, match="is closed"):
            await client.xlen("s")
        for transaction in (True, False):
            pipe = client.pipeline(transaction=transaction)
            with pytest.raises(redis.ConnectionError, match="is closed"):
                await pipe.xadd("s", {"a": 1}).xadd("s", {"a": 2}).execute()

    asyncio.run(main())


def waiting_for_many(keyspace: Keyspace, command: str, keys: list[str]) -> Waiting:
    """A wait for new entries of these streams, which have a group."""
    for key in keys:
        keyspace.stream(0, key.encode()).create_group("g", mkstream=True)
    words = [*command.split(), "BLOCK", "0", "STREAMS", *keys, *("$>"["GROUP" in command] for _ in keys)]
    waiting = Ours(keyspace).raw(*(word.encode() for word in words))
    assert isinstance(waiting, Waiting)
    return waiting


@pytest.mark.parametrize("command", ["XREAD", "XREADGROUP GROUP g c"])
def test_a_wait_for_more_streams_than_may_be_open_does_not_open_them_in_turn(
    tmp_path: Path, logs_opened: list[Path], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    keys, slices = [f"of many {number}" for number in range(20)], list[int]()
    watching = Watch.wait

    def note(watch: Watch, timeout_s: float) -> bool:
        slices.append(len(logs_opened))
        if len(slices) == 10:
            waiting.until = time.monotonic()
        return watching(watch, timeout_s)

    monkeypatch.setattr(Watch, "wait", note)
    with Keyspace(tmp_path / "data", fsync="always", max_open_streams=4) as keyspace:
        waiting = waiting_for_many(keyspace, command, keys)
        assert wait(keyspace, waiting, nullcontext) is NIL_ARRAY
    assert slices[2] == slices[-1]


@pytest.mark.parametrize("command", ["XREAD", "XREADGROUP GROUP g c"])
def test_an_entry_for_a_wait_for_more_streams_than_may_be_open_opens_its_own_alone(
    tmp_path: Path, logs_opened: list[Path], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    keys, slices = [f"of many {number}" for number in range(20)], list[int]()
    watching = Watch.wait

    def add_one(watch: Watch, timeout_s: float) -> bool:
        slices.append(len(logs_opened))
        if len(slices) == 5:
            keyspace.stream(0, b"of many 7").add({"a": "1"})
            slices.append(len(logs_opened))
        return watching(watch, timeout_s)

    monkeypatch.setattr(Watch, "wait", add_one)
    with Keyspace(tmp_path / "data", fsync="always", max_open_streams=4) as keyspace:
        waiting = waiting_for_many(keyspace, command, keys)
        [[key, [_]]] = wait(keyspace, waiting, nullcontext)
        assert key == b"of many 7"
    assert len(logs_opened) <= slices[-1] + 1


def test_a_wait_for_more_lists_than_streams_may_be_open_sees_one_that_comes(tmp_path: Path) -> None:
    keys = [f"of many {number}" for number in range(20)]
    with Keyspace(tmp_path / "data", fsync="os", max_open_streams=4) as keyspace:
        ours = Ours(keyspace)
        waiting = ours.raw(b"BLPOP", *(key.encode() for key in keys), b"0")
        assert isinstance(waiting, Waiting)
        with ThreadPoolExecutor(1) as pool:
            popped = pool.submit(wait, keyspace, waiting, nullcontext)
            ours.raw(b"LPUSH", keys[7].encode(), b"v")
            assert popped.result(PATIENCE_MS / 1000) == [keys[7].encode(), b"v"]
