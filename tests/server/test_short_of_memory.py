"""What there is no memory for costs the client that asked for it its answer, or its connection, and nobody else's."""

import contextlib
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import diskstream
from tests.engine.children import child
from tests.server.child import short_of_memory
from tests.server.client import Client, ErrorLine, packed

_MIB = 1 << 20
_SPARE_BYTES = 48 * _MIB

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc to count memory")


def _long_request(client: Client) -> object:
    return client.call("XADD", "s", "*", "n", b"x" * 2 * _SPARE_BYTES)


def _long_entry(client: Client) -> object:
    """Of which there is memory for the request, and not for a copy or two."""
    return client.call("XADD", "s", "*", "n", b"x" * (_SPARE_BYTES // 3))


def _long_transaction(client: Client) -> object:
    client.sock.sendall(packed("MULTI") + packed("XADD", "s", "*", "n", b"x" * 4 * _MIB) * 30 + packed("EXEC"))
    return [client.reply() for _ in range(32)]


def _many_replies(client: Client) -> object:
    client.sock.sendall(packed("XRANGE", "large", "-", "+", "COUNT", "4") * 4)
    return [client.reply() for _ in range(4)]


def _long_reply(client: Client) -> object:
    return client.call("XRANGE", "large", "-", "+")


def _dump(client: Client) -> object:
    return client.call("DUMP", "large")


def _read_all(client: Client) -> object:
    return client.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", "large", ">")


@pytest.mark.parametrize(
    "asks", [_long_request, _long_entry, _long_transaction, _long_reply, _many_replies, _dump, _read_all]
)
def test_who_asks_for_more_than_there_is_memory_for_does_not_end_the_server(
    tmp_path: Path, asks: Callable[[Client], object]
) -> None:
    """An allocation that failed ended the process, for all of its clients."""
    with diskstream.open(tmp_path / "store", fsync="os") as store:
        store.stream("large").add_many([{"n": b"x" * 4 * _MIB}] * 14)
        store.stream("large").create_group("g", "0")
    with (
        child(short_of_memory, tmp_path / "store", _SPARE_BYTES) as server,
        Client.connected("127.0.0.1", int(server.hear())) as other,
    ):
        assert isinstance(other.call("XADD", "s", "*", "n", "1"), bytes)
        for _ in range(3):
            # Which of them is closed, and which is told so, is a matter of what is left.
            with Client.connected(*other.sock.getpeername()) as hungry, contextlib.suppress(OSError, EOFError):
                asks(hungry)
        assert other.call("PING") == b"PONG"
        assert not isinstance(other.call("XLEN", "s"), ErrorLine)
        server.process.send_signal(signal.SIGTERM)
        assert server.hear() == "ended"
