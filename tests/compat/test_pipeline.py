"""Pipelines: in one go, as a transaction, with WATCH."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
import redis

import diskstream
import diskstream.compat
from diskstream.commands.caller import Caller
from diskstream.commands.replies import Reply
from diskstream.commands.table import Table
from diskstream.commands.waiting import Waiting
from tests.compat.backends import Backend, Compat
from tests.engine.sample import log_of


def test_methods_return_the_pipeline(backend: Backend) -> None:
    with backend.client(decode_responses=True).pipeline() as pipe:
        assert pipe.xadd("s", {"a": 1}, id="1-1").xadd("s", {"a": 2}, id="2-1").xlen("s") is pipe
        assert len(pipe) == 3
        assert pipe
        assert pipe.execute() == ["1-1", "2-1", 2]
        assert len(pipe) == 0
        assert pipe.execute() == []


@pytest.mark.parametrize("transaction", [True, False])
def test_the_first_error_is_raised(backend: Backend, transaction: bool) -> None:
    client = backend.client()
    pipe = client.pipeline(transaction=transaction).xadd("s", {"a": 1}, id="1-1")
    pipe.xadd("s", {"a": 2}, id="1-1").xadd("s", {"a": 3}, id="3-1")
    with pytest.raises(redis.ResponseError, match=r"^Command # 2 \(XADD s 1-1 a 2\) of pipeline caused error: The ID"):
        pipe.execute()
    assert client.xlen("s") == 2  # what came after it was executed all the same


@pytest.mark.parametrize("transaction", [True, False])
def test_errors_may_be_replies(backend: Backend, transaction: bool) -> None:
    pipe = backend.client().pipeline(transaction=transaction)
    pipe.xadd("s", {"a": 1}, id="1-1").xadd("s", {"a": 2}, id="1-1").xlen("s")
    first, second, third = pipe.execute(raise_on_error=False)
    assert (first, third) == (b"1-1", 1)
    assert isinstance(second, redis.ResponseError)


def test_a_transaction_with_a_word_that_is_no_command_is_not_executed(backend: Backend) -> None:
    client = backend.client()
    pipe = client.pipeline().xadd("s", {"a": 1}).execute_command("NOSUCH", "a")
    with pytest.raises(
        redis.ResponseError, match=r"Command # 2 \(NOSUCH a\) of pipeline caused error: unknown command"
    ):
        pipe.execute()
    assert client.xlen("s") == 0


def test_what_cannot_be_sent_is_refused_before_anything_is(backend: Backend) -> None:
    client = backend.client()
    with pytest.raises(redis.DataError):
        client.pipeline(transaction=False).xadd("s", {"a": 1}).xadd("s", {"a": object()}).execute()
    assert client.xlen("s") == 0


@pytest.mark.parametrize("transaction", [True, False])
def test_a_reply_that_is_no_text_keeps_nothing_behind_it_from_being_executed(
    backend: Backend, transaction: bool
) -> None:
    client = backend.client(decode_responses=True)
    client.xadd("s", {"a": b"\xff"}, id="1-1")
    pipe = client.pipeline(transaction=transaction).xadd("s", {"a": 2}, id="2-1")
    pipe.xrange("s").xadd("s", {"a": 3}, id="3-1").xgroup_create("s", "g", "0")
    with pytest.raises(UnicodeDecodeError):
        pipe.execute()
    assert client.xlen("s") == 3
    assert [group["name"] for group in client.xinfo_groups("s")] == ["g"]


def test_a_watched_key_that_changes_stops_the_transaction(backend: Backend) -> None:
    client = backend.client()
    with client.pipeline() as pipe:
        pipe.watch("s")
        assert pipe.xlen("s") == 0  # at once
        client.xadd("s", {"a": 1})
        pipe.multi()
        pipe.xadd("s", {"a": 2})
        with pytest.raises(redis.WatchError):
            pipe.execute()
        assert client.xlen("s") == 1
        pipe.watch("s")
        assert pipe.unwatch() is True
        assert pipe.xadd("s", {"a": 3}).xlen("s").execute()[1] == 2


def test_transactions_begin_once(backend: Backend) -> None:
    with backend.client().pipeline() as pipe:
        pipe.watch("s")
        pipe.multi()
        with pytest.raises(redis.RedisError, match="nested"):
            pipe.multi()
        with pytest.raises(redis.RedisError, match="after a MULTI"):
            pipe.watch("t")
        pipe.reset()
        pipe.xlen("s")
        with pytest.raises(redis.RedisError, match="already been issued"):
            pipe.multi()


def test_a_transaction_is_tried_again(backend: Backend) -> None:
    client = backend.client()
    attempts: list[int] = []

    def add(pipe: Any) -> str:
        length = pipe.xlen("s")
        if not attempts:
            client.xadd("s", {"a": "in between"}, id="1-1")
        attempts.append(length)
        pipe.multi()
        pipe.xadd("s", {"length": length}, id="5-1")
        return "value"

    assert client.transaction(add, "s") == [b"5-1"]
    assert attempts == [0, 1]
    assert client.transaction(lambda pipe: pipe.multi() or "value", "s", value_from_callable=True) == "value"


def test_the_same_for_asyncio(backend: Backend) -> None:
    async def main() -> None:
        async with backend.aio(decode_responses=True) as client:
            async with client.pipeline(transaction=True) as pipe:
                assert await pipe.xadd("s", {"a": 1}, id="1-1").xlen("s").execute() == ["1-1", 1]
                await pipe.watch("s")
                assert await pipe.xlen("s") == 1
                await client.xadd("s", {"a": 2}, id="2-1")
                pipe.multi()
                pipe.xadd("s", {"a": 3})
                with pytest.raises(redis.WatchError):
                    await pipe.execute()
                assert await pipe.unwatch() is True

            async def add(pipe: Any) -> None:
                length = await pipe.xlen("s")
                pipe.multi()
                pipe.xadd("s", {"length": length}, id="5-1")

            assert await client.transaction(add, "s") == ["5-1"]
            with pytest.raises(redis.ResponseError):
                await client.pipeline().xadd("s", {"a": 1}, id="1-1").execute()

    asyncio.run(main())


def test_nothing_waits_within_a_transaction(backend: Backend) -> None:
    assert backend.client().pipeline().xread({"s": "$"}, block=0).execute() == [[]]


def test_a_transaction_whose_task_is_cancelled_stays_one(ours: Backend) -> None:
    """The pipeline is reset while its commands are still given: the rest must not be executed one by one."""
    if not isinstance(ours, Compat):
        pytest.skip("of compat only")
    given, go = threading.Event(), threading.Event()
    dispatch, table = ours.options["commands"]

    def late(table: Table, caller: Caller, words: list[bytes]) -> Reply | Waiting:
        if words[0] == b"XADD":
            given.set()
            go.wait(20)
        return dispatch(table, caller, words)

    async def execute(client: Any) -> None:
        async with client.pipeline() as pipe:
            await pipe.xadd("s", {"a": 1}).xadd("s", {"a": 2}).execute()

    async def main() -> None:
        task = asyncio.create_task(execute(ours.aio()))
        await asyncio.to_thread(given.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go.set()
        await asyncio.get_running_loop().shutdown_default_executor()  # that is, behind the last command

    ours.options["commands"] = late, table
    asyncio.run(main())
    assert ours.client().xlen("s") == 2


@pytest.mark.parametrize("transaction", [True, False])
def test_a_pipeline_whose_task_is_cancelled_executes_nothing_twice_and_loses_nothing(
    ours: Backend, transaction: bool
) -> None:
    """It is empty at once, as redis-py's is: a thread still executes what was kept, and what comes is not its own."""
    if not isinstance(ours, Compat):
        pytest.skip("of compat only")
    given, go, done = threading.Event(), threading.Event(), threading.Event()
    dispatch, table = ours.options["commands"]
    ended_by = b"EXEC" if transaction else b"XADD"

    def late(table: Table, caller: Caller, words: list[bytes]) -> Reply | Waiting:
        if words[0] == b"XADD":
            given.set()
            go.wait(20)
        try:
            return dispatch(table, caller, words)
        finally:
            if words[0] == ended_by:
                done.set()

    async def main() -> None:
        async with ours.aio() as client:
            pipe = client.pipeline(transaction=transaction)
            task = asyncio.create_task(pipe.xadd("s", {"a": 1}).execute())
            await asyncio.to_thread(given.wait, 20)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert len(pipe) == 0
            pipe.xadd("t", {"a": 2})
            go.set()
            assert await asyncio.to_thread(done.wait, 20)
            assert len(await pipe.execute()) == 1
            assert [await client.xlen(name) for name in "st"] == [1, 1]

    ours.options["commands"] = late, table
    asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize("fsync", ["always", "os"])
def test_adds_in_a_row_become_one_frame(tmp_path: Path, fsync: str) -> None:
    """Those for one stream that have no options; each reply is its own."""
    with (
        diskstream.compat.Redis(tmp_path / "store", fsync=fsync) as redis,
        diskstream.open(tmp_path / "store") as other,
    ):
        redis.xadd("s", {"n": "the first makes the stream"})
        log = log_of(other, b"s")
        before = log.native.tail[2]
        pipeline = redis.pipeline(transaction=False)
        for number in range(1000):
            pipeline.xadd("s", {"n": number})
        ids = pipeline.xlen("s").xadd("s", {"n": 1000}, id="9999999999999-1").xadd("t", {"n": 0}).execute()
        log.refresh()
        assert log.native.tail[2] == before + 2
        assert ids[1000:1002] == [1001, b"9999999999999-1"]
        assert [entry_id for entry_id, _ in redis.xrange("s")][1:] == [*ids[:1000], ids[1001]]
        for value in (1, b"x" * (33 << 20), 2):
            pipeline.xadd("s", {"a": value})
        first, error, third = pipeline.execute(raise_on_error=False)
        assert "too large" in str(error)
        assert redis.xrevrange("s", count=2) == [(third, {b"a": b"2"}), (first, {b"a": b"1"})]
