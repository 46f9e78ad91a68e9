"""CLIENT REPLY within MULTI: the bytes that come are those that a Redis sends, though they are no whole array then."""

import socket
from pathlib import Path

import pytest

from tests.conftest import RedisServer
from tests.server.client import packed, serving

END = b"end of the story"
STORIES = [
    "MULTI / PING / CLIENT REPLY SKIP / PING / EXEC / PING / PING",
    "MULTI / PING / CLIENT REPLY OFF / PING / EXEC / PING / CLIENT REPLY ON",
    "MULTI / CLIENT REPLY OFF / CLIENT REPLY ON / PING / EXEC / PING",
    "CLIENT REPLY OFF / MULTI / PING / CLIENT REPLY ON / PING / EXEC / PING",
    "CLIENT REPLY OFF / MULTI / CLIENT REPLY ON / PING / CLIENT REPLY OFF / PING / EXEC / PING / CLIENT REPLY ON",
    "CLIENT REPLY OFF / MULTI / CLIENT REPLY SKIP / CLIENT REPLY ON / PING / EXEC / PING / PING",
    "CLIENT REPLY SKIP / MULTI / PING / CLIENT REPLY SKIP / PING / EXEC / PING / PING",
    "MULTI / PING / CLIENT REPLY SKIP / EXEC / CLIENT REPLY SKIP / PING / PING",
    "MULTI / CLIENT REPLY SKIP / CLIENT REPLY ON / EXEC / PING / PING",
    "MULTI / CLIENT REPLY SKIP / CLIENT REPLY OFF / CLIENT REPLY ON / EXEC / PING / PING",
    "MULTI / CLIENT REPLY SKIP / CLIENT REPLY SKIP / EXEC / PING / PING",
    "MULTI / PING / CLIENT REPLY SKIP / CLIENT REPLY nonsense / EXEC / PING / PING",
    "CLIENT REPLY SKIP / EXEC / PING / MULTI / CLIENT REPLY SKIP / DISCARD / PING",
]


def bytes_of(story: str, port: int) -> bytes:
    """What comes back until the end of the story."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as sock:
        for line in story.split(" / "):
            sock.sendall(packed(*line.split()))
        sock.sendall(packed("ECHO", END))
        found = b""
        while END not in found:
            some = sock.recv(65536)
            assert some
            found += some
    return found


@pytest.mark.parametrize("story", STORIES)
def test_what_is_not_answered_is_what_a_redis_does_not_answer(
    tmp_path: Path, redis_server: RedisServer, story: str
) -> None:
    """An EXEC in which SKIP or OFF was said was not answered at all."""
    with serving(tmp_path / "store") as server:
        assert bytes_of(story, server.port) == bytes_of(story, redis_server.port)
