"""Approximate trims where `stream-node-max-entries` is another than 100: what goes is what goes in a Redis server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from diskstream.commands.keyspace import Keyspace
from diskstream.engine import trimming
from tests.commands.world import Ours, Theirs
from tests.conftest import RedisServer


@pytest.fixture
def theirs(redis_server: RedisServer) -> Iterator[Theirs]:
    connection = Theirs(redis_server.host, redis_server.port)
    yield connection
    connection.run("CONFIG SET stream-node-max-entries 100")
    connection.close()


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Ours]:
    with Keyspace(tmp_path / "data", fsync="os") as keyspace:
        yield Ours(keyspace)


TRIMS = [
    *(f"MAXLEN ~ {length}" for length in (0, 1, 5, 54, 55, 500)),
    *(f"MAXLEN ~ {length} LIMIT {limit}" for length in (0, 55) for limit in (0, 1, 2, 9, 10, 30, 5000)),
    *(f"MINID ~ {least}" for least in (0, 1, 2, 11, 50, 51, 100, 9999)),
    *(f"MINID ~ 91 LIMIT {limit}" for limit in (0, 3, 10, 45)),
]


@pytest.mark.parametrize("entries", [1, 2, 10])
def test_whole_nodes_go(here: Ours, theirs: Theirs, entries: int) -> None:
    """The setting was taken, and runs of 100 went all the same."""
    for side in (here, theirs):
        assert side.run(f"CONFIG SET stream-node-max-entries {entries}") == b"OK"
    for trim in TRIMS:
        for side in (here, theirs):
            side.run("DEL s")
            for number in range(1, 103):
                side.run(f"XADD s {number}-0 f v")
        for line in (
            f"XTRIM s {trim}",
            f"XADD s {trim} 200-0 f v",
            f"XTRIM s {trim}",
            "XLEN s",
            "XDEL s 55-0 91-0 101-0",
        ):
            assert here.run(line) == theirs.run(line), (trim, line)


@pytest.mark.parametrize("deleted", [(0.5, 1), (0.9, 1), (0.9, 1.4), (1, 1.2), (0.1, 0.3)])
@pytest.mark.parametrize("entries", [10, 20, 100])
def test_a_node_goes_as_soon_as_all_that_is_live_in_it_may_go(
    here: Ours, theirs: Theirs, entries: int, deleted: tuple[float, float]
) -> None:
    """It stayed where what had been deleted stood behind the last that might go."""
    for side in (here, theirs):
        side.run(f"CONFIG SET stream-node-max-entries {entries}")
    gone = range(entries + round(deleted[0] * entries) + 1, entries + round(deleted[1] * entries) + 1)
    length = 3 * entries - len(gone)
    for keep in range(0, length, entries // 10):
        for side in (here, theirs):
            side.run("DEL s")
            for number in range(1, 3 * entries + 1):
                side.run(f"XADD s {number}-0 f v")
            for number in gone:
                side.run(f"XDEL s {number}-0")
        assert here.run(f"XTRIM s MAXLEN ~ {keep}") == theirs.run(f"XTRIM s MAXLEN ~ {keep}"), keep


def test_without_limit_a_hundred_nodes_go(here: Ours, theirs: Theirs) -> None:
    for side in (here, theirs):
        side.run("CONFIG SET stream-node-max-entries 2")
        for number in range(1, 451):
            side.run(f"XADD s {number}-0 f v")
    for _ in range(4):
        assert here.run("XTRIM s MAXLEN ~ 1") == theirs.run("XTRIM s MAXLEN ~ 1")


def test_without_limit_no_more_goes_than_a_trim_may_take_of_however_large_nodes(
    here: Ours, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred nodes of 20,000 entries would keep everybody else waiting: a million at once, as in Redis."""
    assert trimming._MAX_LIMIT == 1_000_000
    monkeypatch.setattr(trimming, "_MAX_LIMIT", 60)
    here.run("CONFIG SET stream-node-max-entries 20")
    for number in range(1, 151):
        here.run(f"XADD s {number}-0 f v")
    assert [here.run("XTRIM s MAXLEN ~ 1") for _ in range(3)] == [60, 60, 20]


def test_across_segments_no_more_goes_than_is_asked_for(tmp_path: Path) -> None:
    with Keyspace(tmp_path / "data", fsync="os", segment_bytes=8 << 10) as keyspace:
        _trimmed_across_segments(Ours(keyspace))


def _trimmed_across_segments(here: Ours) -> None:
    here.run("CONFIG SET stream-node-max-entries 7")
    for number in range(1, 401):
        here.run(f"XADD s {number}-0 f {'v' * 100}")
    for number in range(3, 400, 3):
        here.run(f"XDEL s {number}-0")
    length = here.run("XLEN s")
    for keep in (260, 200, 199, 150, 20, 3, 0):
        gone = here.run(f"XTRIM s MAXLEN ~ {keep}")
        length -= gone
        assert here.run("XLEN s") == length
        assert keep <= length < keep + 7


def test_no_bound_is_the_default(here: Ours) -> None:
    here.run("CONFIG SET stream-node-max-entries 0")
    for number in range(1, 151):
        here.run(f"XADD s {number}-0 f v")
    assert here.run("XTRIM s MAXLEN ~ 1") == 100
