"""A source that takes no writes for a while, as it cannot save, has lost its replicas, or is full: it is copied all the
same."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

import diskstream
from diskstream.archiving import outages
from diskstream.archiving.leasing import LEASE_PREFIX
from diskstream.archiving.trimming import trim_source
from diskstream.checkpoints import Checkpoints
from tests.archiving.test_archive import until
from tests.archiving.test_away import following, has_come
from tests.archiving.world import World
from tests.conftest import RedisServer, _start_redis, _stop

LEASE = LEASE_PREFIX.decode()


@pytest.fixture
def source(second: redis.Redis, world: World) -> World:
    """A server of its own, with 20 entries."""
    made = World(f"redis://127.0.0.1:{second.connection_pool.connection_kwargs['port']}/9", second, world.directory)
    made.fill("s", 20)
    return made


@contextmanager
def refusing(server: RedisServer, client: redis.Redis, why: str) -> Iterator[None]:
    """No write is taken within; with MISCONF a PING is refused, too."""
    in_the_way = server.directory / "dump.rdb"
    try:
        if why == "NOREPLICAS":
            client.config_set("min-replicas-to-write", "1")
        else:
            in_the_way.mkdir()
            client.config_set("save", "100000 100000")
            client.bgsave()
            until(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err")
        with pytest.raises(redis.ResponseError, match=why):
            client.set("x", "y")
        yield
    finally:
        client.config_set("min-replicas-to-write", "0")
        client.config_set("save", "")
        if in_the_way.is_dir():
            in_the_way.rmdir()


@pytest.mark.parametrize("why", ["MISCONF", "NOREPLICAS"])
def test_it_is_copied_and_what_was_not_trimmed_is_told(source: World, second_server: RedisServer, why: str) -> None:
    """One whose disk was full, of which a copy is wanted most, was not even connected to."""
    with refusing(second_server, source.client, why):
        report = source.archive()["s"]
        assert (report["entries"], report["findings"]) == (20, [])
        report = source.archive("--trim", code=1)["s"]
        assert (report["error"], report["trimmed"]) == (None, 0)
        assert "what was copied is not trimmed: " in report["findings"][0]
        assert "it takes no writes for now" in report["findings"][0]
    assert source.copy("s") == source.source("s")
    assert source.archive("--trim")["s"]["trimmed"] == 20


@pytest.mark.parametrize("why", ["MISCONF", "NOREPLICAS"])
def test_who_follows_trims_once_it_takes_writes_again(
    source: World, second_server: RedisServer, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream was given up, and with a PING that was refused the whole archive."""
    monkeypatch.setattr(outages, "_LONGEST_REST_S", 0.01)
    said: list[str] = []
    with ExitStack() as refused:
        refused.enter_context(refusing(second_server, source.client, why))  # before the first trim, not beside it
        with following(source, trim=True, on_remark=lambda _, what: said.append(what)) as run:
            until(lambda: has_come(source, 20) and any("a trim was put off" in each for each in said))
            assert source.client.xlen("s") == 20
            refused.close()
            until(lambda: source.client.xlen("s") == 0)
            source.fill("s", 5, first=21)
            until(lambda: has_come(source, 25) and source.client.xlen("s") == 0)
    assert run.result.is_good
    (report,) = run.result.reports
    assert (report.entries, report.trimmed) == (25, 25)


def test_who_follows_rests_between_the_trims_that_are_refused(
    source: World, second_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server in distress is not asked again with each look at what has come."""
    asked: list[Any] = []

    def noted(*given: Any, **more: Any) -> Any:
        try:
            return trim_source(*given, **more)
        finally:  # not before: writes are taken again below as soon as this one is known to be refused
            asked.append(more["upto"])

    monkeypatch.setattr("diskstream.archiving.stream_copy.trim_source", noted)
    monkeypatch.setattr(outages, "rest_s", lambda _times: 1000.0)
    with refusing(second_server, source.client, "NOREPLICAS"), following(source, trim=True):
        until(lambda: len(asked) == 1 and has_come(source, 20))
        source.client.config_set("min-replicas-to-write", "0")
        for first in (21, 26, 31):
            source.fill("s", 5, first=first)
            until(lambda come=first + 4: has_come(source, come))
        assert len(asked) == 1


def test_a_full_server_whose_streams_have_groups_is_trimmed_all_the_same(source: World) -> None:
    """What is pending is asked for in a transaction, which such a server does not take: all streams were given up."""
    source.client.xgroup_create("s", "g", 0)
    source.client.xreadgroup("g", "c", {"s": ">"}, count=15)
    source.client.xack("s", "g", *[f"{number}-1" for number in range(1, 11)])
    source.client.config_set("maxmemory", "1")
    report = source.archive("--trim")["s"]
    assert (report["entries"], report["trimmed"], report["groups"], report["pending"]) == (20, 10, 1, 5)
    (group,) = source.state("s").groups
    assert [bytes(row.id) for row in group.pending] == [b"%d-1" % number for number in range(11, 16)]


def test_a_full_server_is_trimmed_though_the_lease_of_one_who_was_killed_cannot_be_taken_over(source: World) -> None:
    """It was said that another archiver trims the stream, which --follow then gave up for good."""
    source.archive()
    with diskstream.open(source.directory) as store, Checkpoints(store).locked() as identity:
        source.client.set(f"{LEASE}s", f"{identity} process 77 on here 0123")
    source.client.config_set("maxmemory", "1")
    report = source.archive("--trim")["s"]
    assert (report["trimmed"], report["error"]) == (20, None)
    source.client.config_set("maxmemory", "0")
    source.fill("s", 5, first=21)
    source.client.set(f"{LEASE}s", "another-store process 77 on elsewhere 0123")
    source.client.config_set("maxmemory", "1")
    assert "another archiver, process 77 on elsewhere" in source.archive("--trim", code=1)["s"]["error"]


def test_a_server_without_a_command_that_a_script_needs_is_told_of_it(world: World, tmp_path: Path) -> None:
    """It said in which line of the script that was, and not what to do."""
    settings = tmp_path / "without.conf"
    settings.write_text('rename-command XTRIM ""\n', encoding="utf-8")
    process, port = _start_redis("redis-server", tmp_path, {"save": "", "include": str(settings)})
    try:
        with redis.Redis("127.0.0.1", port, 9) as client:
            without = World(f"redis://127.0.0.1:{port}/9", client, world.directory)
            without.fill("s", 3)
            report = without.archive("--trim", key="s", code=1)["s"]
            assert (report["entries"], report["trimmed"]) == (3, 0)
            said = " ".join([*report["findings"], report["error"] or "", report["hint"] or ""])
            assert "it does not know a command that a script of this needs" in said
            assert "rename-command" in said
            assert client.xlen("s") == 3
    finally:
        _stop(process)
