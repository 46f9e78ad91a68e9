"""A Redis full of streams, and a directory to archive them to."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.archiving.world import DATABASE, World
from tests.conftest import RedisServer, _start_redis, _stop


@pytest.fixture
def world(redis_server: RedisServer, tmp_path: Path) -> Iterator[World]:
    """An empty database of a server, and a directory that is not there yet."""
    with redis.Redis(redis_server.host, redis_server.port, DATABASE) as client:
        client.flushdb()
        yield World(f"redis://{redis_server.host}:{redis_server.port}/{DATABASE}", client, tmp_path / "store")
        client.flushdb()


@pytest.fixture(scope="module")
def second_server(tmp_path_factory: pytest.TempPathFactory, redis_server: RedisServer) -> Iterator[RedisServer]:
    """One more server, for what would disturb others."""
    directory = tmp_path_factory.mktemp("second")
    process, port = _start_redis("redis-server", directory, {"appendonly": "no", "save": ""})
    yield RedisServer("127.0.0.1", port, directory)
    _stop(process)


@pytest.fixture
def second(second_server: RedisServer) -> Iterator[redis.Redis]:
    """A client of it, in our database, with everything as it was at first."""
    with redis.Redis(second_server.host, second_server.port, 9) as client:
        client.flushall()
        yield client
        client.replicaof("NO", "ONE")
        client.config_set("maxmemory", "0")
