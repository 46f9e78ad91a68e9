"""A full disk: writes are refused in Redis's words, reads go on, and writes go on once there is room."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import diskstream
from diskstream.server.serving import Server
from tests.engine.mounts import small_disk
from tests.server.client import Client, ErrorLine, packed, serving

VALUE = "." * 4000


@pytest.fixture
def reserve(tmp_path: Path) -> Iterator[Path]:
    """A file on a disk of 24 MiB, which is room when it is needed."""
    with small_disk(tmp_path / "disk", "24m") as disk:
        (disk / "reserve").write_bytes(bytes(8 << 20))
        yield disk / "reserve"


@pytest.fixture(params=["always", "everysec"])
def server(reserve: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    with serving(reserve.parent / "store", appendfsync=request.param) as running:
        yield running


def add_until_refused(client: Client) -> tuple[list[bytes], ErrorLine]:
    """Pipelines of XADDs until one is refused. Returns the IDs of those that were not, and the error."""
    ids: list[bytes] = []
    for _ in range(300):
        client.sock.sendall(b"".join(packed("XADD", "s", "*", "pad", VALUE) for _ in range(50)))
        replies = [client.reply() for _ in range(50)]
        ids += [reply for reply in replies if not isinstance(reply, ErrorLine)]
        refused = [reply for reply in replies if isinstance(reply, ErrorLine)]
        if refused:
            return ids, refused[-1]
    raise AssertionError("the disk is never full")


def test_writes_are_refused_reads_go_on_and_room_helps(server: Server, reserve: Path) -> None:
    with Client.to(server) as client:
        ids, refused = add_until_refused(client)
        assert str(refused).startswith("MISCONF ")
        assert [entry[0] for entry in client.call("XRANGE", "s", "-", "+")] == ids
        assert client.call("XLEN", "s") == len(ids)
        assert str(client.call("XADD", "s", "*", "pad", VALUE)).startswith("MISCONF ")
        reserve.unlink()
        tries = (client.call("XADD", "s", "*", "pad", "there is room") for _ in range(100_000))
        # At once, or when the stores were opened anew: within a second.
        added = next(reply for reply in tries if not isinstance(reply, ErrorLine))
        assert [entry[0] for entry in client.call("XRANGE", "s", "-", "+")] == [*ids, added]
    with diskstream.open(reserve.parent / "store", read_only=True) as store:
        assert [str(entry.id).encode() for entry in store.stream("s").range()] == [*ids, added]
        assert store.verify().ok


def test_who_runs_the_server_is_told(server: Server, reserve: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Only clients were: the log was silent, and INFO said of the last write that it was "ok"."""
    now = 100.0
    server.keyspace.troubles._clock = lambda: now
    with caplog.at_level("WARNING", "diskstream.server"), Client.to(server) as client:
        assert b"aof_last_write_status:ok" in client.call("INFO", "persistence")
        add_until_refused(client)
        assert b"aof_last_write_status:err" in client.call("INFO", "persistence")
        assert "diskstream_server_writes_failing 1" in server._metrics()
        reserve.unlink()
        now += 2
        assert client.call("XLEN", "s") > 0  # which changes nothing of that
        assert b"aof_last_write_status:err" in client.call("INFO", "persistence")
        tries = (client.call("XADD", "s", "*", "pad", "there is room") for _ in range(100_000))
        assert next(reply for reply in tries if not isinstance(reply, ErrorLine))
        now += 2
        assert not isinstance(client.call("XADD", "s", "*", "pad", "there is room"), ErrorLine)
        assert b"aof_last_write_status:ok" in client.call("INFO", "persistence")
        assert "diskstream_server_writes_failing 0" in server._metrics()
    said = [record.getMessage() for record in caplog.records]
    refusals = [text for text in said if text.startswith("writes fail: Errors writing to the store")]
    assert len(refusals) == 1  # not one for each of them
    assert "No space left on device" in refusals[0]
    assert said.count("writes go on") == 1
