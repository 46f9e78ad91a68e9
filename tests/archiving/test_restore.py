"""`diskstream restore --to redis://...`: a stream, or a range of it, back in a Redis."""

import json
import signal
import subprocess
import sys
from typing import Any

import pytest
import redis

import diskstream
from diskstream.archiving import Server, plan_restore, restore_stream, restoring
from diskstream.archiving.restoring import RESTORING_PREFIX, _Restore
from diskstream.copying import temporary_name
from diskstream.errors import ArgumentError
from tests.archiving.world import ROOT, World

PREFIX = RESTORING_PREFIX.decode()


def restore(world: World, *words: str, code: int = 0, given: str | None = None) -> dict[str, Any]:
    """The report of the one stream, or what was said."""
    command = ("restore", "--to", world.url, "--dir", str(world.directory), "--json", *words)
    result = world.run(*command, code=code, given=given)
    return json.loads(result.stdout.splitlines()[-1]) if code == 0 else {"said": " ".join(result.stderr.split())}


def archived(world: World, count: int = 50) -> None:
    """A stream with groups, in the store and not in the Redis any more."""
    world.fill("s", count)
    client = world.client
    client.xdel("s", "3-1", f"{count}-1")
    client.xgroup_create("s", "g", "0")
    client.xgroup_create("s", "idle", "7-1", entries_read=6)
    client.xreadgroup("g", "ann", {"s": ">"}, count=20)
    client.xreadgroup("g", "bob", {"s": ">"}, count=5)
    client.xclaim("s", "g", "bob", 0, ["2-1"], retrycount=9, time=1_700_000_000_000)
    client.xack("s", "g", "5-1")
    world.archive()


def facts(world: World, key: str) -> dict[str, Any]:
    """All that a stream of the Redis has, but what time has to do with."""
    client = world.client
    groups = client.xinfo_groups(key)
    pending = {
        group["name"]: [
            (row["message_id"], row["consumer"], row["times_delivered"])
            for row in client.xpending_range(key, group["name"], "-", "+", 1000)
        ]
        for group in groups
    }
    info = client.xinfo_stream(key)
    names = ("length", "last-generated-id", "max-deleted-entry-id", "entries-added", "first-entry", "last-entry")
    consumers = [sorted(each["name"] for each in client.xinfo_consumers(key, group["name"])) for group in groups]
    told = {name: info[name] for name in names}
    return {"info": told, "groups": groups, "pending": pending, "consumers": consumers, "entries": world.source(key)}


def test_a_whole_stream_comes_back_as_it_was(world: World) -> None:
    archived(world)
    before = facts(world, "s")
    world.client.delete("s")
    report = restore(world)
    assert facts(world, "s") == before
    assert (report["entries"], report["groups"], report["pending"]) == (48, 2, 24)
    row = world.client.xpending_range("s", "g", "2-1", "2-1", 1)[0]
    seconds, _ = world.client.time()
    assert abs(seconds * 1000 - row["time_since_delivered"] - 1_700_000_000_000) < 60_000
    assert world.client.keys("diskstream:*") == []


def test_a_range_comes_back_without_groups(world: World) -> None:
    archived(world)
    world.client.delete("s")
    report = restore(world, "--stream", "s", "--start", "10", "--end", "(20-1", "--key", "part")
    assert list(world.source("part")) == [f"{number}-1" for number in range(10, 20)]
    assert (report["first_id"], report["last_id"], report["groups"]) == ("10-1", "19-1", 0)
    assert world.client.xinfo_groups("part") == []
    assert restore(world, "--stream", "s", "--start", "900")["notes"] != []
    assert not world.client.exists("s")


def test_what_is_there_is_left_refused_or_replaced(world: World) -> None:
    archived(world)
    assert restore(world)["already_there"]
    world.client.xadd("s", {"new": "entry"})
    said = restore(world, code=1)["said"]
    assert "the key 's' is there, and holds something else" in said
    assert "--replace" in said
    assert "nothing was done" in restore(world, "--replace", given="n\n", code=1)["said"]
    assert world.client.xlen("s") == 49
    restore(world, "--replace", "--force")
    assert world.client.xlen("s") == 48
    world.client.set("text", "x")
    said = restore(world, "--stream", "s", "--key", "text", code=1)["said"]
    assert "holds something else, a string" in said


def test_it_goes_on_behind_what_an_earlier_run_left_if_that_is_the_same(world: World) -> None:
    made = world.fill("s", 2500)
    world.archive()
    world.client.rename("s", f"{PREFIX}s")
    world.client.execute_command("XTRIM", f"{PREFIX}s", "MAXLEN", 0)
    world.client.delete(f"{PREFIX}s")
    world.fill(f"{PREFIX}s", 1000)
    report = restore(world)
    assert (report["resumed"], report["entries"]) == (1000, 1500)
    assert world.source("s") == made
    world.client.delete("s")
    world.fill(f"{PREFIX}s", 1000, size=7)  # not what the store has
    report = restore(world)
    assert (report["resumed"], report["entries"]) == (0, 2500)
    assert "begun anew" in report["notes"][0]
    assert world.source("s") == made


def test_an_empty_stream_with_a_group_comes_back(world: World) -> None:
    world.client.xgroup_create("s", "g", "0", mkstream=True)
    world.archive()
    world.client.delete("s")
    restore(world)
    assert [group["name"] for group in world.client.xinfo_groups("s")] == [b"g"]
    assert world.client.xlen("s") == 0


def test_pending_entries_that_are_gone_and_those_that_nobody_has_are_told(world: World) -> None:
    with diskstream.open(world.directory) as store:
        stream = store.stream("s")
        for number in range(1, 5):
            stream.add({"n": number}, id=f"{number}-1")
        group = stream.group("g", start="0")
        group.consumer("ann").read(count=4)
        group.nack("2-1")
        stream.delete("1-1")
    report = restore(world)
    assert any("1 pending entry of the group 'g' is not in the stream any more" in each for each in report["notes"])
    assert any("given-back" in each for each in report["notes"])
    rows = world.client.xpending_range("s", "g", "-", "+", 10)
    assert [(row["message_id"], row["consumer"]) for row in rows] == [
        (b"2-1", b"given-back"),
        (b"3-1", b"ann"),
        (b"4-1", b"ann"),
    ]


def test_a_killed_restore_shows_nothing_and_the_next_one_finishes(world: World) -> None:
    world.fill("s", 30_000)
    world.client.xgroup_create("s", "g", "0")
    world.client.xreadgroup("g", "c", {"s": ">"}, count=3000)
    world.archive()
    before = facts(world, "s")
    world.client.delete("s")
    for wanted in (1000, 15_000, 30_000):
        command = [sys.executable, "-c", "from diskstream.cli import main; main()", "restore", "--to", world.url]
        process = subprocess.Popen([*command, "--dir", str(world.directory)], cwd=ROOT, stdout=subprocess.DEVNULL)
        while process.poll() is None and world.client.xlen(f"{PREFIX}s") < wanted and not world.client.exists("s"):
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not world.client.exists("s") or facts(world, "s") == before
    restore(world)
    assert facts(world, "s") == before
    assert not world.client.exists(f"{PREFIX}s")


def test_somebody_elses_entries_in_between_are_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.fill("s", 3000)
    world.archive()
    world.client.delete("s")
    real = _Restore._add
    turns = iter(range(10))

    def add(self: _Restore, entries: list[Any]) -> None:
        real(self, entries)
        if next(turns) == 0:
            world.client.xadd(f"{PREFIX}s", {"foreign": "entry"}, "1500-1")

    monkeypatch.setattr(_Restore, "_add", add)
    assert "somebody else adds" in restore(world, code=1)["said"]
    assert not world.client.exists("s")


def test_dry_run_and_misuse(world: World) -> None:
    archived(world)
    world.client.delete("s")
    assert restore(world, "--dry-run") == {
        "stream": "s",
        "key": "s",
        "entries": 48,
        "key_is": "none",
        "would": "restore",
        "key_entries": None,
        "key_last_id": None,
    }
    assert not world.client.exists("s")
    world.run("restore", "--to", world.url, "--dir", str(world.directory), "--key", "x", code=2)
    assert "there is no stream" in restore(world, "--stream", "nowhere", code=1)["said"]
    with diskstream.open(world.directory, read_only=True) as store:
        server = Server(world.url)
        with pytest.raises(diskstream.NoSuchStreamError):
            restore_stream(store.stream("nowhere"), server)
        server.close()


def test_an_empty_name_is_no_name(world: World) -> None:
    """Of a variable that was not set: with --replace the stream's own key went, which nobody had named."""
    archived(world)
    world.client.xadd("s", {"new": "entry"})
    words = ("--stream", "s", "--replace", "--force")
    assert "must not be empty" in restore(world, *words, "--key", "", code=2)["said"]
    assert "must not be empty" in restore(world, *words, "--as", "", "--dry-run", code=2)["said"]
    with diskstream.open(world.directory, read_only=True) as store, Server(world.url) as server:
        for act in (plan_restore, restore_stream):
            with pytest.raises(ArgumentError, match="must not be empty"):
                act(store.stream("s"), server, key=b"", replace=True)
    assert world.client.xlen("s") == 49


def test_a_key_that_is_taken_keeps_no_other_stream_from_coming_back(world: World) -> None:
    for name in ("a", "b", "c", "d"):
        world.fill(name, 3)
    world.archive()
    world.client.delete("a", "c", "d")
    world.client.set("c", "a text")
    world.client.xadd("d", {"another": "one"})
    words = ("restore", "--to", world.url, "--dir", str(world.directory), "--json")
    planned = world.run(*words, "--dry-run", code=1)
    would = {plan["key"]: plan["would"] for plan in map(json.loads, planned.stdout.splitlines())}
    assert would == {"a": "restore", "b": "leave", "c": "refused", "d": "refused"}
    assert "2 of 4 streams would not be restored" in planned.stderr
    assert not world.client.exists("a")
    with_replacing = world.run(*words, "--dry-run", "--replace").stdout.splitlines()
    assert [json.loads(line)["would"] for line in with_replacing] == ["restore", "replace", "replace", "replace"]

    result = world.run(*words, code=1)
    said = {each["key"]: each for each in map(json.loads, result.stdout.splitlines())}
    assert {key: "error" in each for key, each in said.items()} == {"a": False, "b": False, "c": True, "d": True}
    assert "2 of 4 streams were not restored" in result.stderr
    assert list(world.source("a")) == ["1-1", "2-1", "3-1"]
    assert world.client.get("c") in ("a text", b"a text")
    assert world.client.xlen("d") == 1


def test_a_stream_that_is_damaged_keeps_no_other_from_coming_back(world: World) -> None:
    with diskstream.open(world.directory) as store:
        for name in "abc":
            store.stream(name).add_many([{"n": number} for number in range(100)])
    (log,) = (world.directory / "streams" / "b").glob("*.log")
    data = bytearray(log.read_bytes())
    data[4096 + (len(data.rstrip(b"\0")) - 4096) // 2] ^= 0xFF
    log.write_bytes(data)
    command = ("restore", "--to", world.url, "--dir", str(world.directory))
    dry = world.run(*command, "--dry-run", code=1)
    assert [line.split()[-1] for line in dry.stdout.splitlines()] == ["a", "c"]
    for told in (dry.stderr, world.run(*command, code=1).stderr):
        assert "b: not restored: " in told
        assert ".log: frame" in told
        assert "1 of 3 streams" in told
    assert [world.client.exists(name) for name in "abc"] == [1, 0, 1]


def test_a_stream_whose_cold_part_is_gone_keeps_no_other_from_coming_back(world: World) -> None:
    """The others ended with it, though the Redis and all of their entries were there."""
    place = world.directory.with_name("cold")
    with diskstream.open(world.directory, seal="manual") as store:
        for name in "abc":
            for number in range(3):
                store.stream(name).add({"n": number})
                store.stream(name).seal()
    world.run("cold", "move", "b", "--dir", str(world.directory), "--to", f"file://{place}", "--keep-entries", "1")
    next(place.rglob("*.seg")).unlink()
    command = ("restore", "--to", world.url, "--dir", str(world.directory))
    dry = world.run(*command, "--dry-run", code=1)
    assert [line.split()[-1] for line in dry.stdout.splitlines()] == ["a", "c"]
    for told in (dry.stderr, world.run(*command, code=1).stderr):
        assert "b: not restored: " in told
        assert ".seg is not there any more" in told
        assert "1 of 3 streams" in told
    assert [world.client.exists(name) for name in "abc"] == [1, 0, 1]


def test_a_stream_that_is_named_twice_is_restored_once(world: World) -> None:
    """The second time it was replaced by itself, and told as a second stream."""
    archived(world)
    words = ("restore", "--to", world.url, "--dir", str(world.directory), "--json", "--replace", "--force")
    result = world.run(*words, "--stream", "s", "--stream", "s")
    assert [json.loads(line)["entries"] for line in result.stdout.splitlines()] == [48]


def test_a_stream_that_is_not_whole_is_not_restored_unasked(world: World) -> None:
    with diskstream.open(world.directory) as store:
        store.stream("s").add({"n": 1}, id="1-1")
        store.stream(temporary_name()).add({"n": 1}, id="1-1")
    restore(world)
    assert world.client.keys() == [b"s"]


def test_a_key_that_is_added_to_meanwhile_is_not_replaced(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    archived(world)
    real = _Restore._add

    def add(self: _Restore, entries: list[Any]) -> None:
        real(self, entries)
        world.client.xadd("s", {"new": "entry"})

    with monkeypatch.context() as patch:
        patch.setattr(_Restore, "_add", add)
        assert "so it was not replaced" in restore(world, "--replace", "--force", code=1)["said"]
    assert world.client.xlen("s") == 49
    restore(world, "--replace", "--force")
    assert world.client.xlen("s") == 48


@pytest.mark.parametrize("words", [(), ("--replace", "--force")])
@pytest.mark.parametrize("when", ["_put_state", "_check_built", "_check_groups"])
def test_another_restore_of_the_key_that_begins_anew_is_not_put_in_place(
    world: World, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], when: str
) -> None:
    """What it had added so far was renamed, between the look at the length and the new name, and called the stream."""
    archived(world)
    before = facts(world, "s")
    world.client.delete("s")
    real = getattr(_Restore, when)

    def then_another(self: _Restore, *given: Any) -> None:
        real(self, *given)
        with monkeypatch.context() as patch, diskstream.open(world.directory, read_only=True) as store:
            patch.setattr(_Restore, when, real)
            patch.setattr(_Restore, "_put_in_place", lambda *_, **_named: None)  # it gets no further
            with Server(world.url) as server:
                restore_stream(store.stream("s"), server, start="30")

    with monkeypatch.context() as patch:
        patch.setattr(_Restore, when, then_another)
        said = restore(world, *words, code=1)["said"]
    assert "another restore is at work on the key 's'" in said
    assert "when the other has ended, run this again" in said
    assert not world.client.exists("s")
    assert restore(world, *words)["resumed"] == 0
    assert facts(world, "s") == before


def test_a_connection_that_breaks_off_at_the_end_is_no_other_restore(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    archived(world)
    world.client.delete("s")
    real = _Restore._check_built

    def then_cut(self: _Restore, *given: Any) -> None:
        real(self, *given)
        world.client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    with monkeypatch.context() as patch:
        patch.setattr(_Restore, "_check_built", then_cut)
        said = restore(world, "--start", "10", code=1)["said"]
    assert "the connection failed" in said
    assert "it goes on where it stopped" in said
    assert restore(world, "--start", "10")["entries"] == 0
    assert world.client.xlen("s") == 40


def test_a_range_takes_over_no_groups_of_a_killed_whole_restore(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the last entry both have the same ones, so it went on there, and brought all that the other one had put."""
    archived(world)
    world.client.delete("s")

    def killed(*_: Any, **_named: Any) -> None:
        raise KeyboardInterrupt

    for stage, left in (("_put_in_place", 2), ("_check_groups", 2), ("_put_pending", 1)):
        with monkeypatch.context() as patch:
            patch.setattr(_Restore, stage, killed)
            world.run("restore", "--to", world.url, "--dir", str(world.directory), code=1)
        assert len(world.client.xinfo_groups(f"{PREFIX}s")) == left
        report = restore(world, "--end", "50-1")
        assert "neither groups nor counters: it was begun anew" in report["notes"][0]
        assert (report["resumed"], report["groups"]) == (0, 0)
        assert world.client.xinfo_groups("s") == []
        assert world.client.xinfo_stream("s")["last-generated-id"] == b"49-1"
        world.client.delete("s")


@pytest.mark.parametrize("words", [(), ("--replace", "--force")])
@pytest.mark.parametrize("left", [0, 7])
def test_a_key_that_goes_once_it_was_read_back_is_not_renamed(
    world: World, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], left: int
) -> None:
    """The groups made an empty one of it, which was renamed, and was called the same as the stream."""
    archived(world)
    world.client.delete("s")
    real = _Restore._put_state

    def put_state(self: _Restore, *given: Any) -> None:
        if left:
            world.client.xtrim(PREFIX + "s", maxlen=left, approximate=False)
        else:
            world.client.delete(PREFIX + "s")
        real(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(_Restore, "_put_state", put_state)
        assert f"has {left} entries instead of the 48" in restore(world, *words, code=1)["said"]
    assert not world.client.exists("s")
    restore(world, *words)
    assert world.client.xlen("s") == 48


def test_counters_and_groups_are_those_of_the_stream_that_was_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name was another stream's when it was their turn."""
    archived(world)
    world.client.delete("s")
    real = _Restore._parts

    def parts(self: _Restore, *words: Any) -> Any:
        yield from real(self, *words)
        with diskstream.open(world.directory) as store:
            store.delete("s")
            store.stream("s").add_many([{"another": number} for number in range(60)])

    with monkeypatch.context() as patch:
        patch.setattr(_Restore, "_parts", parts)
        assert "was removed or made anew" in restore(world, code=1)["said"]
    assert not world.client.exists("s")


@pytest.mark.parametrize("words", [(), ("--start", "10"), ("--replace", "--force")])
@pytest.mark.parametrize("when", ["_put_in_place", "_check_built", "_there"])
def test_other_entries_that_are_as_many_and_end_alike_are_not_put_in_place(
    world: World, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], when: str
) -> None:
    """Number and last ID were all that was looked at behind the read-back, so they got the name."""
    archived(world)
    world.client.delete("s")
    real = getattr(_Restore, when)

    def of_another(self: _Restore, *given: Any, **named: Any) -> Any:
        before = when == "_put_in_place"
        found = None if before else real(self, *given, **named)
        entries = world.client.xrange(f"{PREFIX}s")
        if entries:
            facts = world.client.xinfo_stream(f"{PREFIX}s")
            world.client.xtrim(f"{PREFIX}s", maxlen=0, approximate=False)
            world.client.execute_command("XSETID", f"{PREFIX}s", "0-0", "ENTRIESADDED", "0", "MAXDELETEDID", "0-0")
            for entry_id, _ in entries:
                world.client.xadd(f"{PREFIX}s", {"of": "another"}, entry_id)
            world.client.execute_command("XSETID", f"{PREFIX}s", facts["last-generated-id"])
        return real(self, *given, **named) if before else found

    with monkeypatch.context() as patch:
        patch.setattr(_Restore, when, of_another)
        assert "so nothing was put in place" in restore(world, *words, code=1)["said"]
    assert not world.client.exists("s")
    restore(world, *words)
    assert all(fields != {b"of": b"another"} for _, fields in world.client.xrange("s"))


def test_a_read_back_that_takes_long_keeps_its_watch(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server with a timeout closes the connection that watches, and so the restore would never come to its end."""
    world.fill("s", 3000)
    world.archive()
    before = world.source("s")
    world.client.delete("s")
    asked = []
    real: Any = redis.client.Pipeline.execute_command

    def execute_command(self: Any, *words: Any, **options: Any) -> Any:
        asked.append(words[0])
        return real(self, *words, **options)

    monkeypatch.setattr(restoring, "_ASK_EVERY_S", 0.0)
    monkeypatch.setattr(redis.client.Pipeline, "execute_command", execute_command)
    restore(world)
    assert "PING" in asked[: asked.index("RENAMENX")]
    assert world.source("s") == before
