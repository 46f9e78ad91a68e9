"""A client that waits in one database is served by what another moves or copies there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.client import packed
from tests.server.turns import Turns


@pytest.fixture
def turns(tmp_path: Path) -> Iterator[Turns]:
    with Turns(tmp_path / "store", 2) as made:
        made.turn([packed("SELECT", 1)])
        made.heard[0].clear()
        yield made


def commands(*lines: str) -> bytes:
    return b"".join(packed(*line.split()) for line in lines)


@pytest.mark.parametrize(
    "lines",
    [
        ["RPUSH l x", "MOVE l 1"],
        ["RPUSH m x", "COPY m l DB 1"],
        ["RPUSH m x", "copy m l replace db 1"],
        ["RPUSH l x", "MULTI", "MOVE l 1", "EXEC"],
    ],
)
def test_a_list_that_comes_from_another_database_ends_a_wait(turns: Turns, lines: list[str]) -> None:
    """It went unseen: the key that was looked at was that of the caller's database."""
    turns.turn([packed("BLPOP", "l", 0)])
    turns.turn([b"", commands(*lines)])
    assert bytes(turns.heard[0]) == b"*2\r\n$1\r\nl\r\n$1\r\nx\r\n"


@pytest.mark.parametrize("line", ["MOVE l 99", "MOVE l x", "COPY l m DB", "COPY l m DB x", "COPY l"])
def test_a_database_that_cannot_be_is_the_commands_to_refuse(turns: Turns, line: str) -> None:
    turns.turn([packed("BLPOP", "l", 0)])
    turns.turn([b"", commands(line)])
    assert bytes(turns.heard[1]).startswith(b"-ERR")
    assert not turns.heard[0]
