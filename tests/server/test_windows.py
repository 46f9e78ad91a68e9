"""For how long, and how many, messages of producers are remembered in streams that a server makes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import diskstream
from diskstream import compat
from diskstream.server.serving import Server
from tests.server.client import Client, serving


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path / "store", stream_idmp_duration=3600, stream_idmp_maxsize=2) as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client.to(server) as opened:
        yield opened


def windows(client: Client, key: str) -> tuple[int, int]:
    words = client.call("XINFO", "STREAM", key)
    found = dict(zip(words[::2], words[1::2], strict=True))
    return found[b"idmp-duration"], found[b"idmp-maxsize"]


MAKING = {
    "XADD": ("XADD", "s", "*", "n", 1),
    "XADD with an ID": ("XADD", "s", "1-1", "n", 1),
    "XADD of a producer": ("XADD", "s", "IDMP", "p", "1", "*", "n", 1),
    "XGROUP CREATE": ("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM"),
}


@pytest.mark.parametrize("making", MAKING)
def test_a_stream_that_is_made_has_the_windows_of_the_settings(client: Client, making: str) -> None:
    """They were read, told by CONFIG GET, and had no effect."""
    client.call(*MAKING[making])
    assert windows(client, "s") == (3600, 2)


def test_the_first_message_of_all_is_remembered(client: Client) -> None:
    first = client.call(*MAKING["XADD of a producer"])
    assert client.call(*MAKING["XADD of a producer"]) == first
    assert client.call("XLEN", "s") == 1


def test_streams_that_are_there_keep_theirs(server: Server, client: Client, tmp_path: Path) -> None:
    client.call("XADD", "s", "1-1", "n", 1)
    assert client.call("CONFIG", "SET", "stream-idmp-duration", 60, "stream-idmp-maxsize", 100) == b"OK"
    client.call("XADD", "new", "1-1", "n", 1)
    client.call("SELECT", 3)
    client.call("XADD", "there", "1-1", "n", 1)
    assert windows(client, "there") == (60, 100)
    client.call("SELECT", 0)
    client.call("COPY", "s", "copy")
    with diskstream.open(tmp_path / "store") as store:
        store.stream("elsewhere").add({"n": "1"})
    client.call("XADD", "elsewhere", "*", "n", 1)
    found = {key: windows(client, key) for key in ("s", "new", "copy", "elsewhere")}
    assert found == {"s": (3600, 2), "new": (60, 100), "copy": (3600, 2), "elsewhere": (100, 100)}


def test_a_client_without_a_server_sets_them_too(tmp_path: Path) -> None:
    with compat.Redis(tmp_path / "store") as redis:
        redis.execute_command("CONFIG", "SET", "stream-idmp-duration", 60)
        redis.xadd("s", {"n": 1})
        found = redis.xinfo_stream("s")
    assert (found["idmp-duration"], found["idmp-maxsize"]) == (60, 100)
