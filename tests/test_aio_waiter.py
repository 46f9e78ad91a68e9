"""The thread that waits for tasks: each process has its own, whoever comes first."""

import asyncio
import os
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import pytest
import redis

from diskstream import StorageError, aio
from diskstream.aio_waiter import Waiter, WaitThread, tell_all
from diskstream.compat.aio import Redis

PATIENCE_S = 20


class _Telling:
    """Answers whoever comes, from the moment on at which `begins` is set, until `ends` is."""

    begins, ends = threading.Event(), threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def is_idle(self) -> bool:
        return self.ends.is_set()

    def turn(self, coming: Iterable[Waiter]) -> None:
        assert self.begins.wait(PATIENCE_S)
        tell_all(coming)

    def fail(self, error: Exception, coming: Iterable[Waiter]) -> None:
        raise AssertionError from error

    def interrupt(self) -> None:
        pass


def test_of_two_that_come_first_in_a_forked_child_both_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second came while the first was finding out that the parent's thread is not there: it was forgotten."""
    made = threading.Lock
    between: list[Any] = []

    def lock() -> Any:
        while between:
            between.pop()()
        return made()

    async def main() -> None:
        waits: WaitThread[Waiter] = WaitThread("of the test", _Telling)
        first, second = Waiter(), Waiter()
        monkeypatch.setattr(os, "getpid", lambda: -1)  # as though it were in a child
        with ThreadPoolExecutor(1) as other:
            between.append(lambda: other.submit(waits.hand_over, second).result(PATIENCE_S))
            with monkeypatch.context() as patched:
                patched.setattr(threading, "Lock", lock)
                waits.hand_over(first)
        assert not between
        _Telling.begins.set()
        try:
            await asyncio.wait_for(asyncio.gather(first.answer, second.answer), PATIENCE_S)
        finally:
            _Telling.ends.set()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("error", "told"), [(KeyboardInterrupt, KeyboardInterrupt), (RuntimeError("can't start new thread"), StorageError)]
)
def test_a_thread_that_did_not_begin_is_begun_for_the_next_one(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException] | BaseException, told: type[BaseException]
) -> None:
    """Who came after it waited for ever, where it was taken for one that runs."""

    async def main() -> None:
        waits: WaitThread[Waiter] = WaitThread("of the test", _Telling)

        def fail(_thread: threading.Thread) -> None:
            raise error

        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", fail)
            with pytest.raises(told):
                waits.hand_over(Waiter())
        waiter = Waiter()
        _Telling.begins.set()
        _Telling.ends.clear()
        try:
            waits.hand_over(waiter)
            await asyncio.wait_for(waiter.answer, PATIENCE_S)
        finally:
            _Telling.ends.set()

    asyncio.run(main())


def refuse(_thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_a_store_is_closed_also_where_there_is_no_thread_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stayed open, behind a RuntimeError in the place of whatever had ended the block."""

    async def main() -> None:
        store, client = await aio.open(tmp_path / "s"), Redis(tmp_path / "c")
        await store.stream("x").add({"n": 1})
        await client.xadd("x", {"n": 1})
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            await store.close()
            await client.aclose()
        assert store.closed
        with pytest.raises(redis.ConnectionError, match="closed"):
            await client.xlen("x")

    asyncio.run(main())


def test_a_read_that_cannot_wait_for_want_of_a_thread_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was a RuntimeError, which is none of ours."""

    async def main() -> None:
        async with await aio.open(tmp_path / "s") as store:
            await asyncio.gather(*(store.exists("x") for _ in range(64)))  # the loop has all threads that it may
            with monkeypatch.context() as patched:
                patched.setattr(threading.Thread, "start", refuse)
                with pytest.raises(StorageError, match=r"could not start a thread for .*new thread"):
                    await store.stream("x").read("$", block=10)
                with pytest.raises(StorageError, match=r"could not start a thread for .*new thread"):
                    await store.stream("x").wait_durable("5-0", timeout=10)

    asyncio.run(main())
