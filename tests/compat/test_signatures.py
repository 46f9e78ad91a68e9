"""Methods take what redis-py's take, and say the same words to the server."""

import asyncio
import datetime as dt
import inspect
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio

from diskstream import compat
from diskstream.commands.caller import Caller
from diskstream.commands.replies import Reply
from diskstream.commands.table import Table
from diskstream.compat.group_methods import GroupMethods
from diskstream.compat.key_methods import KeyMethods, ScanMethods
from diskstream.compat.stream_methods import StreamMethods
from tests.compat.scenarios import GROUPS, KEYS, REFUSED, STREAMS, Call, call

METHODS = sorted(
    name for kind in (StreamMethods, GroupMethods, KeyMethods, ScanMethods) for name in vars(kind) if name[0] != "_"
)
NEWER = [
    call("xadd", "s", {"a": 1}, ref_policy="ACKED", maxlen=5, limit=3),
    call("xadd", "s", {"a": 1}, idmpauto="p"),
    call("xadd", "s", {"a": 1}, idmp=("p", b"1"), minid="5-0", approximate=False),
    call("xtrim", "s", minid="5", ref_policy="DELREF"),
    call("xtrim", "s", maxlen=3, limit=2),
    call("xdelex", "s", "1-1", "2-1", ref_policy="ACKED"),
    call("xackdel", "s", "g", "1-1"),
    call("xnack", "s", "g", "FATAL", "1-1", "2-1", retrycount=0, force=True),
    call("xcfgset", "s", idmp_duration=5, idmp_maxsize=7),
    call("xread", {"s": "0", b"t": "+"}, count=1, block=5, max_count=3, max_size=100),
    call("xreadgroup", "g", "c", {"s": ">"}, 1, 0, True, 60_000, 3, 100),
    call("xautoclaim", "s", "g", "c", 5, count=None),
    call("copy", "s", "t", destination_db="4"),
    call("expire", "s", dt.timedelta(seconds=5), nx=True, xx=True, gt=True, lt=True),
    call("pexpire", "s", dt.timedelta(seconds=5)),
    call("expireat", "s", dt.datetime(2030, 1, 1, tzinfo=dt.UTC), lt=True),
    call("pexpireat", "s", dt.datetime(2030, 1, 1, tzinfo=dt.UTC)),
    call("restore", "s", 5, b"bytes", True, True, idletime=5, frequency=6),
    call("object", "encoding", "s"),
    call("scan", 5, match="s*", count=3, _type="stream"),
    call("keys"),
    call("info"),
    call("info", "server", "clients"),
    call("time"),
    call("flushall"),
    call("flushall", asynchronous=True),
    call("config_get", "a*", "b*"),
    call("config_set", "a", 1, "b", 2),
]


@pytest.mark.parametrize("name", METHODS)
def test_methods_take_what_those_of_redis_py_take(name: str) -> None:
    for mine, theirs in ((compat.Redis, redis.Redis), (compat.aio.Redis, redis.asyncio.Redis)):
        ours, wanted = (inspect.signature(getattr(kind, name)).parameters.values() for kind in (mine, theirs))
        assert [(one.name, one.kind, one.default) for one in ours] == [
            (one.name, one.kind, one.default) for one in wanted
        ]


@pytest.mark.parametrize("name", ["pipeline", "transaction", "execute_command"])
def test_clients_take_what_those_of_redis_py_take(name: str) -> None:
    for mine, theirs in ((compat.Redis, redis.Redis), (compat.aio.Redis, redis.asyncio.Redis)):
        ours, wanted = (inspect.signature(getattr(kind, name)).parameters.values() for kind in (mine, theirs))
        assert [(one.kind, one.default) for one in ours] == [(one.kind, one.default) for one in wanted]


def test_the_module_for_asyncio_has_the_names_of_redis_py_s(tmp_path: Path) -> None:
    """`import redis.asyncio as redis` is the whole of what many programs import: `redis.from_url`, its errors."""
    shared = {name for name in redis.asyncio.__all__ if hasattr(compat, name)}
    assert {"Redis", "ResponseError", "from_url"} <= shared
    assert shared - set(compat.aio.__all__) == set()

    async def run() -> None:
        async with compat.aio.from_url(f"diskstream://{tmp_path / 'store'}", decode_responses=True) as client:
            assert await client.xadd("s", {"n": 1}, id="1-1") == "1-1"
            with pytest.raises(compat.aio.ResponseError, match="equal or smaller"):
                await client.xadd("s", {"n": 1}, id="1-1")

    asyncio.run(run())


@pytest.mark.parametrize("name", ["close", "aclose"])
def test_a_client_of_asyncio_is_closed_as_that_of_redis_py(tmp_path: Path, name: str) -> None:
    """The line that closes one, as frameworks have it, was a TypeError."""
    ours, wanted = (inspect.signature(getattr(kind, name)) for kind in (compat.aio.Redis, redis.asyncio.Redis))
    assert [*ours.parameters] == [*wanted.parameters]

    async def run() -> None:
        client = compat.aio.Redis(tmp_path / "store")
        await getattr(client, name)(close_connection_pool=True)
        with pytest.raises(compat.ConnectionError):
            await client.ping()

    asyncio.run(run())


def test_every_stream_method_of_redis_py_is_there() -> None:
    wanted = {name for name in dir(redis.Redis) if name.startswith("x")}
    assert wanted <= set(METHODS)


class Recorded(redis.Redis):
    """Keeps the words that it would send."""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        encode: Any = self.get_encoder()
        encode = encode.encode
        self.said = [*encode(args[0]).split(), *(bytes(encode(arg)) for arg in args[1:])]
        return None


@pytest.fixture
def said(tmp_path: Path) -> Any:
    """What compat says for a call."""
    recorded: list[list[bytes]] = []

    def dispatch(table: Table, caller: Caller, words: list[bytes]) -> Reply:
        recorded.append(words)

    def say(asked: Call) -> list[bytes]:
        # In a transaction that is only filled no reply is shaped, which there are none of.
        pipe = client.pipeline(transaction=False)
        getattr(pipe, asked.method)(*asked.args, **asked.keywords)
        [(args, _)] = pipe.command_stack
        return client._link.words(args)

    client = compat.Redis(tmp_path / "store", commands=(dispatch, {}))
    yield say
    client.close()


@pytest.mark.parametrize("asked", [*NEWER, *KEYS, *STREAMS, *GROUPS], ids=lambda asked: asked.method)
def test_the_words_are_those_of_redis_py(said: Any, asked: Call) -> None:
    theirs = Recorded()
    getattr(theirs, asked.method)(*asked.args, **asked.keywords)
    mine = said(asked)
    # Options may come in another order.
    assert (mine[0], sorted(mine)) == (theirs.said[0], sorted(theirs.said))


@pytest.mark.parametrize("asked", REFUSED, ids=lambda asked: asked.method)
def test_what_is_refused_says_nothing(said: Any, asked: Call) -> None:
    with pytest.raises(redis.DataError):
        said(asked)
