"""A client that asks and does not read: what the server keeps for it is bounded, and it misses nothing later."""

from pathlib import Path

import pytest

from diskstream.commands.caller import Buffers
from diskstream.server.connection import SOFT_OUT_BYTES
from tests.server.client import packed
from tests.server.turns import Turns


@pytest.mark.parametrize(("line", "count"), [("GET k", 500), ("INFO", 8000)])
def test_what_many_short_requests_ask_for_is_not_all_encoded_at_once(tmp_path: Path, line: str, count: int) -> None:
    """64 KiB of GETs of a value of 60 kB were half a gigabyte."""
    with Turns(tmp_path / "store") as turns:
        turns.turn([packed("SET", "k", "x" * 60_000)])
        turns.heard[0].clear()
        (end,), (connection,) = turns.ends, turns.connections
        asked = f"{line}\r\n".encode() * count
        most = 0
        while asked or connection.pending or connection.out:
            if asked and not connection.clogged:
                asked = asked[end.send(asked) :]
            turns.server.loop.poke()
            turns.server.loop.turn()
            most = max(most, len(connection.out))
            if connection.clogged or not asked:
                turns.listen()
        assert most < 2 * SOFT_OUT_BYTES
        turns.turn([packed("ECHO", "the last")])
        assert turns.heard[0].count(b"\r\n$") + 1 == count + 1


def test_what_is_kept_for_a_client_is_told_to_others(tmp_path: Path) -> None:
    with Turns(tmp_path / "store", clients=2) as turns:
        half_of_one = b"*2\r\n$4\r\nECHO\r\n$1000\r\nhalf"
        turns.turn([packed("SET", "k", "x" * 60_000), half_of_one])
        (end, _), (first, second) = turns.ends, turns.connections
        end.send(b"GET k\r\n" * 100)
        while not first.clogged:
            turns.server.loop.poke()
            turns.server.loop.turn()
        kept, half = turns.server.buffers(first.caller), turns.server.buffers(second.caller)
        assert kept.unsent_bytes == len(first.out) >= SOFT_OUT_BYTES
        assert kept.came_bytes > 0
        assert (half.came_bytes, half.unsent_bytes) == (len(half_of_one), 0)
        assert (kept.fd, half.fd) == (first.sock.fileno(), second.sock.fileno())


def test_what_is_kept_counts_wherever_it_waits(tmp_path: Path) -> None:
    with Turns(tmp_path / "store") as turns:
        (connection,) = turns.connections
        connection.pending.append([b"ECHO", b"later"])
        connection.backlog += b"behind"
        connection.only = b"+first\r\n"
        expected = Buffers(connection.fd, len(b"ECHO" + b"later" + b"behind"), len(b"+first\r\n"))
        assert connection.buffers() == expected
        connection.give(None)
        assert connection.buffers() == expected
        connection.encode()
        assert connection.buffers().unsent_bytes == len(connection.out) > len(b"+first\r\n")
        connection.pending.clear()
        connection.backlog.clear()
