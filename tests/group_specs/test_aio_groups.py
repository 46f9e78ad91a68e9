"""Groups for asyncio: the same answers, and nothing that waits holds up the loop."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from diskstream import GroupExistsError, NoGroupError, aio
from tests.group_specs.clock import Clock
from tests.streams.layers import ids

Body = Callable[[aio.Stream], Awaitable[None]]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def run(tmp_path: Path, clock: Clock) -> Callable[[Body], None]:
    """Runs something with a stream of five entries."""

    def start(body: Body) -> None:
        async def whole() -> None:
            async with await aio.open(tmp_path / "store", clock=clock, fsync="os") as store:
                stream = store.stream("s")
                await stream.add_many([{"n": n} for n in range(1, 6)], ids=[(n, 0) for n in range(1, 6)])
                await asyncio.wait_for(body(stream), timeout=60)

        asyncio.run(whole())

    return start


Run = Callable[[Body], None]


async def joined(group: aio.Group, name: bytes) -> None:
    """Returns once this consumer waits."""
    while name not in {each.name for each in await group.consumers()}:
        await asyncio.wait([asyncio.ensure_future(group.info())])


def test_reading_and_acknowledging(run: Run) -> None:
    async def body(stream: aio.Stream) -> None:
        group = await stream.group("g", start="0")
        assert group.name == b"g"
        alice = group.consumer("alice")
        assert alice.name == b"alice"
        entries = await alice.read(count=3)
        assert ids(entries) == ["1-0", "2-0", "3-0"]
        assert await group.ack("1-0") == 1
        assert await alice.ack("2-0", "2-0") == 1
        assert ids(await alice.read("0")) == ["3-0"]
        assert (await group.info()).pending == 1
        assert [each.pending for each in await group.consumers()] == [1]
        assert (await group.pending()).total == 1
        assert [str(entry.id) for entry in await group.pending_range(consumer="alice")] == ["3-0"]

    run(body)


def test_the_rest_of_the_verbs(run: Run, clock: Clock) -> None:
    async def body(stream: aio.Stream) -> None:
        group = await stream.group("g", start="0", create="new")
        with pytest.raises(GroupExistsError):
            await stream.group("g", create="new")
        alice, bob = group.consumer("alice"), group.consumer("bob")
        await alice.read(count=4)
        clock.go_on(100)
        assert ids(await bob.claim("1-0", min_idle_ms=100)) == ["1-0"]
        found = await bob.autoclaim(100, count=1)
        assert (ids(found.entries), str(found.cursor)) == (["2-0"], "3-0")
        assert await group.nack("2-0", mode="SILENT") == 1
        assert [entry.deliveries for entry in await group.pending_range("2", "2")] == [1]
        assert ids(await bob.read(claim_ms=10**5, count=1)) == ["2-0"]
        assert await group.ack_delete("1-0", "9-9") == [1, -1]
        assert await group.delete_consumer("alice") == 2
        await group.set_id("3-0", entries_read=3)
        assert ids(await bob.read()) == ["4-0", "5-0"]
        assert await group.destroy()
        assert not await group.destroy()
        with pytest.raises(NoGroupError):
            await bob.read()

    run(body)


def test_a_read_waits_while_the_loop_goes_on(run: Run) -> None:
    async def body(stream: aio.Stream) -> None:
        group = await stream.group("g")
        reading = asyncio.create_task(group.consumer("alice").read(block=0))
        await joined(group, b"alice")
        assert not reading.done()
        await stream.add({"n": 6}, "6-0")
        assert ids(await reading) == ["6-0"]
        assert await group.consumer("alice").read(block=0.01) == []

    run(body)


def test_the_store_reads_several(run: Run) -> None:
    async def body(stream: aio.Stream) -> None:
        store = aio.Store(stream.sync_stream._store)
        await stream.group("g", start="0")
        await store.stream("t").group("g")
        reading = asyncio.create_task(store.read_group("g", "alice", {"t": ">", "s": ">"}, block=0, count=2))
        assert {name: ids(entries) for name, entries in (await reading).items()} == {b"s": ["1-0", "2-0"]}

    run(body)


def test_a_cancelled_read_leaves_the_queue(run: Run) -> None:
    async def body(stream: aio.Stream) -> None:
        group = await stream.group("g")
        first = asyncio.create_task(group.consumer("first").read(block=0))
        await joined(group, b"first")
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        second = asyncio.create_task(group.consumer("second").read(block=0))
        await joined(group, b"second")
        # The thread of the first leaves within a moment; what it is given until then is pending with it.
        added = 5
        while not second.done():
            added += 1
            await stream.add({"n": added}, (added, 0))
            await asyncio.wait([second], timeout=0.05)
        pending = await group.pending()
        assert pending.total == added - 5
        assert len(await second) + len(await group.consumer("first").read("0")) <= pending.total

    run(body)


def test_the_group_that_goes_ends_a_wait(run: Run) -> None:
    async def body(stream: aio.Stream) -> None:
        group = await stream.group("g")
        reading = asyncio.create_task(group.consumer("alice").read(block=0))
        await joined(group, b"alice")
        await group.destroy()
        with pytest.raises(NoGroupError):
            await reading

    run(body)


@pytest.mark.parametrize("ack", [False, True])
def test_a_worker_gets_its_backlog_first_then_what_is_new(run: Run, ack: bool) -> None:
    async def body(stream: aio.Stream) -> None:
        group = await stream.group("g", start="0")
        await group.consumer("alice").read(count=3)
        await stream.delete("2-0")
        working = group.consumer("alice").entries(ack=ack, block=None, count=2)
        assert [str(entry.id) async for entry in working] == ["1-0", "3-0", "4-0", "5-0"]
        assert (await group.pending()).total == (0 if ack else 5)

    run(body)


def test_a_worker_waits_for_more(run: Run) -> None:
    async def body(stream: aio.Stream) -> None:
        group = await stream.group("g")
        seen: list[str] = []

        async def work() -> None:
            async for entry in group.consumer("alice"):
                seen.append(str(entry.id))
                if len(seen) == 2:
                    return

        working = asyncio.create_task(work())
        await joined(group, b"alice")
        for number in (6, 7):
            await stream.add({"n": number}, (number, 0))
        await working
        assert seen == ["6-0", "7-0"]

    run(body)


def test_what_the_loop_gave_back_is_not_acknowledged(run: Run) -> None:
    async def body(stream: aio.Stream) -> None:
        group = await stream.group("g", start="0")
        async for entry in group.consumer("alice").entries(ack=True, block=None):
            if entry["n"] == b"3":
                await group.nack(entry.id)
        assert [str(entry.id) for entry in await group.pending_range()] == ["3-0"]

    run(body)
