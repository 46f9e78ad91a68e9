"""Keys that expire faster than a turn can remove them: each turn removes some, and clients are served in between."""

from pathlib import Path

import pytest

from diskstream.server import serving
from tests.server.client import packed
from tests.server.turns import Turns


def test_each_turn_removes_some_until_all_are_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was a hundred in a second: whoever made more filled the disk."""
    monkeypatch.setattr(serving, "_SWEEP_S", 0.0)  # one key each time
    with Turns(tmp_path / "store") as turns:
        keyspace = turns.server.keyspace
        for number in range(10):
            keyspace.put_values(0, b"%d" % number, "string", (b"v",), expires=1 + number)
        turns.second()
        for number in range(1, 10):
            assert keyspace.statistics.expired == number
            turns.ends[0].send(packed("PING"))
            turns.server.loop.turn()  # which sleeps over nothing
            turns.listen()
            assert turns.heard[0] == b"+PONG\r\n" * number
        assert keyspace.statistics.expired == 10
        assert not keyspace.has_due()
