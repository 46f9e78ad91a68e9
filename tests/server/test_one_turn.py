"""What comes in one turn from several clients, or behind each other from one: each hears its own, in order."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from diskstream.commands.wire import RequestParser
from diskstream.server.kindred import Kindred
from tests.server.client import packed
from tests.server.test_batching import client, run_of
from tests.server.turns import Turns


@pytest.fixture
def turns(tmp_path: Path) -> Iterator[Turns]:
    """Two clients, the second one in another database."""
    with Turns(tmp_path / "store", 2) as made:
        made.turn([b"", packed("SELECT", 1)])
        made.heard[1].clear()
        yield made


def said(turns: Turns, *words: str | int) -> list[bytes]:
    """What each hears where both say the same in one turn."""
    turns.turn([packed(*words)] * 2)
    heard = [bytes(each) for each in turns.heard]
    for each in turns.heard:
        each.clear()
    return heard


def test_a_key_of_two_databases_is_two_streams(turns: Turns) -> None:
    turns.turn([packed("XADD", "s", "5-1", "n", "first")])
    turns.heard[0].clear()
    said(turns, "XADD", "s", "*", "n", "both")
    assert said(turns, "XLEN", "s") == [b":2\r\n", b":1\r\n"]
    assert said(turns, "XGROUP", "CREATE", "s", "g", "0") == [b"+OK\r\n"] * 2
    first, second = said(turns, "XREADGROUP", "GROUP", "g", "c", "COUNT", 1, "STREAMS", "s", ">")
    assert b"5-1" in first
    assert b"5-1" not in second
    assert said(turns, "XACK", "s", "g", "5-1") == [b":1\r\n", b":0\r\n"]


def test_the_reply_before_a_change_of_protocol_is_not_lost(turns: Turns) -> None:
    turns.turn([packed("XADD", "s", "5-1", "n", "1")])
    turns.heard[0].clear()
    turns.turn([packed("XLEN", "s") + packed("HELLO", 3) + packed("XLEN", "s")])
    heard = bytes(turns.heard[0])
    assert heard.startswith(b":1\r\n%")
    assert heard.endswith(b":1\r\n")


def test_a_reply_waits_for_what_its_client_has_not_read_yet(turns: Turns) -> None:
    """A short one could be sent at once, and would come into the middle of the one before."""
    turns.connections[0].out += b"$3\r\nold\r\n"  # of a turn before, in which there was no room
    assert said(turns, "XLEN", "s") == [b"$3\r\nold\r\n:0\r\n", b":0\r\n"]


def test_a_batch_has_room_for_so_much_and_no_more() -> None:
    batch = Kindred(type(run_of(b"1")), "xadd", most=3)
    assert [batch.take(client(), run_of(b"1", b"2")) for _ in range(3)] == [True, True, False]
    assert len(batch) == 4
    (other,) = RequestParser(runs=True).feed(packed("XADD", "another", "*", "n", "1"))
    batch.empty()
    assert batch.take(client(), run_of(b"1"))
    assert not batch.take(client(), other)  # type: ignore[arg-type]  # a run, as was asked for
