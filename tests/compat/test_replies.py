"""Each reply has the shape that redis-py gives for the same protocol, decoded or not, by each way to call a method."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import redis

from tests.compat.backends import Backend
from tests.compat.scenarios import GROUPS, KEYS, REFUSED, STREAMS, Call

SCENARIOS = {"streams": STREAMS, "groups": GROUPS, "refused": REFUSED}
# What a clock or the memory of one server decides, or what only later versions of Redis tell.
VARYING = {"idle", "inactive", "time_since_delivered", "radix-tree-keys", "radix-tree-nodes"}
# Two readings of a clock in milliseconds, taken in one test.
CLOCK, APART = 1_500_000_000_000, 60_000


def failed(error: Exception) -> Any:
    return type(error).__name__, str(error)


def one_by_one(client: Any, calls: list[Call]) -> list[Any]:
    found = []
    for call in calls:
        try:
            found.append(getattr(client, call.method)(*call.args, **call.keywords))
        except redis.RedisError as error:
            found.append(failed(error))
    return found


def in_pipeline(client: Any, calls: list[Call], *, transaction: bool) -> list[Any]:
    pipe, found = client.pipeline(transaction=transaction), []
    for call in calls:
        try:
            assert getattr(pipe, call.method)(*call.args, **call.keywords) is pipe
        except redis.RedisError as error:
            found.append(failed(error))
    try:
        replies = pipe.execute(raise_on_error=False)
    except redis.RedisError as error:
        return [*found, failed(error)]
    return [*found, *(failed(reply) if isinstance(reply, Exception) else reply for reply in replies)]


async def awaited(client: Any, calls: list[Call]) -> list[Any]:
    found = []
    for call in calls:
        try:
            found.append(await getattr(client, call.method)(*call.args, **call.keywords))
        except redis.RedisError as error:
            found.append(failed(error))
    await client.aclose()
    return found


async def awaited_in_pipeline(client: Any, calls: list[Call]) -> list[Any]:
    async with client.pipeline(transaction=False) as pipe:
        for call in calls:
            getattr(pipe, call.method)(*call.args, **call.keywords)
        replies = await pipe.execute(raise_on_error=False)
    await client.aclose()
    return [failed(reply) if isinstance(reply, Exception) else reply for reply in replies]


WAYS: dict[str, Callable[[Backend, list[Call], dict[str, Any]], list[Any]]] = {
    "client": lambda backend, calls, options: one_by_one(backend.client(**options), calls),
    "pipeline": lambda backend, calls, options: in_pipeline(backend.client(**options), calls, transaction=False),
    "transaction": lambda backend, calls, options: in_pipeline(backend.client(**options), calls, transaction=True),
    "aio": lambda backend, calls, options: asyncio.run(awaited(backend.aio(**options), calls)),
    "aio pipeline": lambda backend, calls, options: asyncio.run(awaited_in_pipeline(backend.aio(**options), calls)),
}


def settled(ours: Any, theirs: Any) -> Any:
    """Our reply without what varies, and without what only a later Redis tells, as far as theirs lacks it."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        known = {name: settled(value, theirs[name]) for name, value in ours.items() if name in theirs}
        return {name: theirs[name] if _word(name) in VARYING else value for name, value in known.items()}
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [settled(mine, other) for mine, other in zip(ours, theirs, strict=True)]
    if isinstance(ours, int) and isinstance(theirs, int) and ours > CLOCK and abs(ours - theirs) < APART:
        return theirs
    return ours


def _word(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)


def compare(ours: Backend, theirs: Backend, calls: list[Call], way: str, options: dict[str, Any]) -> None:
    mine, other = WAYS[way](ours, calls, options), WAYS[way](theirs, calls, options)
    assert len(mine) == len(other)
    replies = zip(mine, other, strict=True)
    wrong = [
        (call, got, wanted)
        for call, (got, wanted) in zip(calls, replies, strict=False)
        if settled(got, wanted) != wanted
    ]
    assert not wrong


@pytest.mark.parametrize("decode", [False, True], ids=["bytes", "text"])
@pytest.mark.parametrize("protocol", [None, 2, 3])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_replies_are_those_of_redis_py(
    ours: Backend, theirs: Backend, scenario: str, protocol: int | None, decode: bool
) -> None:
    compare(ours, theirs, SCENARIOS[scenario], "client", {"protocol": protocol, "decode_responses": decode})


@pytest.mark.parametrize(("protocol", "decode"), [(2, True), (3, False)])
@pytest.mark.parametrize("way", ["pipeline", "transaction", "aio", "aio pipeline"])
@pytest.mark.parametrize("scenario", ["streams", "groups"])
def test_the_way_to_call_makes_no_difference(
    ours: Backend, theirs: Backend, scenario: str, way: str, protocol: int, decode: bool
) -> None:
    calls = SCENARIOS[scenario]
    if way == "transaction":  # what the server refuses to queue is another test's
        calls = [call for call in calls if call.args not in (("XLEN",), ("NOSUCH", "a", "b"))]
    compare(ours, theirs, calls, way, {"protocol": protocol, "decode_responses": decode})


@pytest.mark.parametrize("protocol", [None, 2, 3])
def test_unified_shapes_are_those_of_redis_py(ours: Backend, theirs: Backend, protocol: int | None) -> None:
    compare(ours, theirs, [*STREAMS, *GROUPS], "client", {"protocol": protocol, "legacy_responses": False})


@pytest.mark.parametrize("decode", [False, True], ids=["bytes", "text"])
@pytest.mark.parametrize("protocol", [None, 2, 3])
@pytest.mark.parametrize("way", ["client", "transaction", "aio"])
def test_keys_answer_as_with_redis_py(
    ours: Backend, theirs: Backend, way: str, protocol: int | None, decode: bool
) -> None:
    for backend in (ours, theirs):
        backend.client(db=4).flushdb()
    compare(ours, theirs, KEYS, way, {"protocol": protocol, "decode_responses": decode})
