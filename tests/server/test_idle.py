"""`timeout`: who is idle for so long is closed. Who waits is not idle, nor is who is sent something."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.client import packed
from tests.server.turns import Turns


@pytest.fixture
def turns(tmp_path: Path) -> Iterator[Turns]:
    with Turns(tmp_path / "store", 2, timeout=10) as made:
        for connection in made.connections:
            connection.caller.last_used = time.monotonic()
        yield made


def pass_time(turns: Turns) -> None:
    """Client 0 was heard of long ago."""
    turns.connections[0].caller.last_used = time.monotonic() - 60


def test_who_says_nothing_is_closed(turns: Turns) -> None:
    pass_time(turns)
    turns.second()
    assert [each.closed for each in turns.connections] == [True, False]


@pytest.mark.parametrize("ended_by", [packed("XADD", "s", "1-1", "a", "b"), packed("CLIENT", "UNBLOCK", 1)])
def test_a_wait_that_was_longer_is_answered(turns: Turns, ended_by: bytes) -> None:
    """The reply came, and the client was closed before it was sent: in that turn or soon after."""
    turns.turn([packed("XREAD", "BLOCK", 0, "STREAMS", "s", "$")])
    pass_time(turns)
    turns.second()
    turns.server.loop._second = 0.0
    turns.turn([b"", ended_by])
    turns.second()
    assert bytes(turns.heard[0]) in (
        b"*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
        b"*-1\r\n",
    )
    assert not turns.connections[0].closed


def test_a_pause_that_was_longer_is_over_first(turns: Turns) -> None:
    turns.turn([b"", packed("CLIENT", "PAUSE", 100_000)])
    turns.turn([packed("PING")])
    pass_time(turns)
    turns.second()
    turns.server.pause(0.0, writes_only=False)
    turns.second()
    turns.second()
    assert bytes(turns.heard[0]) == b"+PONG\r\n"
    assert not turns.connections[0].closed


@pytest.fixture
def sent(turns: Turns) -> Turns:
    """Client 0 has asked for more than fits into its socket, and has read nothing."""
    turns.turn([packed("SET", "k", "x" * 100_000)])
    turns.ends[0].sendall(packed("GET", "k") * 60)
    turn_unread(turns)
    assert turns.connections[0].out
    return turns


def turn_unread(turns: Turns) -> None:
    turns.server.loop.poke()
    turns.server.loop.turn()


def test_who_reads_slowly_is_not_idle(sent: Turns) -> None:
    while sent.connections[0].out:
        pass_time(sent)
        with contextlib.suppress(BlockingIOError):
            while sent.ends[0].recv(1 << 20):
                pass
        sent.server.loop._second = 0.0
        turn_unread(sent)
        assert not sent.connections[0].closed


def test_who_does_not_read_at_all_is_idle(sent: Turns) -> None:
    pass_time(sent)
    sent.server.loop._second = 0.0
    turn_unread(sent)
    assert sent.connections[0].closed
