"""A Redis full of streams, and a directory to archive them to."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.archiving.world import DATABASE, World
from tests.conftest import RedisServer


@pytest.fixture
def world(redis_server: RedisServer, tmp_path: Path) -> Iterator[World]:
    """An empty database of a server, and a directory that is not there yet."""
    with redis.Redis(redis_server.host, redis_server.port, DATABASE) as client:
        client.flushdb()
        yield World(f"redis://{redis_server.host}:{redis_server.port}/{DATABASE}", client, tmp_path / "store")
        client.flushdb()
