"""WATCH: after whatever another client did, an EXEC goes through here where it goes through in a Redis server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from diskstream.commands.keyspace import Keyspace
from tests.commands.world import Ours, Theirs
from tests.conftest import RedisServer

STARTS = {
    "nothing": [],
    "a stream": [
        *(f"XADD k {number}-0 f v" for number in range(1, 5)),
        "XGROUP CREATE k g 0",
        "XREADGROUP GROUP g c COUNT 2 STREAMS k >",
    ],
    "an empty stream": ["XGROUP CREATE k g 0 MKSTREAM"],
    "a stream that expires": ["XADD k 1-0 f v", "XADD k 2-0 f v", "EXPIRE k 1000"],
    "a string": ["SET k 1"],
    "a list": ["RPUSH k a b c"],
    "a set": ["SADD k a b c"],
}

# What one client does while another watches `k`; each line in one case, with ; between commands.
ACTS = """
FLUSHALL
FLUSHDB
FLUSHALL; XADD k 1-0 f v
FLUSHALL; SET k 1
SELECT 1; FLUSHDB
SELECT 1; SET k 1; FLUSHDB
SELECT 1; SET k 1; FLUSHALL
SELECT 1; SET k 1
SET l 1
SET l 1; FLUSHDB
SWAPDB 0 1
SWAPDB 0 0
SWAPDB 1 2
SWAPDB 0 1; SWAPDB 0 1
SELECT 1; SET k 1; SWAPDB 0 1
SELECT 1; SET k 1; SWAPDB 0 1; SWAPDB 0 1
SELECT 1; SET k 1; DEL k; SWAPDB 0 1
SELECT 1; XADD k 1-0 f v; SWAPDB 0 1
SELECT 1; SET k 1; SWAPDB 1 2
XSETID k 4-0
XSETID k 9-0
XSETID k 2-0
XSETID k 9-0; XSETID k 10-0
XSETID k 9-0 ENTRIESADDED 9 MAXDELETEDID 9-0
XSETID k 9-0; XADD k 10-0 f v
XADD k 5-0 f v; XSETID k 9-0
XDEL k 1-0; XSETID k 9-0
DEL k
UNLINK k
DEL l
EXPIRE k 100
EXPIRE k 100 NX
EXPIRE k 100 XX
EXPIRE k 100 GT
EXPIRE k -1
PERSIST k
EXPIRE k 100; PERSIST k
TOUCH k
RENAME k l
RENAME k k
RENAMENX k k
RENAME k l; RENAME l k
SET l 1; RENAMENX k l
SET l 1; RENAME l k
SET l 1; RENAMENX l k
XADD l 1-0 f v; RENAME l k
XADD l 1-0 f v; RENAME l k; RENAME k l
XADD l 1-0 f v; RENAME l k; DEL k
XADD l 1-0 f v; COPY l k
XADD l 1-0 f v; COPY l k REPLACE
COPY k l
MOVE k 1
MOVE k 1; SELECT 1; MOVE k 0
SELECT 1; SET k 1; MOVE k 0
XADD k 9-0 f v
XADD k 9-0 f v; XDEL k 9-0
XADD k 9-0 f v; DEL k
XADD k NOMKSTREAM 9-0 f v
XADD k MAXLEN 0 9-0 f v
XADD k 9-0 f v; FLUSHALL
XTRIM k MAXLEN 1
XTRIM k MAXLEN 9
XDEL k 1-0
XDEL k 9-0
XACK k g 1-0
XGROUP CREATE k h 0 MKSTREAM
XGROUP DESTROY k g
XGROUP SETID k g 0
XCLAIM k g d 0 1-0
XDEL k 1-0; XAUTOCLAIM k g d 0 0
XREADGROUP GROUP g d STREAMS k >
SET k 1
SET k 2 NX
SET k 2 XX
SET k 1; DEL k
INCR k
LPUSH k x
LPUSH k x; LPOP k
RPOP k
LPOP k 0
SADD k a
SADD k z
SREM k a
SREM k z
SREM k a b c
"""


@pytest.fixture(scope="module")
def theirs(redis_server: RedisServer) -> Iterator[tuple[Theirs, Theirs]]:
    both = Theirs(redis_server.host, redis_server.port), Theirs(redis_server.host, redis_server.port)
    yield both
    for each in both:
        each.close()


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[tuple[Ours, Ours]]:
    with Keyspace(tmp_path / "data", fsync="os") as keyspace:
        yield Ours(keyspace), Ours(keyspace)


def _goes_through(clients: tuple[Ours, Ours] | tuple[Theirs, Theirs], start: list[str], act: str, watch: str) -> bool:
    one, other = clients
    for line in ("SELECT 0", "FLUSHALL", *start, *watch.split(";")):
        one.run(line)
    for line in ("SELECT 0", *act.split(";")):
        other.run(line)
    one.run("MULTI")
    return one.run("EXEC") is not None


@pytest.mark.parametrize("start", STARTS)
def test_an_exec_goes_through_where_it_does_in_a_redis(
    ours: tuple[Ours, Ours], theirs: tuple[Theirs, Theirs], start: str
) -> None:
    found, expected = dict[str, bool](), dict[str, bool]()
    for act in ACTS.strip().splitlines():
        for watch in ("WATCH k", "SELECT 1; WATCH k"):
            if watch == "WATCH k" or any(word in act for word in ("SELECT", "SWAPDB", "FLUSH", "MOVE")):
                case = f"{watch}: {act}"
                found[case] = _goes_through(ours, STARTS[start], act, watch)
                expected[case] = _goes_through(theirs, STARTS[start], act, watch)
    assert found == expected


def test_records_that_are_written_once_more_are_not_touched(ours: tuple[Ours, Ours]) -> None:
    """Of a thousand changes of one key each other key seemed to be changed once."""
    one, other = ours
    one.run("SET k 1")
    one.run("WATCH k none")
    for number in range(3000):
        other.run(f"SET l {number}")
    one.run("MULTI")
    assert one.run("EXEC") == []
