"""A primary that becomes a replica while it is archived, and an address that leads to the new one a moment later."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

import diskstream
from diskstream.archiving import ArchiveOptions, Archiver, Server, outages
from diskstream.archiving.entries import EntriesReader
from diskstream.archiving.stream_copy import StreamCopy
from diskstream.errors import RemoteError
from diskstream.redis_link import is_demoted, is_full, is_passing, takes_no_writes, telling
from tests.archiving.gateway import Gateway
from tests.archiving.test_archive import until
from tests.archiving.test_away import following, has_come
from tests.archiving.world import World
from tests.conftest import _start_redis, _stop


class Pair:
    """Two servers, of which the second follows the first, and an address that leads to the first."""

    def __init__(self, ports: list[int], directory: Path) -> None:
        self.first, self.second = (redis.Redis("127.0.0.1", port, 9) for port in ports)
        self.ports = ports
        self.gateway = Gateway("127.0.0.1", ports[0])
        self.world = World(f"redis://127.0.0.1:{self.gateway.port}/9", self.first, directory)
        self.second.replicaof("127.0.0.1", str(ports[0]))
        self.catch_up()

    def catch_up(self) -> None:
        """Until the second has all that the first has."""
        until(lambda: self.second.info("replication")["master_link_status"] == "up")
        until(lambda: self.first.wait(1, 100) == 1)

    def turn_round(self) -> None:
        """The second is the primary now, and the first, of which somebody waits for entries, its replica."""
        until(lambda: self.first.info("clients")["blocked_clients"] == 1)
        self.second.replicaof("NO", "ONE")
        self.first.replicaof("127.0.0.1", str(self.ports[1]))
        self.world.client = self.second

    def lead_on(self) -> None:
        """The address leads to the second, for whoever connects from now on."""
        self.gateway.lead_to("127.0.0.1", self.ports[1])


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    monkeypatch.setattr(outages, "_LONGEST_REST_S", 0.01)
    options = {"appendonly": "no", "save": "", "repl-diskless-sync-delay": "0"}
    started = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        started.append(_start_redis("redis-server", tmp_path / name, options))
    made = Pair([port for _, port in started], tmp_path / "store")
    yield made
    made.gateway.close()
    for process, _ in started:
        _stop(process)


def test_who_follows_and_trims_goes_on_at_the_new_primary(pair: Pair) -> None:
    """The stream was given up for good; with a connection left to the first, it would have been once more."""
    made = pair.world.fill("s", 20)
    with following(pair.world, trim=True) as run:
        until(lambda: has_come(pair.world, 20) and not pair.world.source("s"))
        pair.catch_up()
        pair.turn_round()
        made |= pair.world.fill("s", 20, first=21)
        until(lambda: any("it is a replica" in each for each in run.said))
        pair.lead_on()
        until(lambda: has_come(pair.world, 40) and not pair.world.source("s"))
        assert pair.second.exists("diskstream:archiver:s")
    assert pair.world.copy("s") == made
    (report,) = run.result.reports
    assert (report.error, report.findings, report.trimmed) == (None, [], 40)
    assert run.said[-1] == "the source answers again: it goes on where it was"


def test_who_follows_is_not_ended_as_its_waiting_is(pair: Pair) -> None:
    """UNBLOCKED was no error that passes: all of an archive that only copies came to an end."""
    made = pair.world.fill("s", 20)
    with following(pair.world) as run:
        until(lambda: has_come(pair.world, 20))
        pair.catch_up()
        pair.lead_on()
        pair.turn_round()
        until(lambda: any("answers again" in each for each in run.said))
        pair.first.replicaof("NO", "ONE")  # on its own from here on: what comes does not come there
        made |= pair.world.fill("s", 20, first=21)
        until(lambda: has_come(pair.world, 40))
    assert pair.world.copy("s") == made
    assert run.result.is_good


def test_a_new_primary_that_lost_the_newest_entries_is_neither_trimmed_nor_mixed_in(pair: Pair) -> None:
    """What the copy has of them is the only one there is."""
    made = pair.world.fill("s", 20)
    with following(pair.world, trim=True) as run:
        until(lambda: has_come(pair.world, 20) and not pair.world.source("s"))
        pair.catch_up()
        pair.second.replicaof("NO", "ONE")  # and hears of nothing any more
        made |= pair.world.fill("s", 5, first=21)
        until(lambda: has_come(pair.world, 25))
        pair.second.xadd("s", {"other": "entry"}, "23-1")
        pair.lead_on()
        pair.turn_round()
        until(lambda: not run.result or bool(run.said))
        until(lambda: any("answers again" in each for each in run.said))
    (report,) = run.result.reports
    assert "is not the one that was copied" in report.error
    assert pair.world.copy("s") == made
    assert list(pair.world.source("s")) == ["23-1"]


def refused(text: str) -> RemoteError:
    """What becomes of a refusal that redis-py does not know the kind of."""
    with pytest.raises(RemoteError) as caught, telling("redis://h:1", "trim"):
        raise redis.ResponseError(text)
    return caught.value


def test_a_write_that_a_replica_refuses_is_of_all_streams(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of the one alone that it was for: tried again by the same connection, it would be refused again."""
    world.fill("s", 20)
    whole, refusals = StreamCopy.round, [refused("READONLY You can't write against a read only replica.")]

    def refused_once(*given: Any, **more: Any) -> int:
        if refusals:
            raise refusals.pop()
        return whole(*given, **more)

    monkeypatch.setattr(StreamCopy, "round", refused_once)
    with following(world, trim=True) as run:
        until(lambda: has_come(world, 20))
    assert "it is a replica, which takes no writes" in run.said[0]
    assert run.result.reports[0].notes == []


def test_what_a_server_before_7_refuses_within_a_script_is_known() -> None:
    """Its words stand behind where in the script it was, and are no kind of their own: streams were given up."""
    where = "Error running script (call to f_0123): @user_script:46: @user_script: 46: -"
    replica = refused(where + "READONLY You can't write against a read only replica.")
    assert is_demoted(replica)
    assert is_passing(replica)
    assert (replica.hint, is_full(replica)) == ("name the primary", False)
    full = refused(where + "OOM command not allowed when used memory > 'maxmemory'.")
    assert is_full(full)
    assert not is_passing(full)
    assert "it is out of memory" in str(full)
    assert takes_no_writes(refused(where + "MISCONF Redis is configured to save RDB snapshots"))
    assert takes_no_writes(refused(where + "NOREPLICAS Not enough good replicas to write."))
    assert not is_passing(refused("wrong number of words -READONLY "))


def test_a_command_that_is_renamed_or_forbidden_is_told_with_what_to_do() -> None:
    """To name a Redis was all that was said of one without EVAL; and nothing where EXEC is forbidden."""
    assert "(rename-command)" in (refused("unknown command 'EVAL'").hint or "")
    said = "Command # 6 (EXEC) of pipeline caused error: Transaction discarded because of: NOPERM this user may not"
    assert refused(said).hint == refused("The user executing the script can't run this command").hint
    assert "its ACL forbids this" in str(refused(said))


def test_what_a_replica_that_lags_does_not_have_yet_is_not_taken_for_removed(pair: Pair) -> None:
    """An address that spreads connections over replicas: told of by one, and read from another, it was never copied."""
    made = pair.world.fill("s", 10)
    pair.catch_up()
    pair.second.replicaof("NO", "ONE")  # and hears of nothing any more
    made |= pair.world.fill("s", 10, first=11)
    remarks: list[str] = []

    def lead_back(_: bytes, what: str) -> None:
        remarks.append(what)
        pair.gateway.lead_to("127.0.0.1", pair.ports[0])

    with Server(pair.world.url) as server, diskstream.open(pair.world.directory) as store:
        pair.lead_on()
        options = ArchiveOptions(on_remark=lead_back)
        (report,) = Archiver(server, store, [b"s"], options).run().reports
    assert "it leads to a server that has come to 10-1, and another one, at the same address, to 20-1" in remarks[0]
    assert (report.error, report.findings, report.entries) == (None, [], 20)
    assert pair.world.copy("s") == made


@pytest.mark.parametrize("words", [("XDEL", "s", "20-1"), ("DEL", "s")])
def test_what_is_removed_before_it_is_read_is_a_gap_still(
    world: World, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    world.fill("s", 20)
    read = EntriesReader.read

    def too_late(*given: Any, **more: Any) -> Any:
        world.client.execute_command(*words)
        return read(*given, **more)

    monkeypatch.setattr(EntriesReader, "read", too_late)
    report = world.archive(code=1)["s"]
    assert report["error"] is None
    assert report["findings"][0].startswith(f"a gap: {1 if words[0] == 'XDEL' else 20} entr")


def test_a_replica_that_is_cut_off_is_told(pair: Pair) -> None:
    """All was said to be copied, for which the primary might be trimmed by hand, of a state of days before."""
    pair.world.fill("s", 10)
    pair.catch_up()
    pair.lead_on()
    assert pair.world.archive()["s"]["findings"] == []
    pair.second.replicaof("127.0.0.1", "1")
    until(lambda: pair.second.info("replication")["master_link_status"] == "down")
    pair.world.fill("s", 10, first=11)
    assert "a replica that was cut off from its primary" in pair.world.archive(code=1)["s"]["findings"][0]


def test_of_one_that_was_reached_before_nobody_is_asked_whether_it_speaks_tls(world: World) -> None:
    with Server(world.url) as server:
        server.url = "rediss://127.0.0.1:1/9"  # where nobody is
        with pytest.raises(RemoteError, match="cannot connect") as caught:
            server.look_again()
        assert caught.value.hint is None
        assert server.is_empty()  # what was connected is there still
