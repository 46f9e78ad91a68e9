"""Methods for keys and for the server whose replies are not the same every time."""

import asyncio
import datetime as dt
import time
from typing import Any

import pytest
import redis

from tests.compat.backends import Backend


@pytest.fixture
def client(backend: Backend) -> Any:
    made = backend.client()
    for number in range(30):
        made.xadd(f"s{number}", {"a": number}, id="1-1")
    return made


NAMES = {b"s%d" % number for number in range(30)}


def test_keys_are_scanned(client: Any) -> None:
    cursor, found = client.scan(count=5)
    while cursor:
        cursor, more = client.scan(cursor, count=5)
        found += more
    assert set(found) == NAMES
    assert set(client.scan_iter()) == NAMES
    assert set(client.scan_iter(match="s1?", count=3, _type="stream")) == {b"s1%d" % number for number in range(10)}
    assert list(client.scan_iter(_type="string")) == []
    assert set(client.keys()) == NAMES
    assert client.randomkey() in NAMES


def test_keys_are_scanned_by_a_task(backend: Backend, client: Any) -> None:
    async def main() -> set[str]:
        async with backend.aio(decode_responses=True) as other:
            return {name async for name in other.scan_iter("s*", count=4)}

    assert asyncio.run(main()) == {name.decode() for name in NAMES}


def test_keys_end(client: Any) -> None:
    assert client.expire("s1", dt.timedelta(seconds=100)) is True
    assert 0 < client.ttl("s1") <= 100
    assert 0 < client.pttl("s1") <= 100_000
    assert client.expireat("s2", dt.datetime.now(dt.UTC) + dt.timedelta(seconds=50)) is True
    assert time.time() < client.expiretime("s2") + 1 < time.time() + 60
    assert client.pexpireat("s3", 1) is True  # long ago
    assert client.exists("s3") == 0


@pytest.mark.parametrize("decode", [False, True])
def test_keys_are_dumped_and_restored(backend: Backend, client: Any, decode: bool) -> None:
    other = backend.client(decode_responses=decode)
    dumped = other.dump("s5")
    assert isinstance(dumped, bytes)
    assert other.restore("copy", 0, dumped) == ("OK" if decode else b"OK")
    assert client.xrange("copy") == client.xrange("s5")
    with pytest.raises(redis.ResponseError, match="BUSYKEY"):
        other.restore("copy", 0, dumped)
    assert other.restore("copy", 50_000, dumped, replace=True) == ("OK" if decode else b"OK")
    assert 0 < client.pttl("copy") <= 50_000


def test_the_server_tells_of_itself(client: Any) -> None:
    seconds, microseconds = client.time()
    assert abs(seconds - time.time()) < 60
    assert 0 <= microseconds < 1_000_000
    assert client.info()["db3"]["keys"] == 30
    assert isinstance(client.info("server"), dict)
    assert client.dbsize() == 30
    assert client.object("encoding", "s1") == b"stream"
    assert isinstance(client.config_get("*"), dict)
    assert "s1" in client
    del client["s1"]
    assert "s1" not in client


def test_watch_is_for_pipelines(client: Any) -> None:
    with pytest.warns(DeprecationWarning, match="from a Pipeline"):
        client.watch("s1")
    with pytest.warns(DeprecationWarning, match="from a Pipeline"):
        client.unwatch()


def test_a_key_of_another_type_is_no_stream(backend: Backend, client: Any) -> None:
    assert client.execute_command("SET", "word", "x") is True
    with pytest.raises(redis.ResponseError, match=r"^WRONGTYPE Operation against a key"):
        client.xadd("word", {"a": 1})
    with pytest.raises(redis.ResponseError, match=r"^WRONGTYPE Operation against a key"):
        client.xread({"word": "$"}, block=1)
    assert client.type("word") == b"string"
    assert client.exists("word", "s1") == 2
