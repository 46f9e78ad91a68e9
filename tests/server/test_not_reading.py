"""A client that asks and does not read: what the server keeps for it is bounded, and it misses nothing later."""

from pathlib import Path

import pytest

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
