"""Commands of one client run in the order in which it sent them, whatever they have had to wait for."""

from pathlib import Path

import pytest

from diskstream.server.connection import Connection
from tests.server.client import packed
from tests.server.turns import Turns

_LARGE, _COUNT = "x" * (300 << 10), 40
_RANGE = packed("XRANGE", "s", "-", "+", "COUNT", "1")
_READ = packed("XREADGROUP", "GROUP", "g", "a", "COUNT", "1", "STREAMS", "s", ">")


def filled(turns: Turns) -> Connection:
    """A stream of large entries, and a group of it; the client."""
    stream = turns.server.keyspace.stream(0, b"s")
    stream.add_many([{"n": _LARGE}] * _COUNT)
    stream.group("g", start="0")
    return turns.connections[0]


def turn_without_reading(turns: Turns, data: bytes) -> None:
    """Turns until all of it has come to the server, and its client has read nothing."""
    left = data
    while left:
        left = left[turns.ends[0].send(left) :]
        turns.server.loop.poke()
        turns.server.loop.turn()


@pytest.mark.parametrize("asked", [_RANGE, _READ])
@pytest.mark.parametrize(
    ("last", "reply"), [("DEL s", ":1"), ("ECHO last", "$4\r\nlast"), ("XTRIM s MAXLEN 0", f":{_COUNT}")]
)
def test_what_stands_behind_a_run_of_large_replies_waits_for_all_of_it(
    tmp_path: Path, asked: bytes, last: str, reply: str
) -> None:
    """A DEL that a pipeline had behind its reads came before most of them."""
    with Turns(tmp_path / "s") as turns:
        connection = filled(turns)
        turn_without_reading(turns, asked * _COUNT + packed(*last.split()))
        assert connection.clogged
        heard = turns.finish()[0]
        assert heard.count(_LARGE.encode()) == _COUNT
        assert heard.partition(b"\r\n-ERR DISCARD")[0].endswith(f"{_LARGE}\r\n{reply}".encode())


def test_what_comes_as_a_client_begins_to_read_is_behind_what_came_before(tmp_path: Path) -> None:
    """In the turn in which it may be sent to again, what it sent then was run before what was kept."""
    with Turns(tmp_path / "s") as turns:
        connection = filled(turns)
        turn_without_reading(turns, b"PING\r\n".join([_RANGE] * _COUNT))
        assert connection.clogged
        assert connection.pending
        turns.listen()
        turns.turn([packed("DEL", "s")])  # which finds room for all that was to be sent, and this command
        assert turns.finish()[0].count(_LARGE.encode()) == _COUNT


def test_what_comes_in_the_turn_in_which_a_wait_ends_is_behind_what_came_before(tmp_path: Path) -> None:
    with Turns(tmp_path / "s", clients=2) as turns:
        waits = packed("XREAD", "BLOCK", "0", "STREAMS", "s", "$")
        turns.turn([b"", waits + packed("ECHO", "first")])
        turns.turn()  # the poller forgets who was ready before: who sends first is heard first
        turns.turn([packed("XADD", "s", "1-1", "n", "v"), packed("ECHO", "second")])
        heard = turns.finish()[1]
        assert heard.index(b"1-1") < heard.index(b"first") < heard.index(b"second")
