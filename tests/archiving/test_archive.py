"""`diskstream archive`: what is in the copy afterwards, and at the source."""

import json
import signal
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream.archiving import ArchiveOptions, Archiver, Server, group_states, trimming
from diskstream.checkpoints import Checkpoints
from diskstream.cli.archive import stopped_by_signals
from diskstream.engine.log import StreamLog
from diskstream.stream import Stream
from tests.archiving.world import World, pairs, raw


def test_the_copy_has_the_entries_and_the_counters_of_the_source(world: World) -> None:
    orders = world.fill("orders:1", 1000)
    world.fill("orders:2", 10)
    world.client.xdel("orders:1", "1000-1")
    del orders["1000-1"]
    reports = world.archive(key="orders:*")
    assert world.copy("orders:1") == orders
    assert world.copy("orders:2") == world.source("orders:2")
    state = world.state("orders:1")
    assert (str(state.last_id), state.entries_added, str(state.max_deleted_id)) == ("1000-1", 1000, "1000-1")
    assert reports["orders:1"]["entries"] == reports["orders:1"]["verified_entries"] == 999
    assert (reports["orders:1"]["first_id"], reports["orders:1"]["last_id"]) == ("1-1", "999-1")
    assert world.source("orders:1") == orders  # nothing was trimmed


def test_a_second_run_goes_on_behind_the_first_and_the_digest_is_that_of_the_copy(world: World) -> None:
    first = world.fill("s", 500)
    world.archive()
    second = world.fill("s", 500, first=501)
    reports = world.archive()
    assert reports["s"]["entries"] == 500
    assert world.copy("s") == {**first, **second}
    with diskstream.open(world.directory) as store:
        assert str(store.stream("s").digest()) == reports["s"]["digest"]
    assert world.archive()["s"]["entries"] == 0


def test_entries_of_all_shapes_come_over(world: World) -> None:
    world.client.xadd("s", {b"": b""}, "1-1")
    world.client.execute_command("XADD", "s", "1-2", "a", "1", "a", "2", b"\x00\xff\r\n", b"*2\r\n")
    world.client.xadd("s", {b"large": b"x" * 3_000_000}, "1-3")
    world.client.xadd("s", {str(number): number for number in range(2000)}, "18446744073709551615-18446744073709551614")
    world.client.xadd("s", {b"last": b"possible"}, "18446744073709551615-18446744073709551615")
    world.archive()
    with diskstream.open(world.directory, read_only=True) as store:
        found = {str(entry.id): entry.pairs for entry in store.stream("s").range()}
    reply = raw(world.client, "XRANGE", "s", "-", "+")
    assert found == {entry_id.decode(): pairs(words) for entry_id, words in reply}
    assert world.archive()["s"]["entries"] == 0


def test_groups_with_consumers_and_pending_entries_are_carried_and_follow_the_source(world: World) -> None:
    world.fill("s", 20)
    client = world.client
    client.xgroup_create("s", "billing", "0")
    client.xgroup_create("s", "mail", "5-1", entries_read=5)
    client.xreadgroup("billing", "ann", {"s": ">"}, count=6)
    client.xreadgroup("billing", "bob", {"s": ">"}, count=2)
    client.xack("s", "billing", "1-1", "7-1")
    client.xclaim("s", "billing", "bob", 0, ["2-1"], retrycount=7)
    world.archive()
    billing, mail = world.state("s").groups
    assert (mail.name, str(mail.last_delivered_id), mail.entries_read, mail.pending) == (b"mail", "5-1", 5, [])
    assert str(billing.last_delivered_id) == "8-1"

    def pending(group: str) -> list[tuple[str, bytes, int]]:
        state = next(each for each in world.state("s").groups if each.name == group.encode())
        return [(str(row.id), state.consumers[row.consumer].name, row.deliveries) for row in state.pending]

    def theirs(group: str) -> list[tuple[str, bytes, int]]:
        rows = client.xpending_range("s", group, "-", "+", 100)
        return [(row["message_id"].decode(), row["consumer"], row["times_delivered"]) for row in rows]

    assert pending("billing") == theirs("billing") != []
    delivered = {str(row.id): row.delivered_ms for row in billing.pending}
    ages = {
        row["message_id"].decode(): row["time_since_delivered"]
        for row in client.xpending_range("s", "billing", "-", "+", 9)
    }
    seconds, micros = client.time()
    assert all(0 <= seconds * 1000 + micros // 1000 - delivered[each] - ages[each] < 60_000 for each in delivered)

    client.xack("s", "billing", "2-1")
    client.xclaim("s", "billing", "cyd", 0, ["3-1"])
    client.xgroup_delconsumer("s", "billing", "bob")
    client.xgroup_destroy("s", "mail")
    client.xgroup_create("s", "audit", "$")
    world.archive()
    assert [group.name for group in world.state("s").groups] == [b"audit", b"billing"]
    assert pending("billing") == theirs("billing") != []
    names = [consumer.name for consumer in world.state("s").groups[1].consumers]
    assert sorted(names) == sorted(each["name"] for each in client.xinfo_consumers("s", "billing"))


def test_trim_takes_what_was_read_back_and_no_group_needs(world: World) -> None:
    made = world.fill("free", 300)
    world.fill("held", 300)
    world.client.xgroup_create("held", "g", "0")
    world.client.xreadgroup("g", "c", {"held": ">"}, count=200)
    world.client.xack("held", "g", *(f"{number}-1" for number in range(1, 101)))
    reports = world.archive("--trim")
    assert world.source("free") == {}
    assert world.copy("free") == made
    assert list(world.source("held")) == [f"{number}-1" for number in range(101, 301)]
    assert (reports["free"]["trimmed"], reports["held"]["trimmed"]) == (300, 100)
    assert reports["held"]["held_back"]
    world.client.xack("held", "g", *(f"{number}-1" for number in range(101, 201)))
    assert world.archive("--trim")["held"]["trimmed"] == 100  # though there is nothing new to copy
    assert world.archive("--trim", "--trim-unacknowledged", "--force")["held"]["trimmed"] == 100
    assert world.source("held") == {}
    assert len(world.copy("held")) == 300
    assert world.client.keys("diskstream:archiver:*") == []


def test_trimming_what_is_not_acknowledged_is_asked_for(world: World) -> None:
    world.fill("s", 3)
    words = ("archive", "--from", world.url, "--key", "s", "--to", str(world.directory))
    assert "nothing was done" in world.run(*words, "--trim", "--trim-unacknowledged", given="n\n", code=1).stderr
    world.run(*words, "--trim-unacknowledged", code=2)
    assert len(world.source("s")) == 3
    assert not world.directory.exists()


def test_an_old_server_without_minid_is_trimmed_by_what_was_verified(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diskstream.archiving.trimming._MINID_SINCE", (99,))
    made = world.fill("s", 2500)
    world.client.xgroup_create("s", "g", "2400-1")
    assert world.archive("--trim")["s"]["trimmed"] == 2400
    assert list(world.source("s")) == [f"{number}-1" for number in range(2401, 2501)]
    assert world.copy("s") == made


def test_each_remark_is_made_once_and_a_dry_run_says_what_is_not_asked(world: World) -> None:
    """What is held back was said twice, and a plan said that groups would be asked where they are not."""
    words = ["archive", "--from", world.url, "--to", str(world.directory), "--key"]
    for more in ([], ["--dry-run"]):
        assert "no stream" in world.run(*words, "s*", *more, code=1).output  # and not: all is well
    world.fill("s", 3)
    world.client.xgroup_create("s", "g", "0")
    assert world.run(*words, "s", "--trim").stderr.count("not all was trimmed") == 1
    assert "acknowledged" in world.run(*words, "s", "--trim", "--dry-run").stdout
    assert "acknowledged" not in world.run(*words, "s", "--trim", "--trim-unacknowledged", "--dry-run").stdout


def test_dry_run_says_what_would_be_done_and_does_nothing(world: World) -> None:
    world.fill("s", 30)
    world.client.set("other", "text")
    result = world.run(
        "archive", "--from", world.url, "--key", "*", "--to", str(world.directory), "--dry-run", "--trim"
    )
    assert result.stdout.startswith("s: would copy 30 entries behind 0-0, up to 30-1")
    assert "would trim up to 30-1" in result.stdout
    assert not world.directory.exists()
    assert len(world.source("s")) == 30
    world.archive()
    world.fill("s", 7, first=31)
    result = world.run(
        "archive", "--from", world.url, "--key", "s", "--to", str(world.directory), "--dry-run", "--json"
    )
    assert json.loads(result.stdout)["entries"] == 7


def test_an_empty_stream_with_groups_is_archived_too(world: World) -> None:
    world.client.xgroup_create("s", "g", "0", mkstream=True)
    world.fill("emptied", 5)
    world.client.xtrim("emptied", maxlen=0)
    reports = world.archive()
    assert [group.name for group in world.state("s").groups] == [b"g"]
    state = world.state("emptied")
    assert (str(state.last_id), state.entries_added) == ("5-1", 5)
    assert "5 entries were gone from the source before" in reports["emptied"]["notes"][0]
    world.fill("s", 3)
    assert world.archive()["s"]["entries"] == 3


def test_keys_of_other_types_are_passed_over_unless_they_are_named(world: World) -> None:
    world.fill("s", 3)
    world.client.set("text", "x")
    words = ("archive", "--from", world.url, "--to", str(world.directory))
    assert "text: passed over, it is a string" in world.run(*words, "--key", "*").stderr
    assert "the key is a string, not a stream" in world.run(*words, "--key", "text", code=1).stderr
    assert "there is no such key" in world.run(*words, "--key", "nowhere", code=1).stderr


def test_a_deleted_source_leaves_the_copy_and_expiry_is_noted(world: World) -> None:
    made = world.fill("s", 3)
    world.client.expire("s", 1000)
    assert 0 < world.archive()["s"]["expires_ms"] <= 1_000_000
    world.client.delete("s")
    report = world.archive(key="s")["s"]
    assert report["gone"]
    assert report["error"] is None
    assert world.copy("s") == made


def test_follow_copies_what_comes_trims_it_and_ends_on_a_signal(world: World) -> None:
    world.fill("s:1", 10)
    process = world.process("--key", "s:*", "--follow", "--trim")
    try:
        for turn in range(1, 4):
            world.fill(f"s:{turn}", 200, first=1000 * turn)
            until(lambda turn=turn: world.client.xlen(f"s:{turn}") == 0 and world.client.exists(f"s:{turn}"))
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, err
    reports = {report["stream"]: report for report in map(json.loads, out.splitlines())}
    assert {name: report["entries"] for name, report in reports.items()} == {"s:1": 210, "s:2": 200, "s:3": 200}
    assert len(world.copy("s:2")) == 200


def until(seen: Any, limit_s: float = 30.0) -> None:
    """Asks until it is so; the waiting is done by whom is asked."""
    deadline = threading.Event()
    timer = threading.Timer(limit_s, deadline.set)
    timer.start()
    try:
        while not seen():
            assert not deadline.wait(0.01), "it did not happen"
    finally:
        timer.cancel()


def test_a_signal_ends_a_single_run_early_and_the_next_one_finishes(world: World) -> None:
    made = world.fill("s", 2000)
    stop = threading.Event()
    options = ArchiveOptions(batch=64, on_entries=lambda _entries, _size: stop.set())
    with Server(world.url) as server, diskstream.open(world.directory) as store:
        result = Archiver(server, store, [b"s"], options).run(stop)
    assert result.stopped
    assert 0 < len(world.copy("s")) < 2000
    assert world.archive()["s"]["verified_entries"] == 2000
    assert world.copy("s") == made


def test_a_signal_sets_the_event_that_ends_a_run() -> None:
    with stopped_by_signals() as stop:
        signal.raise_signal(signal.SIGTERM)
        assert stop.is_set()


def test_memory_is_bounded_by_frames_though_a_reply_is_large(world: World) -> None:
    """Entries become large all of a sudden: the batch that was asked for has a hundred times what was expected."""
    for number in range(1, 200):
        world.client.xadd("s", {"n": number}, f"{number}-1")
    for number in range(200, 240):
        world.client.xadd("s", {"n": b"x" * 1_000_000}, f"{number}-1")
    report = world.archive()["s"]
    assert report["entries"] == 239
    assert report["size_bytes"] > 40_000_000
    assert len(world.copy("s")) == 239


def test_the_rate_is_kept(world: World) -> None:
    world.fill("s", 60)
    assert world.archive("--rate", "600", "--batch", "10")["s"]["seconds"] >= 0.05
    world.run("archive", "--from", world.url, "--key", "s", "--to", str(world.directory), "--rate", "0", code=2)


def test_the_digest_is_that_of_the_jobs_of_spark(world: World) -> None:
    pytest.importorskip("pyarrow")
    from diskstream.spark.jobs.digest import digest_of

    world.fill("s", 300, size=200)
    world.archive()
    with diskstream.open(world.directory) as store:
        stream = store.stream("s")
        assert str(stream.digest()) == str(digest_of(stream.scan(layout="fields")))
        part, rest = stream.digest("-", "100-1"), stream.digest("(100-1", "+")
        assert part + rest == stream.digest()
        assert stream.digest() - rest == part


def test_checkpoints_survive_what_is_left_of_a_killed_one(world: World) -> None:
    world.fill("s", 3)
    world.archive()
    folder: Path = world.directory / "archives"
    (folder / "x.json.0123.tmp").write_text("{")
    world.archive()
    assert sorted(path.suffix for path in folder.iterdir()) == ["", ".json"]
    with diskstream.open(world.directory) as store:
        facts = Checkpoints(store).read(b"s")
    assert facts is not None
    assert facts["verified_to"] == "3-1"


def test_passwords_are_in_no_file_and_no_message(world: World) -> None:
    world.fill("s", 3)
    client = world.client
    client.execute_command("ACL", "SETUSER", "robot", "on", ">topsecret", "~*", "+@all")
    url = world.url.replace("redis://", "redis://robot:topsecret@")
    result = world.run("archive", "--from", url, "--key", "s", "--to", str(world.directory), "--trim")
    client.execute_command("ACL", "DELUSER", "robot")
    assert "topsecret" not in result.output
    assert all(b"topsecret" not in path.read_bytes() for path in world.directory.rglob("*") if path.is_file())
    assert "robot" in next((world.directory / "archives").glob("*.json")).read_text()


@pytest.mark.parametrize("protocol", [2, 3])
def test_both_protocols_give_the_same(world: World, protocol: int) -> None:
    made = world.fill("s", 300)
    world.client.xgroup_create("s", "g", "0")
    world.client.xreadgroup("g", "c", {"s": ">"}, count=100)
    asked = World(f"{world.url}?protocol={protocol}", world.client, world.directory)
    report = asked.archive("--trim")["s"]
    assert (report["groups"], report["pending"], report["trimmed"]) == (1, 100, 0)
    assert world.copy("s") == made
    world.client.delete("s")
    asked.run("restore", "--to", asked.url, "--dir", str(world.directory))
    assert world.source("s") == made
    assert world.client.xpending("s", "g")["pending"] == 100


def test_an_entry_that_no_store_can_hold_stops_its_stream_alone(world: World) -> None:
    world.fill("large", 3)
    world.client.xadd("large", {"x": b"x" * (33 << 20)}, "4-1")
    made = world.fill("small", 3)
    reports = world.archive("--trim", code=1)
    assert "no stream can hold the entry 4-1" in reports["large"]["error"]
    assert "remove this entry at the source to go on" in reports["large"]["hint"]
    assert world.copy("small") == made
    assert world.client.xlen("large") >= 1
    world.client.xdel("large", "4-1")
    world.client.xadd("large", {"x": "y"}, "5-1")
    reports = world.archive("--trim", code=1)  # the entry that was taken out is missing from the copy
    assert "a gap: 1 entry " in reports["large"]["findings"][0]
    assert sorted(world.copy("large")) == ["1-1", "2-1", "3-1", "5-1"]


def test_a_key_with_a_name_that_no_store_can_hold_is_told(world: World) -> None:
    made = world.fill("s", 3)
    world.fill("x" * 5000, 3)
    reports = world.archive(code=1)
    assert "the name of a stream" in reports["x" * 5000]["error"]
    assert world.copy("s") == made


def test_a_group_or_key_that_goes_while_it_is_looked_at_is_no_failure(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.fill("s", 3)
    world.client.xgroup_create("s", "g", "0")
    world.client.xgroup_create("s", "h", "0")
    real = group_states._group

    def destroy(server: Any, key: bytes, facts: dict[bytes, Any]) -> Any:
        world.client.xgroup_destroy("s", "h")
        return real(server, key, facts)

    monkeypatch.setattr(group_states, "_group", destroy)
    world.archive()
    assert [group.name for group in world.state("s").groups] == [b"g"]

    def delete(server: Any, key: bytes, facts: dict[bytes, Any]) -> Any:
        world.client.delete("s")
        return real(server, key, facts)

    monkeypatch.setattr(group_states, "_group", delete)
    assert world.archive("--trim")["s"]["gone"]
    assert len(world.copy("s")) == 3


def test_copied_then_durable_then_read_back_then_noted_then_trimmed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What no killed process could tell, since only a cut of the power takes what was not flushed."""
    world.fill("s", 100)
    done: list[str] = []

    def noted(owner: Any, name: str, what: str) -> None:
        real = getattr(owner, name)

        def run(*words: Any, **named: Any) -> Any:
            result = real(*words, **named)
            if name != "call" or trimming._TRIM in words:
                done.append(what)
            return result

        monkeypatch.setattr(owner, name, run)

    noted(Stream, "add_rows", "copied")
    noted(StreamLog, "flush", "durable")
    noted(Stream, "digest", "read back")
    noted(Checkpoints, "write", "noted")
    noted(Server, "call", "trimmed")
    noted(Stream, "set_id", "last ID set")
    world.archive("--trim", "--batch", "100", "--jobs", "1")
    steps = ["copied", "durable", "read back", "noted", "durable", "trimmed", "noted"]  # it is made sure of once more
    assert done[0] == "noted"  # before the first entry
    once = [step for step, before in pairwise([*done[1:], ""]) if step != before]
    assert once[: len(steps)] == steps
    assert once[len(steps) :][:3] == ["last ID set", "durable", "noted"]
