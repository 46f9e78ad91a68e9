"""Under `always` the changes of one turn share a flush, and no reply leaves before it."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from diskstream import StorageError
from diskstream.engine.log import StreamLog
from diskstream.server.serving import Server
from tests.server.client import Client, packed, serving


def log_of(server: Server) -> StreamLog:
    log = server.keyspace.store(0)._log(b"s", create=False)
    assert log is not None
    return log


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path / "store", appendfsync="always", unixsocket=str(tmp_path / "socket")) as running:
        yield running


def connected_to(server: Server) -> Client:
    """By a Unix socket, which hands over all that was sent."""
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(server.settings.unixsocket)
    return Client(sock)


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with connected_to(server) as connected:
        connected.sock.sendall(b"".join(packed("XADD", "s", f"{n}-1", "n", n) for n in range(1, 201)))
        assert len([connected.reply() for _ in range(200)]) == 200
        connected.call("XGROUP", "CREATE", "s", "g", "0")
        yield connected


@pytest.fixture
def flushes(client: Client, monkeypatch: pytest.MonkeyPatch) -> list[StreamLog]:
    """The logs that were flushed, each time."""
    seen: list[StreamLog] = []
    whole = StreamLog.flush

    def flush(log: StreamLog) -> None:
        seen.append(log)
        whole(log)

    monkeypatch.setattr(StreamLog, "flush", flush)
    return seen


def replies_of(client: Client, requests: bytes, count: int, server: Server) -> list[object]:
    """The replies; each is looked at behind what the page says is on disk."""
    client.sock.sendall(requests)
    replies = []
    for _ in range(count):
        replies.append(client.reply())
        page = log_of(server).ctl
        assert page.durable == page.written
    return replies


def test_reads_and_acks_of_a_pipeline_share_one_flush(server: Server, client: Client, flushes: list[StreamLog]) -> None:
    reads = b"".join(packed("XREADGROUP", "GROUP", "g", "a", "COUNT", 1, "STREAMS", "s", ">") for _ in range(100))
    assert len(replies_of(client, reads, 100, server)) == 100
    assert len(flushes) == 1
    flushes.clear()
    acks = b"".join(packed("XACK", "s", "g", f"{n}-1") for n in range(1, 101))
    assert replies_of(client, acks, 100, server) == [1] * 100
    assert len(flushes) == 1


def test_what_is_not_answered_is_durable_all_the_same(server: Server, client: Client) -> None:
    client.call("XREADGROUP", "GROUP", "g", "a", "COUNT", 1, "STREAMS", "s", ">")
    with connected_to(server) as silent:
        silent.send("CLIENT", "REPLY", "OFF")
        silent.send("XACK", "s", "g", "1-1")
        while client.call("XPENDING", "s", "g")[0]:
            pass
    assert log_of(server).native.is_durable


def test_where_the_flush_fails_nobody_is_told_that_all_is_well(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What became of it nobody can know then: the connection ends, as if the server had died."""
    client.call("XREADGROUP", "GROUP", "g", "a", "COUNT", 2, "STREAMS", "s", ">")

    def fails(log: StreamLog) -> None:
        raise StorageError(str(log.directory), "flush", 5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(StreamLog, "flush", fails)
        client.send("XACK", "s", "g", "1-1")
        assert client.at_end()
    with connected_to(server) as another:  # the stores are opened anew, and it goes on
        assert another.call("XACK", "s", "g", "2-1") == 1
