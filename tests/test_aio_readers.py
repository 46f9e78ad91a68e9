"""Tasks of asyncio that wait in reads: one thread watches for all of them, and nobody misses an entry."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import aio, aio_watching, reading
from diskstream.aio_readers import Readers
from diskstream.aio_watching import Reader, Watching
from diskstream.errors import ArgumentError, ClosedError, DiskstreamError
from diskstream.watching import Watch
from tests.engine.children import child, hear, say

THREAD = "diskstream readers"


def watching() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == THREAD]


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    yield
    for thread in watching():
        thread.join(10)
        assert not thread.is_alive()


async def until_waiting(store: aio.Store, count: int) -> None:
    """Until so many tasks wait in the thread that watches."""
    never = asyncio.get_running_loop().create_future()
    async with asyncio.timeout(30):
        while not is_watched_by(store._readers, count):
            await asyncio.wait([never], timeout=0.001)


def is_watched_by(readers: Readers, count: int) -> bool:
    watching = watcher(readers)
    return watching is not None and len(watching._all()) == count and not readers._watching.here.coming


def watcher(readers: Readers) -> Watching | None:
    """What the thread does, where there is one."""
    found = readers._watching.here.watcher
    assert found is None or isinstance(found, Watching)
    return found


def test_a_thousand_readers_have_one_thread(tmp_path: Path) -> None:
    """Each had its own, begun anew four times a second: that took most of a processor."""

    async def run() -> None:
        async with await aio.open(tmp_path / "s") as store:
            names, before = [f"room:{n % 100}" for n in range(1000)], threading.active_count()
            reads = [asyncio.create_task(store.stream(name).read("0", block=0)) for name in names]
            await until_waiting(store, 1000)
            assert len(watching()) == 1
            assert threading.active_count() - before < 40  # with those of `to_thread`
            for n in range(100):
                await store.stream(f"room:{n}").add({"n": n})
            found = await asyncio.gather(*reads)
            assert [entries[0]["n"] for entries in found] == [b"%d" % (n % 100) for n in range(1000)]

    asyncio.run(run())


def test_a_read_of_several_streams_is_ended_by_any_of_them_also_one_that_comes(tmp_path: Path) -> None:
    async def run() -> None:
        async with await aio.open(tmp_path / "s") as store:
            await store.stream("there").add({"n": 0})
            for name in ("there", "comes"):
                reading = asyncio.create_task(store.read({"there": "$", "comes": "0", "never": "0"}, block=0))
                await until_waiting(store, 1)
                added = await store.stream(name).add({"n": 1})
                assert [(at, each[-1].id) for at, each in (await reading).items()] == [(name.encode(), added)]

    asyncio.run(run())


def append_when_told(path: str) -> None:
    with diskstream.open(path) as store:
        say("open")
        hear()
        store.stream("x").add({"from": "elsewhere"})


@pytest.mark.parametrize("read_only", [False, True])
def test_what_another_process_appends_wakes_a_reader(tmp_path: Path, read_only: bool) -> None:
    diskstream.open(tmp_path / "s").close()

    async def run() -> None:
        async with await aio.open(tmp_path / "s", read_only=read_only) as store:
            read = asyncio.create_task(store.stream("x").read("0", block=0))
            await until_waiting(store, 1)
            with child(append_when_told, tmp_path / "s") as other:
                assert other.hear() == "open"
                other.tell()
                async with asyncio.timeout(30):
                    await asyncio.wait([read])
                assert [entry["from"] for entry in await read] == [b"elsewhere"]

    asyncio.run(run())


def test_a_store_that_is_open_for_reading_only_is_looked_at_for_a_tenth_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hears no bell: where a look takes long, to look a hundred times a second would take all of a processor."""
    diskstream.open(tmp_path / "s").close()
    look = reading._once

    def look_long(*arguments: Any) -> Any:
        threading.Event().wait(0.02)
        return look(*arguments)

    monkeypatch.setattr(reading, "_once", look_long)

    async def run() -> None:
        async with await aio.open(tmp_path / "s", read_only=True) as store, asyncio.timeout(30):
            read = asyncio.create_task(store.stream("x").read("0", block=0))
            await until_waiting(store, 1)
            while (watching := watcher(store._readers)) is not None and watching._patience_s() < 9 * 0.02:
                await asyncio.wait([read], timeout=0.001)
            read.cancel()

    asyncio.run(run())


def test_a_wait_for_ever_for_no_stream_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with await aio.open(tmp_path / "s") as store:
            with pytest.raises(ArgumentError, match="no stream to read, and block=0 waits for ever"):
                await store.read({}, block=0)
            assert await store.read({}, block=0.01) == await store.read({}) == {}

    asyncio.run(run())


def test_the_times_of_readers_are_their_own(tmp_path: Path) -> None:
    async def run() -> None:
        async with await aio.open(tmp_path / "s") as store:
            stream = store.stream("x")
            forever = asyncio.create_task(stream.read("0", block=0))
            late = asyncio.create_task(stream.read("0", block=3600))
            assert await stream.read("0", block=0.02) == []
            assert await stream.read("0", block=0.01) == []
            assert not forever.done()
            assert not late.done()
            await stream.add({"n": 1})
            assert await forever == await late != []

    asyncio.run(run())


def test_a_reader_that_is_cancelled_is_let_go_of_and_takes_no_other_along(tmp_path: Path) -> None:
    async def run() -> None:
        async with await aio.open(tmp_path / "s") as store:
            stream = store.stream("x")
            leaving, staying = (asyncio.create_task(stream.read("0", block=0)) for _ in range(2))
            await until_waiting(store, 2)
            leaving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await leaving
            await until_waiting(store, 1)
            await stream.add({"n": 1})
            assert len(await staying) == 1

    asyncio.run(run())


def test_readers_of_a_store_that_is_closed_are_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aio_watching, "_LOOK_S", 3600.0)
    monkeypatch.setattr(aio_watching, "SLICE_S", 3600.0)

    async def run() -> None:
        store = await aio.open(tmp_path / "s")
        reads = [asyncio.create_task(store.stream(name).read("0", block=0)) for name in ("x", "y", "x")]
        await until_waiting(store, 3)
        await store.close()
        async with asyncio.timeout(30):
            ended = await asyncio.gather(*reads, return_exceptions=True)
        assert len({id(error) for error in ended}) == 3  # what is raised in several tasks has a traceback of them all
        assert [type(each) for each in ended] == [ClosedError] * 3
        with pytest.raises(ClosedError):
            await store.read({"x": "0"}, block=0)

    asyncio.run(run())


def test_an_error_is_that_of_its_own_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look = reading._once

    def look_but(store: diskstream.Store, positions: dict[bytes, Any], *more: Any) -> Any:
        if b"bad" in positions and len(store.stream("bad")):
            raise DiskstreamError("as of a failing disk")
        return look(store, positions, *more)

    monkeypatch.setattr(reading, "_once", look_but)

    async def run() -> None:
        async with await aio.open(tmp_path / "s") as store:
            bad, good = store.stream("bad"), store.stream("good")
            failing, waiting = (asyncio.create_task(each.read("0", block=0)) for each in (bad, good))
            await until_waiting(store, 2)
            await bad.add({"n": 1})
            with pytest.raises(DiskstreamError, match="as of a failing disk"):
                await failing
            await good.add({"n": 1})
            assert len(await waiting) == 1

    asyncio.run(run())


def test_what_goes_wrong_in_the_thread_is_told_to_all_and_the_next_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with await aio.open(tmp_path / "s") as store:
            reads = [asyncio.create_task(store.stream(name).read("0", block=0)) for name in ("x", "y")]
            await until_waiting(store, 2)

            def fail(_: Watch) -> None:
                raise MemoryError("of the watch")

            with monkeypatch.context() as patch:
                patch.setattr(Watch, "changed", fail)
                await store.stream("x").add({"n": 1})
                ended = await asyncio.gather(*reads, return_exceptions=True)
            assert [type(each) for each in ended] == [MemoryError] * 2
            again = asyncio.create_task(store.stream("y").read("0", block=0))
            await until_waiting(store, 1)
            await store.stream("y").add({"n": 1})
            assert len(await again) == 1

    asyncio.run(run())


def test_a_stream_that_came_without_a_ring_is_found_within_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who made it was killed between the two."""
    monkeypatch.setattr(aio_watching, "_LOOK_S", 0.0)
    with diskstream.open(tmp_path / "other") as store:
        store.stream("x").add({"n": 1})
        name = next((tmp_path / "other" / "streams").iterdir()).name

    async def run() -> None:
        async with await aio.open(tmp_path / "s") as store:
            read = asyncio.create_task(store.stream("x").read("0", block=0))
            await until_waiting(store, 1)
            (tmp_path / "other" / "streams" / name).rename(tmp_path / "s" / "streams" / name)
            async with asyncio.timeout(30):
                assert len(await read) == 1

    asyncio.run(run())


@pytest.mark.parametrize("ends", [False, True])
def test_what_comes_between_the_first_look_and_the_watch_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    """Also where the thread was about to end, as nobody waited."""
    add = Watch.add

    def add_late(watch: Watch, store: diskstream.Store, name: bytes) -> bool:
        store.stream(name).add({"n": 1})
        return add(watch, store, name)

    monkeypatch.setattr(Watch, "add", add_late)
    if ends:
        monkeypatch.setattr(Watching, "is_idle", True)

    async def run() -> None:
        async with await aio.open(tmp_path / "s") as store, asyncio.timeout(30):
            assert len(await store.stream("x").read("0", block=0)) == 1

    asyncio.run(run())


def test_who_waits_for_more_streams_than_may_be_open_does_not_open_them_in_turn(
    tmp_path: Path, logs_opened: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each slice of such a wait opened all of them, four times a second."""
    monkeypatch.setattr(aio_watching, "SLICE_S", 0.001)
    monkeypatch.setattr(aio_watching, "_LOOK_S", 0.001)
    names = [f"s{number}" for number in range(8)]

    async def run() -> None:
        async with await aio.open(tmp_path / "s", fsync="os", max_open_streams=2) as store:
            for name in names:
                await store.stream(name).add({"n": 1}, "1-1")
            logs_opened.clear()
            together = asyncio.create_task(store.read(dict.fromkeys(names, "1-1"), block=0))
            alone = [asyncio.create_task(store.stream(name).read("1-1", block=0)) for name in names[1:]]
            await until_waiting(store, len(names))
            await asyncio.wait(alone, timeout=0.05)
            await store.stream("s0").add({"n": 2}, "2-1")
            assert list(await together) == [b"s0"]
            # For each read each of its streams once, and once more when it is watched; then what has changed.
            assert len(logs_opened) <= 2 * (len(names) + len(alone)) + 10
            for each in alone:
                each.cancel()

    asyncio.run(run())


def test_an_answer_to_who_was_cancelled_just_then_is_nobody_s_error(tmp_path: Path) -> None:
    async def run() -> None:
        loop, faults = asyncio.get_running_loop(), []
        loop.set_exception_handler(lambda _, fault: faults.append(fault))
        waiter = Reader([b"x"], list, [], None, loop=loop)
        waiter.tell(waiter.answer.set_result, [])
        waiter.answer.cancel()
        await asyncio.wait([waiter.answer])
        assert faults == []

    asyncio.run(run())


def test_what_is_not_waited_for_any_more_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aio_watching, "SLICE_S", 0.001)

    async def run() -> None:
        async with await aio.open(tmp_path / "s") as store:
            staying = asyncio.create_task(store.stream("y").read("0", block=0))
            for n in range(20):
                stream = store.stream(f"x{n}")
                read = asyncio.create_task(stream.read("0", block=3600))
                await until_waiting(store, 2)
                await stream.add({"n": n})
                await read
            async with asyncio.timeout(30):
                while (watching := watcher(store._readers)) is None or watching._ends:
                    await asyncio.wait([staying], timeout=0.001)
            assert len(watching._watch) == 1
            staying.cancel()

    asyncio.run(run())


def test_who_waits_in_a_loop_that_was_closed_is_let_go_of(tmp_path: Path) -> None:
    store = asyncio.run(aio.open(tmp_path / "s"))
    loop = asyncio.new_event_loop()
    read = loop.create_task(store.stream("x").read("0", block=0))
    loop.run_until_complete(until_waiting(store, 1))
    loop.close()
    [thread] = watching()
    thread.join(10)
    assert not thread.is_alive()
    assert not read.done()
    read._log_destroy_pending = False  # type: ignore[attr-defined]  # it was left on purpose
    asyncio.run(store.close())


def test_a_store_may_be_read_in_one_loop_after_the_other_and_in_two_at_once(tmp_path: Path) -> None:
    store = asyncio.run(aio.open(tmp_path / "s"))
    one_waits = threading.Event()

    async def wait_for_one() -> list[diskstream.Entry]:
        read = asyncio.create_task(store.stream("x").read("0", block=0))
        await until_waiting(store, 1)
        one_waits.set()
        return await read

    async def wait_for_another() -> list[diskstream.Entry]:
        read = asyncio.create_task(store.stream("y").read("0", block=0))
        await until_waiting(store, 2)
        await store.stream("x").add({"n": 1})
        await store.stream("y").add({"n": 2})
        return await read

    with ThreadPoolExecutor(1) as other:
        one = other.submit(asyncio.run, wait_for_one())
        assert one_waits.wait(30)
        assert [entry["n"] for entry in asyncio.run(wait_for_another())] == [b"2"]
        assert [entry["n"] for entry in one.result(30)] == [b"1"]
    asyncio.run(store.close())


def wait_across_a_fork(path: str) -> None:
    def fork(store: aio.Store) -> int:
        pid = os.fork()
        if not pid:
            try:
                asyncio.run(in_fork(store))
            finally:
                os._exit(0)
        return os.waitpid(pid, 0)[1]

    async def in_fork(store: aio.Store) -> None:
        read = asyncio.create_task(store.stream("x").read("0", block=0))
        await until_waiting(store, 1)
        await store.stream("x").add({"n": 1})
        assert len(await read) == 1
        say("the fork was told")

    async def run() -> None:
        async with await aio.open(path) as store:
            reads = [asyncio.create_task(store.stream("x").read("0", block=0)) for _ in range(2)]
            await until_waiting(store, 2)
            assert await asyncio.to_thread(fork, store) == 0
            assert [len(await read) for read in reads] == [1, 1]
            say("the parent was told")

    asyncio.run(run())


def test_a_fork_has_readers_of_its_own(tmp_path: Path) -> None:
    """The thread of its parent is not there, and what that waited for nobody waits for."""

    with child(wait_across_a_fork, tmp_path / "s") as program:
        assert program.rest() == ["the fork was told", "the parent was told"]
        assert program.wait() == 0


def test_the_thread_ends_with_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays a while for the next reader, for whom a program that ends is not to wait."""
    monkeypatch.setattr(aio_watching, "SLICE_S", 3600.0)

    async def run() -> None:
        async with await aio.open(tmp_path / "s") as store:
            read = asyncio.create_task(store.stream("x").read("0", block=0))
            await until_waiting(store, 1)
            await store.stream("x").add({"n": 1})
            await read
            await until_waiting(store, 0)
            assert len(watching()) == 1

    asyncio.run(run())


OVER_A_PENDING_READ = """
import asyncio, sys, threading
import diskstream.aio

store = None

async def begin(path):
    global store
    store = store or await diskstream.aio.open(path)
    reads = [store.stream("x").read("0", block=0), store.read({"x": "0", "y": "0"}, block=0)]
    tasks = [asyncio.ensure_future(read) for read in reads]
    while (watching := store._readers._watching.here.watcher) is None or len(watching._all()) < 2:
        await asyncio.sleep(0)
    return store, tasks

loop = asyncio.new_event_loop()
async def read_at_once(store):
    read = asyncio.ensure_future(store.stream("z").read("0", block=0))
    while (watching := store._readers._watching.here.watcher) is None or not watching._all():
        await asyncio.sleep(0)
    await store.stream("z").add({"n": 1})
    await read

if sys.argv[2] == "in a daemon":
    store = asyncio.run(diskstream.aio.open(sys.argv[1]))
    asyncio.run(read_at_once(store))  # whose thread is none of a daemon, and stays for the next
    threading.Thread(target=loop.run_forever, daemon=True).start()
    kept = asyncio.run_coroutine_threadsafe(begin(sys.argv[1]), loop).result()
else:
    kept = loop.run_until_complete(begin(sys.argv[1]))
if sys.argv[2] == "closed":
    loop.close()
print("the program ends", flush=True)
"""


@pytest.mark.parametrize("loop", ["closed", "left open", "in a daemon"])
def test_a_program_ends_though_reads_still_wait(tmp_path: Path, loop: str) -> None:
    words = [sys.executable, "-c", OVER_A_PENDING_READ, str(tmp_path / "s"), loop]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (0, "the program ends\n"), done.stderr
