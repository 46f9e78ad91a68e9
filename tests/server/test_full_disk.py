"""A full disk: writes are refused in Redis's words, reads go on, and writes go on once there is room."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
        added: Any = None
        for _ in range(100_000):  # at once, or when the stores were opened anew: within a second
            added = client.call("XADD", "s", "*", "pad", "there is room")
            if not isinstance(added, ErrorLine):
                break
        assert [entry[0] for entry in client.call("XRANGE", "s", "-", "+")] == [*ids, added]
    with diskstream.open(reserve.parent / "store", read_only=True) as store:
        assert [str(entry.id).encode() for entry in store.stream("s").range()] == [*ids, added]
        assert store.verify().ok
