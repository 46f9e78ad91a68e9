"""XREAD and XREADGROUP that name a key twice read it twice: within the same limits, and what was given is told."""

from typing import Any

import pytest

from diskstream.commands.keyspace import Keyspace
from diskstream.commands.replies import Failure
from diskstream.commands.waiting import Waiting
from diskstream.commands.wire import encode
from diskstream.compat.raw import parse_all
from tests.commands.conftest import Say
from tests.commands.world import Ours, words_of


@pytest.fixture(autouse=True)
def filled(say: Say) -> None:
    """The streams `a`, with 1-1 to 5-1, and `b`, which is empty; both have the group `g`."""
    for number in range(1, 6):
        say(f"XADD a {number}-1 n {number}")
    say("XGROUP CREATE a g 0")
    say("XGROUP CREATE b g 0 MKSTREAM")


def ids(reply: Any) -> list[list[str]]:
    """Of each part of a reply the IDs of its entries."""
    parts: Any = parse_all(encode([reply], resp3=False))
    assert isinstance(parts, list), parts
    return [[entry_id.decode() for entry_id, _ in entries] for _, entries in parts]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("XREAD COUNT 2 MAXCOUNT 3 STREAMS a a 0 1", [["1-1", "2-1"], ["1-1"]]),
        ("XREAD COUNT 3 MAXCOUNT 3 STREAMS a a 0 1", [["1-1", "2-1", "3-1"]]),
        ("XREADGROUP GROUP g c COUNT 2 MAXCOUNT 3 STREAMS a a > >", [["1-1", "2-1"], ["3-1"]]),
        ("XREADGROUP GROUP g c COUNT 2 MAXCOUNT 3 NOACK STREAMS a b a > > >", [["1-1", "2-1"], ["3-1"]]),
    ],
)
def test_the_second_look_gives_what_the_first_has_left_of_maxcount(
    ours: Ours, line: str, expected: list[list[str]]
) -> None:
    """It was refused: `MAXCOUNT must be greater than or equal to COUNT`; what NOACK had given out was lost."""
    assert ids(ours.raw(*words_of(line))) == expected


def test_a_look_that_meets_an_error_loses_nothing_of_the_one_before(ours: Ours, keyspace: Keyspace) -> None:
    """Nobody else would be given it: NOACK counts it as done."""
    words = b"XREADGROUP GROUP g c BLOCK 0 NOACK STREAMS a a b > > >".split()
    assert ids(ours.raw(*words)) == [["1-1", "2-1", "3-1", "4-1", "5-1"]]
    wait = ours.raw(*words)
    assert isinstance(wait, Waiting)
    other = Ours(keyspace)
    other.run("XADD a 6-1 n 6")
    other.run("XGROUP DESTROY b g")
    assert ids(wait.again()) == [["6-1"]]
    assert ours.run("XREADGROUP GROUP g c NOACK STREAMS a a b > > >").startswith(b"NOGROUP No such key 'b'")


def test_one_that_has_given_nothing_tells_of_the_error(ours: Ours, keyspace: Keyspace) -> None:
    words = b"XREADGROUP GROUP g c BLOCK 0 NOACK STREAMS a a b > > >".split()
    ours.raw(*words)
    wait = ours.raw(*words)
    assert isinstance(wait, Waiting)
    Ours(keyspace).run("XGROUP DESTROY b g")
    with pytest.raises(Failure, match="NOGROUP No such key 'b'"):
        wait.again()
