"""Commands of tasks that wait: one thread looks for all of them, in their order, and for nobody who has gone."""

import asyncio
import math
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis

from diskstream import compat
from diskstream.commands.all_commands import table
from diskstream.commands.bells import Bells
from diskstream.commands.caller import Caller
from diskstream.commands.dispatch import dispatch
from diskstream.commands.replies import Reply
from diskstream.commands.table import Table
from diskstream.commands.waiting import Waiting
from diskstream.compat import aio_waiting
from diskstream.compat.aio_waiting import Blocking
from tests.compat.backends import Compat

PATIENCE_S = 20


async def until_waiting(client: compat.aio.Redis, count: int) -> None:
    """Returns once so many commands wait in the thread."""
    until = time.monotonic() + PATIENCE_S
    while waiting_in(client) != count:
        assert time.monotonic() < until, f"{waiting_in(client)} wait"
        await asyncio.to_thread(lambda: None)


def waiting_in(client: compat.aio.Redis) -> int:
    watcher = client._link._shared.waits.here.watcher
    assert watcher is None or isinstance(watcher, Blocking)
    return 0 if watcher is None else watcher._waiters.count


async def begun(client: compat.aio.Redis, *reads: Awaitable[Any]) -> "list[asyncio.Future[Any]]":
    """Reads that wait, in this order."""
    made: list[asyncio.Future[Any]] = []
    before = waiting_in(client)
    for read in reads:
        made.append(asyncio.ensure_future(read))
        await until_waiting(client, before + len(made))
    return made


async def within_time(read: Awaitable[Any]) -> Any:
    return await asyncio.wait_for(read, PATIENCE_S)


def run(path: Path, use: Callable[[compat.aio.Redis], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        async with compat.aio.Redis(path, **{"fsync": "os", **options}) as client:
            await use(client)

    asyncio.run(main())


def test_hundreds_that_wait_share_one_thread(tmp_path: Path) -> None:
    async def use(client: compat.aio.Redis) -> None:
        before = threading.active_count()
        reads = [asyncio.create_task(client.xread({"s": "$"}, block=0)) for _ in range(400)]
        await until_waiting(client, 400)
        names = [thread.name for thread in threading.enumerate()]
        assert names.count("diskstream waiting") == 1
        assert len([name for name in names if not name.startswith("asyncio")]) <= before + 2
        await client.xadd("s", {"a": 1}, id="1-1")
        assert await within_time(asyncio.gather(*reads)) == [[[b"s", [(b"1-1", {b"a": b"1"})]]]] * 400

    run(tmp_path, use)


def test_consumers_are_given_entries_in_the_order_in_which_they_began_to_wait(tmp_path: Path) -> None:
    async def use(client: compat.aio.Redis) -> None:
        await client.xgroup_create("s", "g", mkstream=True)
        names = ["eve", "ann", "bob", "dan", "cy"]
        reads = await begun(client, *(client.xreadgroup("g", name, {"s": ">"}, count=1, block=0) for name in names))
        pipe = client.pipeline(transaction=False)
        for number in range(1, 6):
            pipe.xadd("s", {"a": 1}, id=f"{number}-1")
        await pipe.execute()
        given = [(await within_time(read))[0][1][0][0] for read in reads]
        assert given == [b"1-1", b"2-1", b"3-1", b"4-1", b"5-1"]

    run(tmp_path, use)


def test_a_consumer_that_was_cancelled_is_given_nothing(tmp_path: Path) -> None:
    """The entry would be pending for nobody. It is the next one's, at once."""

    async def use(client: compat.aio.Redis) -> None:
        await client.xgroup_create("s", "g", mkstream=True)
        for number in range(1, 21):
            gone, stays = await begun(
                client, *(client.xreadgroup("g", name, {"s": ">"}, block=0) for name in ("gone", "stays"))
            )
            gone.cancel()
            await client.xadd("s", {"a": 1}, id=f"{number}-1")
            assert (await within_time(stays))[0][1][0][0] == b"%d-1" % number
        consumers = await client.xinfo_consumers("s", "g")
        assert {each["name"]: each["pending"] for each in consumers}[b"gone"] == 0

    run(tmp_path, use)


@pytest.mark.parametrize("waits_already", [True, False])
def test_what_comes_between_the_look_and_the_wait_is_seen(tmp_path: Path, *, waits_already: bool) -> None:
    """Another one's wait hears the bell then, and it does not ring once more for who comes after."""
    writer = compat.Redis(tmp_path, fsync="os")
    is_late = threading.Event()

    def append_behind(table: Table, caller: Caller, words: list[bytes]) -> Reply | Waiting:
        found = dispatch(table, caller, words)
        if isinstance(found, Waiting) and is_late.is_set():
            with ThreadPoolExecutor(1) as other:
                other.submit(writer.xadd, "s", {"a": 1}, "1-1").result(PATIENCE_S)
        return found

    async def use(client: compat.aio.Redis) -> None:
        if waits_already:
            await begun(client, client.xread({"s": "9-9"}, block=0))
        is_late.set()
        assert await within_time(client.xread({"s": "0"}, block=0)) == [[b"s", [(b"1-1", {b"a": b"1"})]]]

    run(tmp_path, use, commands=(append_behind, table()))
    writer.close()


def test_a_group_that_goes_ends_the_waits_in_it_and_no_others(tmp_path: Path) -> None:
    async def use(client: compat.aio.Redis) -> None:
        for group in ("goes", "stays"):
            await client.xgroup_create("s", group, mkstream=True)
        groups = ["goes", "stays", "goes", "goes"]
        reads = await begun(client, *(client.xreadgroup(group, "c", {"s": ">"}, block=0) for group in groups))
        await client.xgroup_destroy("s", "goes")
        for at in (0, 2, 3):
            with pytest.raises(redis.ResponseError, match="NOGROUP"):
                await within_time(reads[at])
        await client.xadd("s", {"a": 1}, id="1-1")
        assert await within_time(reads[1]) == [[b"s", [(b"1-1", {b"a": b"1"})]]]

    run(tmp_path, use)


def test_a_group_that_is_taken_back_ends_a_wait_in_it(tmp_path: Path) -> None:
    """That rings no bell."""

    async def use(client: compat.aio.Redis) -> None:
        await client.xadd("s", {"a": 1}, id="1-1")
        await client.xgroup_create("s", "g", id="$")
        [read] = await begun(client, client.xreadgroup("g", "c", {"s": ">"}, block=0))
        await client.xgroup_setid("s", "g", "0")
        assert await within_time(read) == [[b"s", [(b"1-1", {b"a": b"1"})]]]

    run(tmp_path, use)


def test_each_wait_ends_at_its_own_time(tmp_path: Path) -> None:
    async def use(client: compat.aio.Redis) -> None:
        began = time.monotonic()
        ended: list[int] = []

        async def read(block_ms: int) -> None:
            assert await client.xread({"s": "$"}, block=block_ms) == []
            ended.append(block_ms)
            assert time.monotonic() - began >= block_ms / 1000

        await within_time(asyncio.gather(*(read(block_ms) for block_ms in (300, 1, 150))))
        assert sorted(ended) == [1, 150, 300]
        assert waiting_in(client) == 0

    run(tmp_path, use)


def test_a_list_that_is_filled_ends_a_wait(tmp_path: Path) -> None:
    async def use(client: compat.aio.Redis) -> None:
        [first, second] = await begun(client, *(client.execute_command("BLPOP", "l", "k", 0) for _ in range(2)))
        await client.execute_command("RPUSH", "k", "a")
        assert await within_time(first) == [b"k", b"a"]
        await client.execute_command("RPUSH", "l", "b")
        assert await within_time(second) == [b"l", b"b"]

    run(tmp_path, use)


def test_an_append_is_seen_by_who_only_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For whom no bell rings: at the next look, and not when it is seen whether the stream has another page."""
    monkeypatch.setattr(aio_waiting, "_STALE_S", math.inf)
    writer = compat.Redis(tmp_path, fsync="os")
    writer.xadd("s", {"a": 1}, id="1-1")

    async def use(client: compat.aio.Redis) -> None:
        [read] = await begun(client, client.xread({"s": "$"}, block=0))
        await asyncio.to_thread(writer.xadd, "s", {"a": 1}, "2-1")
        assert await within_time(read) == [[b"s", [(b"2-1", {b"a": b"1"})]]]

    run(tmp_path, use, read_only=True)
    writer.close()


def test_an_append_whose_bell_nobody_heard_is_seen_within_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of one who was killed before he rang it."""
    monkeypatch.setattr(Bells, "changed", lambda _bells, _waited: [])

    async def use(client: compat.aio.Redis) -> None:
        [read] = await begun(client, client.xread({"s": "$"}, block=0))
        await client.xadd("s", {"a": 1}, id="1-1")
        assert await within_time(read) == [[b"s", [(b"1-1", {b"a": b"1"})]]]

    run(tmp_path, use)


def test_nobody_who_waits_looks_in_the_middle_of_a_transaction(tmp_path: Path) -> None:
    is_alone, has_looked = threading.Event(), threading.Event()

    def noticed(table: Table, caller: Caller, words: list[bytes]) -> Reply | Waiting:
        found = dispatch(table, caller, words)
        if isinstance(found, Waiting):
            again = found.again

            def look() -> Reply | None:
                if is_alone.is_set():
                    has_looked.set()
                return again()

            found.again = look
        return found

    async def use(client: compat.aio.Redis) -> None:
        await client.xgroup_create("s", "g", mkstream=True)
        [read] = await begun(client, client.xreadgroup("g", "c", {"s": ">"}, block=0))
        with client._link._shared.turns.alone():
            is_alone.set()  # a look is due each 50 ms
            assert not await asyncio.to_thread(has_looked.wait, 0.2)
            is_alone.clear()
        await client.xadd("s", {"a": 1}, id="1-1")
        assert await within_time(read) == [[b"s", [(b"1-1", {b"a": b"1"})]]]

    run(tmp_path, use, commands=(noticed, table()))


def test_loops_of_two_threads_wait_in_one(tmp_path: Path) -> None:
    local = Compat(tmp_path / "s")

    async def main() -> Any:
        async with local.aio() as client:
            return await within_time(client.xread({"s": "$"}, block=0))

    writer = local.client()
    with ThreadPoolExecutor(2) as pool:
        loops = [pool.submit(asyncio.run, main()) for _ in range(2)]
        for _ in loops:
            local.until_one_waits()
        writer.xadd("s", {"a": 1}, id="1-1")
        assert [loop.result(PATIENCE_S) for loop in loops] == [[[b"s", [(b"1-1", {b"a": b"1"})]]]] * 2
    local.close()


def test_a_fault_in_a_look_is_met_by_its_task_alone(tmp_path: Path) -> None:
    """The program's own: nothing else would tell of it."""
    looks: list[int] = []

    def again() -> Reply | None:
        looks.append(1)
        return None if len(looks) < 2 else [1 // 0]

    def faulty(table: Table, caller: Caller, words: list[bytes]) -> Reply | Waiting:
        found = dispatch(table, caller, words)
        if isinstance(found, Waiting) and words[-2] == b"faulty":
            found.again, found.only = again, None
        return found

    async def use(client: compat.aio.Redis) -> None:
        bad, good = await begun(client, client.xread({"faulty": "$"}, block=0), client.xread({"s": "$"}, block=0))
        await client.xadd("faulty", {"a": 1})
        with pytest.raises(ZeroDivisionError):
            await within_time(bad)
        await client.xadd("s", {"a": 1}, id="1-1")
        assert await within_time(good) == [[b"s", [(b"1-1", {b"a": b"1"})]]]

    run(tmp_path, use, commands=(faulty, table()))


def test_a_fault_of_the_thread_is_met_by_all_and_the_next_wait_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = Bells.changed

    def fail(bells: Bells, waited: Any) -> Any:
        if (0, b"bad") in bells._keys:
            raise MemoryError
        return changed(bells, waited)

    async def use(client: compat.aio.Redis) -> None:
        reads = await begun(client, *(client.xread({"bad": "$"}, block=0) for _ in range(3)))
        monkeypatch.setattr(Bells, "changed", fail)
        for read in reads:
            with pytest.raises(MemoryError):
                await within_time(read)
        read = asyncio.ensure_future(client.xread({"s": "$"}, block=0))
        await until_waiting(client, 1)  # and nobody else does any more
        await client.xadd("s", {"a": 1}, id="1-1")
        assert await within_time(read) == [[b"s", [(b"1-1", {b"a": b"1"})]]]

    run(tmp_path, use)


@pytest.mark.parametrize("command", ["XREAD", "XREADGROUP GROUP g c"])
def test_waits_for_more_streams_than_may_be_open_do_not_open_them_in_turn(
    tmp_path: Path, logs_opened: list[Path], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    looks, have_looked = list[int](), threading.Event()
    look = Blocking._look
    monkeypatch.setattr(aio_waiting, "_STALE_S", math.inf)  # that opens what may have changed, once

    def note(blocking: Blocking, now: float) -> None:
        looks.append(len(logs_opened))
        look(blocking, now)
        if len(looks) == 6:
            have_looked.set()

    async def use(client: compat.aio.Redis) -> None:
        keys = [f"of many {number}" for number in range(20)]
        for key in keys:
            await client.xgroup_create(key, "g", mkstream=True)
        after = "$>"["GROUP" in command]
        words = [*command.split(), "BLOCK", "0", "STREAMS"]
        reads = [asyncio.create_task(client.execute_command(*words, key, after)) for key in keys]
        await until_waiting(client, len(keys))
        del looks[:]
        have_looked.clear()
        assert await asyncio.to_thread(have_looked.wait, PATIENCE_S)
        assert looks[0] == looks[-1]
        for read in reads:
            read.cancel()

    monkeypatch.setattr(Blocking, "_look", note)
    run(tmp_path, use, max_open_streams=4)
