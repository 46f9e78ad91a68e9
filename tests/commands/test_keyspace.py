"""What a keyspace keeps beside its streams: times of expiry, other types, which database is where."""

import contextlib
from pathlib import Path

import pytest

import diskstream
from diskstream.commands import key_records
from diskstream.commands.keyspace import Keyspace
from diskstream.commands.replies import Failure
from diskstream.errors import ClosedError
from tests.commands import processes
from tests.commands.conftest import Clock
from tests.commands.world import Ours, Refused
from tests.engine.children import child


def add(keyspace: Keyspace, key: bytes, database: int = 0) -> None:
    keyspace.stream(database, key).add({"f": "1"}, "1-1")


def test_a_stream_expires_when_its_time_has_come(keyspace: Keyspace, clock: Clock) -> None:
    add(keyspace, b"s")
    assert keyspace.set_expiry(0, b"s", clock.now + 1000)
    clock.now += 999
    assert len(keyspace.stream(0, b"s")) == 1
    clock.now += 1
    assert len(keyspace.stream(0, b"s")) == 0
    assert keyspace.kind(0, b"s") is None
    add(keyspace, b"s")
    clock.now += 10_000
    assert keyspace.kind(0, b"s") == "stream"
    assert keyspace.statistics.expired == 1


def test_one_that_is_being_closed_opens_nothing_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waited in another thread looked once more meanwhile, and opened a store that nobody closed."""
    keyspace = Keyspace(tmp_path / "data")
    add(keyspace, b"s", 1)
    records, looked = keyspace._records, []

    def close() -> None:
        for database in (1, 2):
            with pytest.raises(ClosedError):
                keyspace.store(database)
            looked.append(database)
        monkeypatch.undo()
        records.close()

    monkeypatch.setattr(records, "close", close)
    keyspace.close()
    assert looked == [1, 2]
    keyspace.reopen()
    assert len(keyspace.stream(1, b"s")) == 1
    keyspace.close()


def test_a_time_of_expiry_opens_no_stream(tmp_path: Path, clock: Clock) -> None:
    """Opening one takes half a millisecond, and closes another once as many are open as may be."""
    with Keyspace(tmp_path / "data", clock=clock) as writer, Keyspace(tmp_path / "data", clock=clock) as keyspace:
        for key in (b"s", b"sealed"):
            add(writer, key)
        writer.stream(0, b"sealed").seal()
        for key in (b"s", b"sealed"):
            assert keyspace.set_expiry(0, key, clock.now + 1000)
            assert keyspace.expires_at(0, key) == writer.expires_at(0, key) == clock.now + 1000
        assert not keyspace.store(0)._logs
        writer.delete(0, b"s")
        add(writer, b"s")  # another stream
        assert keyspace.expires_at(0, b"s") is None
        assert not keyspace.store(0)._logs
        clock.now += 1000
        assert (keyspace.kind(0, b"s"), keyspace.kind(0, b"sealed")) == ("stream", None)


def test_a_time_of_expiry_of_a_stream_whose_log_says_nothing_is_that_of_the_stream(
    tmp_path: Path, clock: Clock
) -> None:
    with Keyspace(tmp_path / "data", clock=clock) as writer:
        add(writer, b"s")
        writer.stream(0, b"s").seal()
    log = tmp_path / "data" / "streams" / "s" / "00000002.log"
    log.write_bytes(bytes(40) + log.read_bytes()[40:])
    with Keyspace(tmp_path / "data", clock=clock) as keyspace:
        assert keyspace.set_expiry(0, b"s", clock.now + 1000)
        assert keyspace.expires_at(0, b"s") == clock.now + 1000
        clock.now += 1000
        assert keyspace.kind(0, b"s") is None


@pytest.mark.parametrize("look", ["kind", "names", "expires_at", "delete", "version"])
def test_every_look_lets_an_expired_key_go(keyspace: Keyspace, clock: Clock, look: str) -> None:
    add(keyspace, b"s")
    keyspace.set_expiry(0, b"s", clock.now + 1)
    clock.now += 1
    found = getattr(keyspace, look)(*([0] if look == "names" else [0, b"s"]))
    assert look == "version" or not found
    assert not keyspace.store(0).exists(b"s")


def test_a_sweep_names_what_it_removes_in_the_order_of_time(keyspace: Keyspace, clock: Clock) -> None:
    for database, key, life in ((0, b"late", 30), (3, b"early", 10), (0, b"middle", 20), (0, b"never", 90)):
        add(keyspace, key, database)
        keyspace.set_expiry(database, key, clock.now + life)
    keyspace.put_values(0, b"string", "string", (b"1",), expires=clock.now + 15)
    assert keyspace.expire_due() == []
    clock.now += 40
    keyspace.sweeps = False
    assert keyspace.expire_due() == []
    keyspace.sweeps = True
    assert keyspace.expire_due() == [(3, b"early"), (0, b"string"), (0, b"middle"), (0, b"late")]
    assert keyspace.expire_due() == []
    assert keyspace.names(0) == [b"never"]


def test_a_sweep_leaves_what_lives_longer_by_now(keyspace: Keyspace, clock: Clock) -> None:
    add(keyspace, b"s")
    keyspace.set_expiry(0, b"s", clock.now + 10)
    keyspace.set_expiry(0, b"s", clock.now + 100)
    clock.now += 50
    assert keyspace.expire_due() == []
    keyspace.set_expiry(0, b"s", None)
    clock.now += 500
    assert keyspace.expire_due() == []
    assert keyspace.kind(0, b"s") == "stream"


def test_all_of_it_is_there_after_reopening(tmp_path: Path, clock: Clock) -> None:
    with Keyspace(tmp_path / "data", clock=clock) as keyspace:
        add(keyspace, b"s")
        keyspace.set_expiry(0, b"s", clock.now + 1000)
        keyspace.put_values(2, b"list", "list", (b"a", b"", b"\xff"), expires=clock.now + 5)
        keyspace.put_values(0, b"", "set", (b"x",))
        keyspace.swap(0, 3)
    with Keyspace(tmp_path / "data", clock=clock) as keyspace:
        assert keyspace.names(3) == [b"", b"s"]
        assert keyspace.names(0) == []
        assert keyspace.expires_at(3, b"s") == clock.now + 1000
        assert keyspace.values(2, b"list", "list") == (b"a", b"", b"\xff")
        assert keyspace.kind(3, b"") == "set"
        clock.now += 2000
        assert keyspace.expire_due() == [(2, b"list"), (3, b"s")]


def test_two_openings_see_each_others_changes(tmp_path: Path, clock: Clock) -> None:
    with Keyspace(tmp_path / "data", clock=clock) as one, Keyspace(tmp_path / "data", clock=clock) as other:
        add(one, b"s")
        one.set_expiry(0, b"s", clock.now + 50)
        assert other.expires_at(0, b"s") == clock.now + 50
        other.put_values(0, b"k", "string", (b"1",))
        with pytest.raises(Failure, match="WRONGTYPE"):
            one.stream(0, b"k")
        other.swap(0, 1)
        assert one.names(1) == [b"k", b"s"]
        clock.now += 50
        assert other.expire_due() == [(1, b"s")]
        assert one.expire_due() == []
        assert one.kind(1, b"s") is None


def test_a_forked_child_goes_on(tmp_path: Path) -> None:
    with child(processes.both_increase, tmp_path / "data", 100) as parent:
        assert parent.hear() == "0"
        assert parent.hear() == "200"
        assert parent.wait() == 0


def test_what_several_processes_change_is_changed_by_each(tmp_path: Path, clock: Clock) -> None:
    with Keyspace(tmp_path / "data", clock=clock) as keyspace, contextlib.ExitStack() as stack:
        workers = [stack.enter_context(child(processes.increase, tmp_path / "data", 550)) for _ in range(2)]
        assert [worker.hear() for worker in workers] == ["ready", "ready"]
        for worker in workers:
            worker.tell()
        assert [worker.hear() for worker in workers] == ["done", "done"]
        assert keyspace.values(0, b"counter", "string") == (b"1100",)
        assert len(keyspace.values(0, b"list", "list") or ()) == 110


def test_a_time_of_expiry_is_of_one_stream_and_not_of_the_next_of_that_name(tmp_path: Path, clock: Clock) -> None:
    with Keyspace(tmp_path / "data", clock=clock) as keyspace, diskstream.open(tmp_path / "data") as elsewhere:
        add(keyspace, b"s")
        keyspace.set_expiry(0, b"s", clock.now + 10)
        elsewhere.delete("s")
        assert keyspace.kind(0, b"s") is None
        elsewhere.stream("s").add({"another": "stream"})
        assert keyspace.expires_at(0, b"s") is None
        clock.now += 20
        assert keyspace.expire_due() == []
        assert len(keyspace.stream(0, b"s")) == 1


def test_a_renamed_key_takes_its_time_along(keyspace: Keyspace, clock: Clock) -> None:
    for key in (b"s", b"taken"):
        add(keyspace, key)
    keyspace.set_expiry(0, b"s", clock.now + 10)
    keyspace.set_expiry(0, b"taken", clock.now + 99)
    assert not keyspace.rename(0, b"s", b"taken", replace=False)
    assert keyspace.rename(0, b"s", b"taken")
    assert keyspace.expires_at(0, b"taken") == clock.now + 10
    add(keyspace, b"s")
    assert keyspace.expires_at(0, b"s") is None
    assert keyspace.rename(0, b"s", b"taken")
    assert keyspace.expires_at(0, b"taken") is None
    with pytest.raises(Failure, match="no such key"):
        keyspace.rename(0, b"s", b"t")


def test_a_key_is_of_one_type(keyspace: Keyspace) -> None:
    add(keyspace, b"k")
    keyspace.put_values(0, b"k", "string", (b"1",))
    assert keyspace.names(0) == [b"k"]
    assert not keyspace.store(0).exists(b"k")
    add(keyspace, b"stream")
    keyspace.rename(0, b"k", b"stream")
    assert keyspace.kind(0, b"stream") == "string"
    add(keyspace, b"k")
    keyspace.rename(0, b"k", b"stream")
    assert keyspace.kind(0, b"stream") == "stream"


def test_flushing_a_database_leaves_the_others(keyspace: Keyspace) -> None:
    for database in (0, 1):
        add(keyspace, b"s", database)
        keyspace.put_values(database, b"k", "string", (b"1",))
    keyspace.flush(1)
    assert keyspace.names(0) == [b"k", b"s"]
    assert keyspace.names(1) == []
    keyspace.flush()
    assert keyspace.names(0) == []


def test_of_several_keys_those_that_are_there_go_and_count_once(keyspace: Keyspace) -> None:
    for name in (b"a", b"b", b"c", b"kept"):
        add(keyspace, name)
    keyspace.put_values(0, b"k", "string", (b"1",))
    keyspace.set_expiry(0, b"c", keyspace.now_ms() + 100_000)
    before = keyspace.version(0, b"none"), keyspace.version(0, b"a")
    assert keyspace.delete_all(0, [b"a", b"k", b"none", b"a", b"c", b"k", b"b", b""]) == 4
    assert keyspace.names(0) == [b"kept"]
    assert keyspace.version(0, b"none") == before[0]
    assert keyspace.version(0, b"a") != before[1]
    add(keyspace, b"c")
    assert keyspace.expires_at(0, b"c") is None


def test_a_database_is_made_when_something_is_written_there(keyspace: Keyspace) -> None:
    assert keyspace.names(7) == []
    assert keyspace.kind(7, b"s") is None
    assert not keyspace.delete(7, b"s")
    assert keyspace.version(7, b"s") == keyspace.version(7, b"never")
    keyspace.flush()
    assert not (keyspace.path / "db7").exists()
    add(keyspace, b"s", 7)
    assert (keyspace.path / "db7").is_dir()


def test_the_records_are_begun_anew_once_most_are_of_the_past(tmp_path: Path, clock: Clock) -> None:
    with Keyspace(tmp_path / "data", clock=clock) as keyspace, Keyspace(tmp_path / "data", clock=clock) as other:
        keyspace.put_values(0, b"kept", "list", (b"a", b"b"), expires=clock.now + 10**9)
        keyspace.swap(1, 2)
        for number in range(1100):
            keyspace.put_values(0, b"k", "string", (b"%d" % number,))
        with diskstream.open(tmp_path / "data" / "keys") as records:
            assert len(records.stream("keys")) < 200
        assert other.values(0, b"k", "string") == (b"1099",)
    with Keyspace(tmp_path / "data", clock=clock) as keyspace:
        assert keyspace.names(0) == [b"k", b"kept"]
        assert keyspace.values(0, b"kept", "list") == (b"a", b"b")
        assert keyspace.expires_at(0, b"kept") == clock.now + 10**9
        add(keyspace, b"s", 1)
        assert (tmp_path / "data" / "db2" / "streams" / "s").is_dir()


def test_what_is_no_stream_is_small(ours: Ours, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_records, "MAX_VALUE_BYTES", 10)
    assert ours.run("SET k 0123456789") == b"OK"
    reply = ours.run("SET k 0123456789x")
    assert isinstance(reply, Refused)
    assert reply.count(b"over the limit of 10") == 1
    assert ours.run("GET k") == b"0123456789"


def test_a_key_that_is_no_stream_may_have_any_name(ours: Ours) -> None:
    name = "n" * 5000
    for key in (name, "''"):
        assert ours.run(f"EXISTS {key}") == 0
        assert ours.run(f"DEL {key}") == 0
        assert ours.run(f"SET {key} 1") == b"OK"
        assert ours.run(f"TYPE {key}") == b"string"
        assert ours.run(f"EXPIRE {key} 100") == 1
        assert ours.run(f"DEL {key}") == 1


def test_a_read_only_keyspace_shows_and_changes_nothing(tmp_path: Path, clock: Clock) -> None:
    with Keyspace(tmp_path / "data", clock=clock) as keyspace:
        add(keyspace, b"s")
        keyspace.put_values(0, b"k", "string", (b"1",))
    with Keyspace(tmp_path / "data", clock=clock, read_only=True) as keyspace:
        ours = Ours(keyspace)
        assert ours.run("KEYS *") == [b"k", b"s"]
        assert ours.run("GET k") == b"1"
        for line in ("SET k 2", "DEL k", "DEL s", "EXPIRE s 10", "EXPIRE k 10", "RENAME s t", "SWAPDB 0 1"):
            assert isinstance(ours.run(line), Refused), line
        assert ours.run("KEYS *") == [b"k", b"s"]
