"""Approximate trims beside those of a Redis server: the same where nodes are the same, the same promise elsewhere."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import diskstream
from tests.conftest import RedisServer
from tests.streams.commands import Embedded, Server
from tests.streams.layers import small_store

NODE = 100


@pytest.fixture
def theirs(redis_server: RedisServer) -> Iterator[Server]:
    server = Server(redis_server.host, redis_server.port)
    assert server.run("CONFIG", "GET", "stream-node-max-entries") == [b"stream-node-max-entries", b"100"]
    yield server
    server.close()


def fill(ours: Embedded, theirs: Server, count: int, *, size: int = 1) -> None:
    """Entries 1-0 to `count`-0 on both sides; 100 of size 1 are well below the 4096 bytes of a node."""
    pad = "." * size
    ours.store.stream("s").add_many([{"f": pad}] * count, ids=[(number, 0) for number in range(1, count + 1)])
    theirs.run_all([("XADD", "s", f"{number}-0", "f", pad) for number in range(1, count + 1)])


OPTIONS: list[tuple[Any, ...]] = [
    *[("MAXLEN", "~", length) for length in (0, 1, 99, 100, 101, 449, 450, 451, 600, 949, 950, 951, 1050, 2000)],
    *[("MINID", "~", least) for least in (0, 1, 100, 101, 102, 500, 555, 1000, 1050, 1051, 9999)],
    *[("MAXLEN", "~", 10, "LIMIT", limit) for limit in (0, 1, 99, 100, 101, 250, 5000)],
    *[("MINID", "~", 901, "LIMIT", limit) for limit in (0, 99, 100, 350)],
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: " ".join(map(str, options)))
def test_where_nodes_are_the_same_so_is_what_goes(tmp_path: Path, theirs: Server, options: tuple[Any, ...]) -> None:
    """1050 small entries that nobody deleted: ten nodes of a hundred and one of fifty on both sides."""
    with diskstream.open(tmp_path / "store", fsync="os") as store:
        ours = Embedded(store)
        fill(ours, theirs, 1050)
        for _ in range(3):
            assert ours.run("XTRIM", "s", *options) == theirs.run("XTRIM", "s", *options)
            assert ours.run("XRANGE", "s", "-", "+") == theirs.run("XRANGE", "s", "-", "+")


def test_the_default_limit_is_the_same(tmp_path: Path, theirs: Server) -> None:
    with diskstream.open(tmp_path / "store", fsync="os") as store:
        ours = Embedded(store)
        fill(ours, theirs, 10_950)
        for words in (("XTRIM", "s", "MAXLEN", "~", 10), ("XTRIM", "s", "MAXLEN", "~", 10), ("XLEN", "s")):
            assert ours.run(*words) == theirs.run(*words)


def test_trims_along_with_adding_are_the_same(tmp_path: Path, theirs: Server) -> None:
    with diskstream.open(tmp_path / "store", fsync="os") as store:
        ours = Embedded(store)
        for number in range(1, 451):
            for words in (("XADD", "s", "MAXLEN", "~", 120, f"{number}-0", "f", "1"), ("XLEN", "s")):
                assert ours.run(*words) == theirs.run(*words)


@pytest.mark.parametrize("seed", range(6))
def test_elsewhere_each_side_keeps_the_promise(tmp_path: Path, theirs: Server, seed: int) -> None:
    """Nodes differ with large and deleted entries: what is asked for stays, and less than a node beside it."""
    chance = random.Random(seed)
    with small_store(tmp_path / "store") as store:
        ours = Embedded(store)
        fill(ours, theirs, 700, size=chance.choice([1, 60, 200]))
        gone = [f"{number}-0" for number in chance.sample(range(1, 701), 200)]
        for side in (ours, theirs):
            assert side.run("XDEL", "s", *gone) == 200
        if seed % 2:
            store.seal()
        for length in (420, 333, 332, 200, 90, 0):
            for side in (ours, theirs):
                before = side.run("XLEN", "s")
                removed = side.run("XTRIM", "s", "MAXLEN", "~", length)
                left = side.run("XLEN", "s")
                assert left == before - removed
                assert min(before, length) <= left < length + NODE
        assert (
            ours.run("XINFO", "STREAM", "s")[b"max-deleted-entry-id"]
            == max(gone, key=lambda text: int(text[:-2])).encode()
        )
