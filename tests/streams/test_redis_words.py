"""What is refused, and in which words: one command after another, to a store and to a Redis server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RedisServer
from tests.streams.commands import Embedded, Refused, Server, agree
from tests.streams.layers import MAX, small_store


@pytest.fixture
def theirs(redis_server: RedisServer) -> Iterator[Server]:
    server = Server(redis_server.host, redis_server.port)
    yield server
    server.close()


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[Embedded]:
    with small_store(tmp_path / "store") as store:
        yield Embedded(store)


BEFORE: list[tuple[Any, ...]] = [
    ("XADD", "s", "5-1", "f", "1"),
    ("XADD", "s", "5-2", "f", "1", "g", "2", "f", "3"),
    ("XADD", "s", "7-0", "f", "1"),
    ("XDEL", "s", "5-1"),
    ("XADD", "full", f"{MAX}-{MAX}", "f", "1"),
    ("XADD", "empty", "MAXLEN", 0, "9-9", "f", "1"),
]

REFUSED: list[tuple[Any, ...]] = [
    *[
        ("XADD", key, given, "f", "1")
        for key in ("s", "none")
        for given in ("0-0", "0", "x", "5-", "-5", "5-1-1", "-", "+", "$", "")
    ],
    *[("XADD", "s", given, "f", "1") for given in ("7-0", "6-9", "5-1", "0-1", "6-*", "0-*")],
    *[("XADD", "full", given, "f", "1") for given in ("*", "5-5", f"{MAX}-*", f"{MAX}-{MAX}")],
    ("XADD", "full", "0-0", "f", "1"),
    ("XADD", "empty", "9-9", "f", "1"),
    ("XADD", "s", "NOMKSTREAM", "0-0", "f", "1"),
    ("XADD", "none", "NOMKSTREAM", "x", "f", "1"),
    ("XADD", "s", "MAXLEN", -1, "9-0", "f", "1"),
    ("XADD", "s", "MAXLEN", "=", -5, "9-0", "f", "1"),
    ("XADD", "s", "MAXLEN", 5, "LIMIT", 5, "9-0", "f", "1"),
    ("XADD", "s", "MINID", 5, "LIMIT", 5, "9-0", "f", "1"),
    ("XADD", "s", "MAXLEN", "~", 5, "LIMIT", -5, "9-0", "f", "1"),
    ("XADD", "s", "MAXLEN", 5, "MINID", 5, "9-0", "f", "1"),
    ("XADD", "s", "MINID", "x", "9-0", "f", "1"),
    ("XTRIM", "s", "MAXLEN", -1),
    ("XTRIM", "s", "MAXLEN", 5, "LIMIT", 5),
    ("XTRIM", "s", "MAXLEN", "~", 5, "LIMIT", -1),
    ("XTRIM", "s", "MAXLEN", 5, "MINID", 5),
    ("XTRIM", "s", "MINID", "x"),
    ("XTRIM", "s", "MINID", "5-"),
    *[("XDEL", "s", "7-0", given) for given in ("x", "", "-", "5-", "5-*")],
    *[
        ("XRANGE", "s", start, end)
        for start, end in (("x", "+"), ("-", "x"), ("(", "+"), ("(-", "+"), ("-", "(+"), ("", ""), ("5-", "+"))
    ],
    *[("XREVRANGE", "s", end, start) for start, end in (("x", "+"), ("-", "x"), ("(", "+"), ("(-", "+"), ("-", "(+"))],
    ("XRANGE", "s", f"({MAX}-{MAX}", "+"),
    ("XRANGE", "s", "-", "(0-0"),
    ("XREVRANGE", "s", "(0-0", "-"),
    ("XREVRANGE", "s", "+", f"({MAX}-{MAX}"),
    *[("XREAD", "STREAMS", b"s", given) for given in ("x", "-", "(5-1", "5-", "*", "")],
    ("XSETID", "none", "5-0"),
    ("XSETID", "s", "x"),
    ("XSETID", "s", "6-9"),
    ("XSETID", "s", "9-0", "ENTRIESADDED", 1),
    ("XSETID", "s", "9-0", "ENTRIESADDED", -1),
    ("XSETID", "s", "9-0", "MAXDELETEDID", "9-1"),
    ("XSETID", "s", "9-0", "MAXDELETEDID", "x"),
    ("XSETID", "none", "9-0", "MAXDELETEDID", "9-1"),
    ("XINFO", "STREAM", "none"),
    ("RENAME", "none", "s"),
]


def words_of(command: tuple[Any, ...]) -> str:
    return " ".join(map(str, command))


@pytest.mark.parametrize("command", REFUSED, ids=words_of)
def test_what_redis_refuses_is_refused_in_its_words_and_changes_nothing(
    ours: Embedded, theirs: Server, command: tuple[Any, ...]
) -> None:
    for words in BEFORE:
        assert agree(ours.run(*words), theirs.run(*words))
    refusal = theirs.run(*command)
    assert isinstance(refusal, Refused)
    given = ours.run(*command)
    assert agree(given, refusal), (given, refusal)
    for key in ("s", "full", "empty", "none"):
        for words in (("XRANGE", key, "-", "+"), ("EXISTS", key), ("XLEN", key)):
            assert ours.run(*words) == theirs.run(*words)


DONE: list[tuple[Any, ...]] = [
    ("XADD", "none", "0-*", "f", "1"),
    ("XADD", "none", "5", "f", "1"),
    ("XADD", "none", "NOMKSTREAM", "5-0", "f", "1"),
    ("XADD", "none", "NOMKSTREAM", "MAXLEN", "~", 5, "LIMIT", 10, "5-0", "f", "1"),
    ("XADD", "s", "NOMKSTREAM", "MINID", "=", "7", "7-*", "f", "1"),
    ("XADD", "s", "MAXLEN", 0, "9-0", "f", "1"),
    ("XADD", "s", "7-*", "f", "1"),
    ("XADD", "s", "8-*", "", ""),
    ("XADD", "empty", "9-*", "f", "1"),
    ("XDEL", "none", "1-0"),
    ("XDEL", "s", "5-1", "5-2", "5-2", "7"),
    ("XTRIM", "none", "MAXLEN", 0),
    ("XTRIM", "s", "MAXLEN", 0),
    ("XTRIM", "s", "MINID", "7"),
    ("XTRIM", "s", "MINID", f"{MAX}-{MAX}"),
    ("XRANGE", "s", "+", "-"),
    ("XRANGE", "s", "5", "5"),
    ("XRANGE", "s", "(5", "(7"),
    ("XRANGE", "s", f"(5-{MAX}", "7"),
    ("XRANGE", "s", "(5-2", "(7-0"),
    ("XRANGE", "s", "(0", "(0"),
    ("XRANGE", "none", "-", "+", "COUNT", 1),
    ("XREVRANGE", "s", "7", "5", "COUNT", 1),
    ("XREAD", "STREAMS", b"s", b"none", b"full", "5-1", "0", "0"),
    ("XREAD", "COUNT", 1, "STREAMS", b"s", b"full", "0", "$"),
    ("XREAD", "STREAMS", b"full", f"{MAX}-{MAX}"),
    ("XSETID", "s", "7-0"),
    ("XSETID", "s", "99-1", "ENTRIESADDED", 2),
    ("XSETID", "s", "99-1", "MAXDELETEDID", "99-1", "ENTRIESADDED", 100),
    ("XSETID", "s", "99-1", "MAXDELETEDID", "0-0"),
    ("XSETID", "empty", "9-9"),
    ("DEL", "none"),
    ("RENAME", "s", "s"),
    ("RENAME", "empty", "s"),
]


@pytest.mark.parametrize("command", DONE, ids=words_of)
def test_what_redis_does_is_done_with_the_same_reply(ours: Embedded, theirs: Server, command: tuple[Any, ...]) -> None:
    for words in BEFORE:
        assert agree(ours.run(*words), theirs.run(*words))
    reply = theirs.run(*command)
    assert not isinstance(reply, Refused)
    assert ours.run(*command) == reply
    for key in ("s", "full", "empty", "none"):
        for words in (("XRANGE", key, "-", "+"), ("EXISTS", key), ("XLEN", key)):
            assert ours.run(*words) == theirs.run(*words)
