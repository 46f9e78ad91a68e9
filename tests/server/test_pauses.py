"""CLIENT PAUSE while another one lasts: the later end and the stricter one count, as in Redis, until CLIENT UNPAUSE."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from diskstream.server.connection import Connection
from tests.server.client import packed
from tests.server.turns import Turns

LONG = 1_000_000


@pytest.fixture
def turns(tmp_path: Path) -> Iterator[Turns]:
    with Turns(tmp_path / "store", 2) as made:
        yield made


def waits(turns: Turns, *words: str) -> bool:
    """Whether a client who says so is held back."""
    turns.turn([packed(*words)])
    turns.turn()
    return not turns.heard[0]


@pytest.mark.parametrize("shorter", [0, 1])
def test_a_shorter_pause_ends_no_longer_one(turns: Turns, shorter: int) -> None:
    runner = turns.server.loop.runner
    turns.turn([packed("CLIENT", "PAUSE", LONG, "WRITE") + packed("CLIENT", "PAUSE", shorter, "WRITE")])
    assert turns.heard[0] == b"+OK\r\n" * 2
    turns.heard[0].clear()
    ends = runner.pause_ends()
    assert ends is not None
    assert ends > runner.now + LONG / 2000
    assert waits(turns, "SET", "k", "v")


def test_a_pause_of_all_is_not_made_one_of_writes(turns: Turns) -> None:
    turns.turn([packed("CLIENT", "PAUSE", LONG, "WRITE") + packed("CLIENT", "PAUSE", 1, "ALL")])
    turns.heard[0].clear()
    turns.server.pause(turns.server.loop.runner.now + LONG, writes_only=True)
    assert waits(turns, "PING")


def test_one_that_is_over_counts_no_more(turns: Turns) -> None:
    turns.turn([packed("CLIENT", "PAUSE", 0, "ALL")])
    turns.turn([packed("CLIENT", "PAUSE", LONG, "WRITE")])
    turns.heard[0].clear()
    assert not waits(turns, "PING")


def test_one_that_ends_behind_all_moments_is_refused(turns: Turns) -> None:
    """All were locked out until the server was killed. Redis 7.0 says OK, and pauses nothing."""
    turns.turn([packed("CLIENT", "PAUSE", 2**63 - 1, "ALL")])
    assert turns.heard[0] == b"-ERR timeout is out of range\r\n"
    turns.heard[0].clear()
    assert not waits(turns, "PING")


def test_unpause_ends_it(turns: Turns) -> None:
    turns.turn([packed("CLIENT", "PAUSE", LONG, "WRITE") + packed("CLIENT", "UNPAUSE")])
    turns.heard[0].clear()
    assert not waits(turns, "SET", "k", "v")


def test_who_goes_while_a_pause_lasts_is_forgotten(turns: Turns) -> None:
    """Each client that had said something and gone stayed until the end of the pause, which may last for weeks."""

    def connections() -> int:
        gc.collect()
        return sum(isinstance(each, Connection) for each in gc.get_objects())

    turns.turn([packed("CLIENT", "PAUSE", LONG, "ALL")])
    turns.turn([b"", packed("PING")])
    before = connections()
    turns.ends.pop().close()
    turns.turn()
    assert turns.connections.pop().closed
    assert connections() == before - 1


def test_of_a_transaction_the_writes_are_held_back_and_an_exec_that_has_some(turns: Turns) -> None:
    """A write was queued at once, where Redis lets who says it wait."""
    turns.turn([packed("MULTI") + packed("SET", "k", "v")])
    turns.turn([b"", packed("CLIENT", "PAUSE", LONG, "WRITE")])
    turns.heard[0].clear()
    assert not waits(turns, "GET", "k")
    turns.heard[0].clear()
    assert waits(turns, "EXEC")


def test_a_write_waits_in_a_transaction_too(turns: Turns) -> None:
    turns.turn([packed("MULTI"), packed("CLIENT", "PAUSE", LONG, "WRITE")])
    turns.heard[0].clear()
    assert not waits(turns, "GET", "k")
    turns.heard[0].clear()
    assert waits(turns, "SET", "k", "v")


def test_an_exec_of_what_only_reads_waits_for_no_pause_of_writes(turns: Turns) -> None:
    turns.turn([packed("MULTI") + packed("GET", "k")])
    turns.turn([b"", packed("CLIENT", "PAUSE", LONG, "WRITE")])
    turns.heard[0].clear()
    assert not waits(turns, "EXEC")
