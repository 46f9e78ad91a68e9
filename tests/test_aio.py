"""The asyncio face: the same answers, and nothing that waits holds up the loop."""

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import diskstream
from diskstream import ArgumentError, Commit, CorruptionError, Store, aio
from tests.engine.sample import SMALL, damage_node


def test_what_is_added_comes_back(tmp_path: Path) -> None:
    async def run() -> None:
        async with await aio.open(tmp_path / "store") as store:
            race = store.stream("race")
            first = await race.add({"rider": "Castilla"})
            rest = await race.add_many([{"rider": "Norem"}, {"rider": "Prickett"}])
            assert [entry.id async for entry in race.range()] == [first, *rest]
            assert [entry["rider"] async for entry in race.revrange(count=1)] == [b"Prickett"]
            assert await race.length() == 3
            assert (await race.info()).last_generated_id == rest[-1]
            assert await race.delete(rest[0]) == 1
            assert await race.trim(maxlen=1) == 1
            assert await store.streams() == [b"race"]

    asyncio.run(run())


@pytest.mark.parametrize("block", [-1, float("nan"), "1", pytest.param(10**400, id="no float")])
def test_what_is_no_time_to_wait_is_refused_as_without_asyncio(tmp_path: Path, block: Any) -> None:
    """With NaN a read waited for ever."""

    async def run() -> None:
        async with await aio.open(tmp_path / "store") as store:
            race = store.stream("race")
            with pytest.raises(ArgumentError, match="timeout is"):
                await race.read("$", block=block)
            with pytest.raises(ArgumentError, match="timeout is"):
                await store.read({"race": "$"}, block=block)
            with pytest.raises(ArgumentError, match="timeout is"):
                [entry async for entry in race.tail(block=block)]

    asyncio.run(run())


def test_a_tail_begins_at_the_end_as_of_the_call(tmp_path: Path) -> None:
    async def run() -> None:
        async with await aio.open(tmp_path / "store") as store:
            race = store.stream("race")
            await race.add({"n": 0})
            entries = race.tail(block=0.01)
            await race.add({"n": 1})
            assert [entry["n"] async for entry in entries] == [b"1"]

    asyncio.run(run())


def test_what_groups_can_do_they_can_do_here(tmp_path: Path) -> None:
    async def run() -> None:
        async with await aio.open(tmp_path / "store") as store:
            race = store.stream("race")
            ids = list(await race.add_many([{"n": n} for n in range(4)]) or [])
            group = await race.group("g", start="0")
            assert await group.exists()
            assert await group.create_consumer("ann")
            ann, bob = group.consumer("ann"), group.consumer("bob")
            assert len(await ann.read(count=3)) == 3
            assert await bob.claim_ids(ids[0]) == ids[:1]
            assert (await bob.autoclaim_ids(0, count=2)).ids == ids[:2]
            assert [each.id for each in await bob.pending_range()] == ids[:2]
            assert await bob.nack(ids[0], retry_count=7) == 1
            assert await race.count(ids[1]) == 3
            assert await race.delete_entries(ids[3]) == [1]
            assert [each.name for each in await race.groups()] == [b"g"]
            assert (await race.info_full()).groups[0].name == b"g"
            await race.configure_idempotence(duration_s=5)

    asyncio.run(run())


def test_a_part_is_added_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with await aio.open(tmp_path / "s") as store:
            stream = store.stream("x")
            assert len(await stream.add_many([{"a": 1}, {"a": 2}], commit=Commit(b"w", 1)) or []) == 2
            assert await stream.add_many([{"a": 1}], commit=Commit(b"w", 1), durable=True) is None
            assert await stream.add_arrow(pa.record_batch({"a": [3]}), commit=Commit(b"w", 1, 1)) is not None
            assert await stream.committed(b"w") == (1, 1)
            assert await stream.note_commit(Commit.complete(b"w", 1), durable=True)
            assert [entry["a"] async for entry in stream.range()] == [b"1", b"2", b"3"]

    asyncio.run(run())


@pytest.mark.parametrize("damaged", [0, 3])
def test_what_comes_before_damage_is_given_before_the_error(tmp_path: Path, damaged: int) -> None:
    with diskstream.open(tmp_path / "s", **SMALL) as filled:
        filled.stream("x").add_many([{"n": n} for n in range(20)])
        filled.stream("x").seal()
    before = damage_node(tmp_path / "s", damaged)
    found: list[bytes] = []

    async def run() -> None:
        async with await aio.open(tmp_path / "s", **SMALL) as store:
            with pytest.raises(CorruptionError):
                async for entry in store.stream("x").range():
                    found.append(entry["n"])  # noqa: PERF401  # a list at once would hold nothing then

    asyncio.run(run())
    assert found == [b"%d" % n for n in range(before)]


def test_a_blocked_read_is_woken_by_an_append_while_the_loop_goes_on(tmp_path: Path) -> None:
    async def run() -> None:
        async with await aio.open(tmp_path / "store") as store:
            race = store.stream("race")
            await race.add({"n": 0})
            reading = asyncio.create_task(race.read("$", block=30))
            added = None
            while not reading.done():
                added = added or await race.add({"n": 1})
                await asyncio.wait([reading], timeout=0.05)
                added = await race.add({"n": 2})
            assert (await reading)[0].fields in ({b"n": b"1"}, {b"n": b"2"})

    asyncio.run(run())


def test_a_blocked_read_ends_empty_after_its_time(tmp_path: Path) -> None:
    async def run() -> None:
        async with await aio.open(tmp_path / "store") as store:
            assert await store.read({"nobody": "$"}, block=0.02) == {}

    asyncio.run(run())


def test_a_cancelled_read_ends(tmp_path: Path) -> None:
    async def run() -> None:
        async with await aio.open(tmp_path / "store") as store:
            reading = asyncio.create_task(store.stream("race").read("0", block=0))
            await asyncio.wait([reading], timeout=0.01)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading

    asyncio.run(run())


def test_waits_for_durability_that_are_cancelled_hold_up_nobody(tmp_path: Path) -> None:
    """They kept the threads that all else shares until the store was closed."""

    async def run() -> None:
        async with await aio.open(tmp_path / "store") as store:
            race = store.stream("race")
            last = await race.add({"n": 0})
            waiting = [asyncio.create_task(race.wait_durable("9999999999999-0")) for _ in range(64)]
            await asyncio.wait(waiting, timeout=0.01)
            for each in waiting:
                each.cancel()
            await asyncio.wait(waiting)
            assert all(each.cancelled() for each in waiting)
            async with asyncio.timeout(30):
                assert await race.length() == 1
            assert await race.wait_durable(last)
            assert await race.wait_durable(last, 0)
            assert not await race.wait_durable(last.next() or last, 0)
            assert not await race.wait_durable(last.next() or last, 0.01)

    asyncio.run(run())


@pytest.mark.filterwarnings("error::ResourceWarning")
@pytest.mark.parametrize("moment", ["before it is open", "when it is open"])
def test_a_store_whose_opening_was_cancelled_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """It stayed open until it was collected, with a warning to somebody who never had it."""
    opened: list[Store] = []
    really_open = diskstream.open
    going_on, at_hand = threading.Event(), threading.Event()

    def open_in_steps(*arguments: Any, **options: Any) -> Store:
        at_hand.set()
        assert going_on.wait(60)
        opened.append(really_open(*arguments, **options))
        return opened[0]

    monkeypatch.setattr("diskstream.store.open", open_in_steps)

    async def run() -> None:
        threads = ThreadPoolExecutor(1)
        asyncio.get_running_loop().set_default_executor(threads)
        opening = asyncio.create_task(aio.open(tmp_path / "store"))
        await asyncio.wait([opening], timeout=0)
        assert at_hand.wait(60)
        if moment == "when it is open":
            going_on.set()
            threads.submit(int).result()  # the loop is yet to hear of it
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        going_on.set()

    asyncio.run(run())  # it waits for its threads
    assert opened[0].closed


def test_a_store_is_closed_though_the_task_that_closes_it_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a timeout that runs out as `async with` is left, while all threads of the loop are busy."""
    closed, busy = threading.Event(), threading.Event()
    close = diskstream.Store.close

    def close_and_say(store: diskstream.Store) -> None:
        close(store)
        closed.set()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        store = await aio.open(tmp_path / "store")
        waiting = loop.run_in_executor(None, busy.wait)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(None) as limit, store:
                limit.reschedule(loop.time())
        busy.set()
        await waiting
        assert await asyncio.to_thread(closed.wait, 60)

    monkeypatch.setattr(diskstream.Store, "close", close_and_say)
    asyncio.run(main())


def test_under_always_the_append_leaves_the_loop_free_and_is_durable(tmp_path: Path) -> None:
    async def run() -> None:
        async with await aio.open(tmp_path / "store", fsync="always") as store:
            race = store.stream("race")
            added = await asyncio.gather(*(race.add({"n": n}) for n in range(20)))
            assert len({str(entry_id) for entry_id in added}) == 20
            assert (await race.info()).durable

    asyncio.run(run())


def test_a_rule_of_retention_is_set_shown_applied_and_cleared(tmp_path: Path) -> None:
    async def run() -> None:
        async with await aio.open(tmp_path / "s", retention_interval_ms=0) as store:
            stream = store.stream("x")
            await stream.add_many([{"n": n} for n in range(10)])
            assert await stream.set_retention(max_entries=4) == await stream.retention()
            assert (await stream.apply_retention(dry_run=True)).removed == 6
            assert (await stream.apply_retention()).removed == 6
            assert await stream.length() == 4
            assert await stream.clear_retention()
            assert await stream.retention() is None

    asyncio.run(run())


OVER_A_PENDING_READ = """
import asyncio, sys
import diskstream.aio

async def begin(path):
    store = await diskstream.aio.open(path)
    group = await store.stream("x").group("workers", start="0")
    reads = [group.consumer("one").read(block=0), store.read_group("workers", "two", {"x": ">"}, block=0)]
    tasks = [asyncio.ensure_future(read) for read in reads]
    await asyncio.sleep(0)
    return store, tasks

loop = asyncio.new_event_loop()
kept = loop.run_until_complete(begin(sys.argv[1]))
if sys.argv[2] == "closed":
    loop.close()
print("the program ends", flush=True)
"""


@pytest.mark.parametrize("loop", ["closed", "left open"])
def test_a_program_ends_though_a_read_of_a_group_still_waits(tmp_path: Path, loop: str) -> None:
    """Its loop was closed over the task, or simply left: nobody cancels it, and nobody could hear of an entry."""
    words = [sys.executable, "-c", OVER_A_PENDING_READ, str(tmp_path / "s"), loop]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (0, "the program ends\n"), done.stderr


def test_what_is_shown_of_each_names_it(tmp_path: Path) -> None:
    """It was an address in memory, where the others say which stream they are of which store."""

    async def run() -> None:
        async with await aio.open(tmp_path / "store") as store:
            group = await store.stream("race").group("riders", start="0")
            assert repr(store) == f"<diskstream.aio.Store '{tmp_path / 'store'}'>"
            assert repr(store.stream("race")) == f"<diskstream.aio.Stream b'race' of '{tmp_path / 'store'}'>"
            assert repr(group) == "<diskstream.aio.Group b'riders' of b'race'>"
            assert repr(group.consumer("ann")) == "<diskstream.aio.Consumer b'ann' of b'riders' of b'race'>"
        assert repr(store).endswith(" closed>")

    asyncio.run(run())
