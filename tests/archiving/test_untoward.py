"""What comes in an archiver's way and passes: connections that break off, keys that come late, copies of its store."""

import json
import shutil
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import redis

import diskstream
from diskstream.archiving import ArchiveOptions, Archiver, Server, group_states, leasing, outages, trimming
from diskstream.archiving import archiver as archiving
from diskstream.archiving.entries import EntriesReader
from diskstream.archiving.restoring import _Restore
from diskstream.checkpoints import Checkpoints
from diskstream.copying import ConsumerState, GroupState
from diskstream.errors import RemoteError
from diskstream.mirroring import mirror_groups
from diskstream.store_files import store_uuid
from tests.archiving.test_archive import until
from tests.archiving.test_refused import LEASE, finding
from tests.archiving.test_restore import archived, restore
from tests.archiving.world import World

# --- leases -----------------------------------------------------------------------------------------------------------


def identity_of(directory: Path) -> str:
    """Who an archiver into a store is, to those who ask for its leases."""
    with diskstream.open(directory) as store, Checkpoints(store).locked() as identity:
        return identity


def test_the_lease_that_a_copy_of_the_store_has_is_waited_for_and_not_taken(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup that was restored elsewhere took it from the archiver that went on, and both of them trimmed."""
    monkeypatch.setattr(leasing, "_LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(leasing, "_LEASE_MS", 200)
    world.fill("s", 3)
    world.archive()
    elsewhere = f"{store_uuid(world.directory)}@{'0' * 16} process 77 on elsewhere 0123"
    world.client.set(f"{LEASE}s", elsewhere)  # and its owner renews it
    assert "another archiver, process 77 on elsewhere, trims" in finding(world, "--trim")
    assert len(world.source("s")) == 3
    world.client.set(f"{LEASE}s", elsewhere, px=100)  # the store was moved, and nobody is there any more
    assert world.archive("--trim")["s"]["trimmed"] == 3


def test_a_copied_store_is_not_taken_for_the_one_it_was_copied_from(world: World, tmp_path: Path) -> None:
    world.fill("s", 3)
    world.archive()
    shutil.copytree(world.directory, tmp_path / "copy", ignore=shutil.ignore_patterns("ctl"))
    one, again, other = map(identity_of, (world.directory, world.directory, tmp_path / "copy"))
    assert one == again
    assert one != other
    assert one.partition("@")[0] == other.partition("@")[0] == store_uuid(world.directory)


# --- connections ------------------------------------------------------------------------------------------------------


def broken(monkeypatch: pytest.MonkeyPatch, key: bytes, breaks: int, *, after: int = 0) -> list[bytes]:
    """The connection that reads a stream breaks off so often, after so many questions; the keys of which it did."""
    done: list[bytes] = []
    asked: list[bytes] = []
    real = EntriesReader._ask

    def ask(self: EntriesReader, name: bytes, *words: Any) -> None:
        real(self, name, *words)
        asked.append(name)
        if name == key and len(asked) > after and len(done) < breaks:
            done.append(name)
            self._connection._sock.close()  # shut down, it would still give what had come by then

    monkeypatch.setattr(EntriesReader, "_ask", ask)
    return done


def test_a_connection_that_breaks_off_is_made_anew(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """One break, of one of many streams, and that stream was given up for good."""
    for name in ("a", "b"):
        world.fill(name, 20)
    assert broken(monkeypatch, b"a", 2) == []
    reports = world.archive()
    assert {name: report["entries"] for name, report in reports.items()} == {"a": 20, "b": 20}
    assert "tried again" in reports["a"]["notes"][0]
    assert reports["b"]["notes"] == []


@pytest.mark.parametrize("after", [2, 3])
@pytest.mark.parametrize("words", [(), ("--trim",)])
def test_what_was_copied_before_a_connection_broke_off_is_held_against_the_source(
    world: World, monkeypatch: pytest.MonkeyPatch, after: int, words: tuple[str, ...]
) -> None:
    """It was never read back, was in no digest, and the next round told of as many entries that others had trimmed."""
    made = world.fill("a", 600)
    assert broken(monkeypatch, b"a", 1, after=after) == []
    report = world.archive(*words)["a"]
    assert (report["findings"], report["error"]) == ([], None)
    assert "tried again" in report["notes"][0]
    assert report["entries"] == report["verified_entries"] == len(made)
    assert world.copy("a") == made
    with diskstream.open(world.directory) as store:
        assert report["digest"] == str(store.stream("a").digest("-", "+"))


def test_frames_of_a_reply_that_broke_off_are_held_against_the_source(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reply of large entries is handed over in parts, of which a batch that never was whole knew nothing."""
    for number in range(1, 51):
        world.client.xadd("a", {"small": number}, f"{number}-1")
    for number in range(51, 91):
        world.client.xadd("a", {"large": b"x" * (400 << 10)}, f"{number}-1")
    seen: list[int] = []
    real = EntriesReader._take

    def take(self: EntriesReader, *given: Any) -> Any:
        frames, batch = real(self, *given)
        if frames and batch is None and not seen:
            seen.append(sum(frame.rows for frame in frames))
            self._connection._sock.close()
        return frames, batch

    monkeypatch.setattr(EntriesReader, "_take", take)
    report = world.archive()["a"]
    assert seen
    assert report["findings"] == []
    assert report["entries"] == report["verified_entries"] == len(world.copy("a")) == 90


def test_what_was_trimmed_before_a_connection_broke_off_is_counted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all steps of a trim that did not come to its end the report and the checkpoint knew nothing."""
    monkeypatch.setattr(trimming, "STEP_ENTRIES", 10)
    world.fill("a", 50)
    trims: list[str] = []
    real = Server.call

    def call(self: Server, doing: str, *words: Any) -> Any:
        if doing.startswith("trim the stream"):
            trims.append(doing)
            if len(trims) == 4:
                raise RemoteError(self.shown, "the connection failed") from redis.ConnectionError("it broke off")
        return real(self, doing, *words)

    monkeypatch.setattr(Server, "call", call)
    report = world.archive("--trim")["a"]
    assert (report["trimmed"], report["trimmed_to"], report["source_entries"]) == (50, "50-1", 0)
    assert world.client.xlen("a") == 0
    facts = json.loads(next((world.directory / "archives").glob("*.json")).read_text())
    assert (facts["trimmed_entries"], facts["trimmed_to"]) == (50, "50-1")


def test_one_that_breaks_off_each_time_is_told(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.fill("a", 20)
    done = broken(monkeypatch, b"a", 1000)
    assert "the connection failed" in finding(world, key="a")
    assert len(done) == archiving._MOST_BREAKS


def test_who_follows_tries_for_as_long_as_it_takes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outages, "_LONGEST_REST_S", 0.01)
    world.fill("a", 20)
    breaks = 3 * archiving._MOST_BREAKS
    done = broken(monkeypatch, b"a", breaks)
    stop, seen = threading.Event(), []

    def count(entries: int, _size: int) -> None:
        seen.append(entries)
        if sum(seen) == 20:
            stop.set()

    options = ArchiveOptions(follow=True, on_entries=count)
    with Server(world.url) as server, diskstream.open(world.directory) as store:
        (report,) = Archiver(server, store, [b"a"], options).run(stop).reports
    assert (len(done), report.entries, report.error) == (breaks, 20, None)


def test_one_that_breaks_off_until_who_follows_is_told_to_end_is_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the stream was copied, for days perhaps, and the exit status said that all was as it should be."""
    world.fill("a", 20)
    broken(monkeypatch, b"a", 1000)
    stop = threading.Event()
    options = ArchiveOptions(follow=True, on_remark=lambda _key, _what: stop.set())
    with Server(world.url) as server, diskstream.open(world.directory) as store:
        result = Archiver(server, store, [b"a"], options).run(stop)
    assert not result.is_good
    assert result.reports[0].findings == ["not all was copied: the connection broke off each time; see the notes"]


# --- keys -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", ["later", "lat*"])
def test_a_key_that_comes_later_is_followed(world: World, pattern: str) -> None:
    """It was given up before it was there, and what came was never copied."""
    process = world.process("--key", pattern, "--follow")
    try:
        assert process.stderr is not None
        assert "it is waited for" in process.stderr.readline()
        made = world.fill("later", 5)
        until(lambda: (world.directory / "store.json").exists() and len(world.copy("later")) == 5)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, err
    assert [json.loads(line)["entries"] for line in out.splitlines()] == [5]
    assert world.copy("later") == made


@pytest.mark.parametrize(
    ("pattern", "said"), [("later", "there is no such key"), ("lat*", "no stream has a name like this")]
)
def test_a_key_that_never_came_is_told_at_the_end(world: World, pattern: str, said: str) -> None:
    process = world.process("--key", pattern, "--follow")
    try:
        assert process.stderr is not None
        assert "it is waited for" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 1
    assert json.loads(out)["error"] == said


def test_a_key_that_is_gone_is_looked_for_in_the_right_database(world: World) -> None:
    """In another one it was "deleted, or has expired", with status 0."""
    world.fill("s", 3)
    world.archive()
    other = World(world.url.removesuffix("9") + "8", world.client, world.directory)
    assert "database 9 of this server, and this is database 8" in finding(other)
    world.client.delete("s")
    assert "the database of the source is empty: was it flushed?" in world.archive(key="s")["s"]["notes"]


# --- and the rest -----------------------------------------------------------------------------------------------------


def test_the_rate_holds_for_what_is_compared_too(world: World) -> None:
    world.fill("s", 200)
    world.archive()
    world.client.xgroup_create("s", "g", "0")  # so that nothing is trimmed
    report = world.archive("--rate", "1000", "--batch", "10", "--trim")["s"]
    assert (report["entries"], report["trimmed"]) == (0, 0)
    assert report["seconds"] >= 0.15


def test_a_comparison_ends_when_it_is_told_to(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.fill("s", 200)
    world.archive()
    world.client.xgroup_create("s", "g", "0")
    stop, asked = threading.Event(), []
    real = EntriesReader._ask

    def ask(self: EntriesReader, *words: Any) -> None:
        asked.append(words)
        stop.set()
        real(self, *words)

    monkeypatch.setattr(EntriesReader, "_ask", ask)
    with Server(world.url) as server, diskstream.open(world.directory) as store:
        result = Archiver(server, store, [b"s"], ArchiveOptions(trim=True, rate=1.0)).run(stop)
    assert result.stopped
    assert len(asked) == 1
    assert result.is_good


def test_a_consumer_without_a_name_keeps_what_it_has(world: World) -> None:
    """What it had came over as given back: nobody's."""
    world.fill("s", 4)
    world.client.xgroup_create("s", "g", "0")
    world.client.xreadgroup("g", "", {"s": ">"}, count=2)
    world.client.xreadgroup("g", "ann", {"s": ">"}, count=1)
    world.archive()
    for moved in ("1-1", "3-1"):
        (group,) = world.state("s").groups
        owners = {str(row.id): group.consumers[row.consumer].name for row in group.pending if row.consumer >= 0}
        rows = world.client.xpending_range("s", "g", "-", "+", 9)
        assert owners == {row["message_id"].decode(): row["consumer"] for row in rows}
        assert b"" in owners.values()
        world.client.xclaim("s", "g", "ann" if moved == "1-1" else "", 0, [moved])
        world.archive()


def test_a_consumer_without_a_name_is_told_from_nobody_when_groups_are_mirrored(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "store") as store:
        stream = store.stream("s")
        stream.add_many([{"n": 1}] * 3, ids=["1-0", "2-0", "3-0"])
        group = stream.group("g", start="0")
        group.consumer(b"").read(count=2)
        wanted = diskstream.copying.state_of(stream).groups
        group.nack("1-0")
        assert mirror_groups(stream, wanted)
        assert [row.consumer for row in group.pending_range()] == [b"", b""]
        assert not mirror_groups(stream, wanted)


def test_what_nobody_has_is_not_that_of_a_consumer_without_a_name(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that knows XNACK names that consumer, with an age of -1: it is told apart though there is one."""
    world.fill("s", 2)
    world.client.xgroup_create("s", "g", "0")
    world.client.execute_command("XGROUP", "CREATECONSUMER", "s", "g", "")
    rows = [[b"1-1", b"", -1, 3], [b"2-1", b"", 5, 1]]
    monkeypatch.setattr(group_states, "_page", lambda *_: (rows, 1_000_000))
    world.archive()
    (group,) = world.state("s").groups
    owners = [None if row.consumer < 0 else group.consumers[row.consumer].name for row in group.pending]
    assert owners == [None, b""]


@pytest.mark.parametrize("active_ms", [99_000, None], ids=["it had been before", "it never was"])
def test_that_a_consumer_was_given_something_is_mirrored_though_it_was_seen_just_before(
    tmp_path: Path, active_ms: int | None
) -> None:
    def group_of(active_ms: int | None) -> GroupState:
        return GroupState(b"g", diskstream.EntryID(0, 0), 0, [ConsumerState(b"ann", 200_000, active_ms)], [])

    with diskstream.open(tmp_path / "store") as store:
        stream = store.stream("s")
        stream.add({"n": 1})
        mirror_groups(stream, [group_of(active_ms)])
        assert mirror_groups(stream, [group_of(199_500)])
        (consumer,) = diskstream.copying.state_of(stream).groups[0].consumers
        assert (consumer.seen_ms, consumer.active_ms) == (200_000, 199_500)
        assert not mirror_groups(stream, [group_of(199_500)])
        assert not mirror_groups(stream, [group_of(None)])  # it was made anew, and no round could say so in the copy


def test_a_list_that_is_added_to_meanwhile_is_not_replaced(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only of streams was it looked at what they hold."""
    archived(world)
    world.client.delete("s")
    world.client.rpush("s", "one")

    add = _Restore._add

    def pushed(self: _Restore, entries: list[Any]) -> None:
        add(self, entries)
        world.client.rpush("s", "more")

    with monkeypatch.context() as patch:
        patch.setattr(_Restore, "_add", pushed)
        assert "so it was not replaced" in restore(world, "--replace", "--force", code=1)["said"]
    assert world.client.lrange("s", 0, 0) == [b"one"]
    restore(world, "--replace", "--force")
    assert world.client.type("s") == b"stream"
