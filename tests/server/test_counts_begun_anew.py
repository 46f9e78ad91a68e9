"""CONFIG RESETSTAT: what INFO counts begins anew, as with a Redis; what Prometheus is told only grows."""

from pathlib import Path

import pytest

from diskstream.server.metrics import as_text
from tests.conftest import RedisServer
from tests.server.client import Client, serving

COUNTED = ["total_commands_processed", "total_connections_received", "rejected_connections"]


def counted(port: int) -> dict[str, int]:
    """What a server says of itself once it was told to begin anew, and somebody has come and asked three times."""
    with Client.connected("127.0.0.1", port) as client:
        for _ in range(10):
            client.call("PING")
        assert client.call("CONFIG", "RESETSTAT") == b"OK"
        with Client.connected("127.0.0.1", port) as other:
            for _ in range(3):
                other.call("PING")
        lines = client.call("INFO", "stats").decode().splitlines()
    facts = dict(line.split(":", 1) for line in lines if ":" in line)
    assert int(facts["total_net_input_bytes"]) < 10 * len("*1\r\n$4\r\nPING\r\n")
    return {name: int(facts[name]) for name in COUNTED}


def test_what_is_counted_begins_anew(tmp_path: Path, redis_server: RedisServer) -> None:
    """Commands, connections and bytes were counted on."""
    with serving(tmp_path / "store") as server:
        assert counted(server.port) == counted(redis_server.port)
        told = as_text(server.counts, [])
        assert "diskstream_server_connections_total 2" in told


@pytest.mark.parametrize("times", [1, 3])
def test_as_often_as_it_is_asked_for(tmp_path: Path, times: int) -> None:
    with serving(tmp_path / "store") as server:
        assert [counted(server.port)["total_connections_received"] for _ in range(times)] == [1] * times
