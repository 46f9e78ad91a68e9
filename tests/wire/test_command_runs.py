"""Pipelines of plain commands on one key: what the parser makes of them, whatever the pieces they came in."""

import random

import pytest

from diskstream.commands.wire import AddRun, CommandRun, RequestParser
from tests.server.client import packed

READ = ("XREADGROUP", "GROUP", "g", "c", "COUNT", "2", "STREAMS", "k", ">")


def shown(parser: RequestParser, data: bytes) -> list[object]:
    """Lists as they are, runs as the name, the key and how many there are."""
    return [
        item if isinstance(item, list) else ("xadd" if isinstance(item, AddRun) else item.name, item.key, len(item))
        for item in parser.feed(data)
    ]


def test_a_run_ends_with_its_key_its_kind_or_its_consumer() -> None:
    lines = [("XLEN", "k"), ("xlen", "k"), ("XLEN", "l"), ("XADD", "l", "*", "a", "1"), ("XLEN", "l"), ("PING",), READ]
    other = (*READ[:3], "d", *READ[4:])
    data = b"".join(packed(*words) for words in [*lines, READ, other])
    assert shown(RequestParser(runs=True), data) == [
        ("xlen", b"k", 2),
        ("xlen", b"l", 1),
        ("xadd", b"l", 1),
        ("xlen", b"l", 1),
        [b"PING"],
        ("xreadgroup", b"k", 2),
        ("xreadgroup", b"k", 1),
    ]
    assert RequestParser().feed(packed("XLEN", "k")) == [[b"XLEN", b"k"]]


@pytest.mark.parametrize(
    "words",
    [("XLEN", "k"), ("XRANGE", "k", "1-0", "2-0", "COUNT", "3"), ("XACK", "k", "g", "1-0", "2-0"), READ],
)
def test_the_words_come_back(words: tuple[str, ...]) -> None:
    [run] = RequestParser(runs=True).feed(packed(*words) * 3)
    assert isinstance(run, CommandRun)
    assert run.commands() == [[word.encode() for word in words]] * 3
    assert run.rest(2).commands() == [[word.encode() for word in words]]
    assert run.kin_total(run.rest(1)) == run.total


def test_the_pieces_do_not_matter() -> None:
    """A run is of one piece; together they are the same commands in the same order."""
    chance = random.Random(11)
    kinds = [("XLEN", "k"), READ, ("XACK", "k", "g", "1-0"), ("XADD", "k", "*", "a", "1"), ("PING",), ("XLEN",)]
    for _ in range(100):
        said = [words for words in chance.choices(kinds, k=6) for _ in range(chance.randrange(4))]
        data = b"".join(packed(*words) for words in said)
        parser, found, at = RequestParser(runs=True), [], 0
        while at < len(data):
            size = chance.randrange(1, 60)
            for item in parser.feed(data[at : at + size]):
                found += [item] if isinstance(item, list) else item.commands()
            at += size
        assert found == [[word.encode() for word in words] for words in said]
