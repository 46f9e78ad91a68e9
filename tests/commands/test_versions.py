"""WATCH: each change of a key makes an EXEC fail, whoever made it; of a stream, as in Redis, not one of its groups."""

from collections.abc import Callable

import pytest

import diskstream
from diskstream import Stream
from diskstream.commands.key_touches import Touches
from diskstream.commands.keyspace import Keyspace
from tests.commands.conftest import Clock
from tests.commands.world import Ours

CHANGES: dict[str, Callable[[Stream], object]] = {
    "add": lambda stream: stream.add({"f": "1"}),
    "add and delete": lambda stream: stream.delete(stream.add({"f": "1"})),
    "delete": lambda stream: stream.delete("2-0"),
    "trim": lambda stream: stream.trim(maxlen=3),
    "set the ID": lambda stream: stream.set_id("9-0"),
    "make it again": lambda stream: made(stream) if stream._store.delete("s") else None,
}
NO_CHANGES: dict[str, Callable[[Stream], object]] = {
    "range": lambda stream: list(stream.range()),
    "read": lambda stream: stream.read("0"),
    "delete nothing": lambda stream: stream.delete("99-0"),
    "trim nothing": lambda stream: stream.trim(maxlen=99),
    "acknowledge nothing": lambda stream: stream.group("g").ack("99-0"),
    "make a group": lambda stream: stream.create_group("new", "$"),
    "remove a group": lambda stream: stream.group("g", create=False).destroy(),
    "set a group's ID": lambda stream: stream.group("g").set_id("0"),
    "deliver": lambda stream: stream.group("g").consumer("c").read(count=1),
    "acknowledge": lambda stream: stream.group("g").ack("1-0"),
    "claim": lambda stream: stream.group("g").consumer("d").claim("1-0"),
    "give back": lambda stream: stream.group("g").nack("1-0"),
    "make a consumer": lambda stream: stream.group("g").create_consumer("new"),
    "remove a consumer": lambda stream: stream.group("g").delete_consumer("c"),
    "set the windows": lambda stream: stream.configure_idempotence(duration_s=5),
    "flush": lambda stream: stream._store.sync(),
    "seal": lambda stream: stream.seal(),
    "compact": lambda stream: stream.compact(),
}


def made(stream: Stream) -> None:
    stream.add_many([{"f": "1"}] * 4, ids=["1-0", "2-0", "3-0", "4-0"])
    stream.create_group("g", "0").consumer("c").read(count=2)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_a_change_is_noticed(ours: Ours, keyspace: Keyspace, clock: Clock, change: str, where: str) -> None:
    made(keyspace.stream(0, b"s"))
    ours.run("WATCH s")
    clock.now += 5000
    if where == "here":
        CHANGES[change](keyspace.stream(0, b"s"))
    else:
        with diskstream.open(keyspace.path, clock=clock) as store:
            CHANGES[change](store.stream("s"))
    ours.run("MULTI")
    ours.run("PING")
    assert ours.run("EXEC") is None


@pytest.mark.parametrize("look", NO_CHANGES)
def test_a_look_is_no_change(ours: Ours, keyspace: Keyspace, look: str) -> None:
    made(keyspace.stream(0, b"s"))
    ours.run("WATCH s")
    NO_CHANGES[look](keyspace.stream(0, b"s"))
    ours.run("MULTI")
    ours.run("PING")
    assert ours.run("EXEC") == [b"PONG"]


@pytest.mark.parametrize(
    "line", ["SET k 2", "EXPIRE k 9", "DEL k", "RENAME k l", "FLUSHALL", "SWAPDB 0 1", "MOVE k 1", "LPUSH none 1"]
)
def test_other_keys_are_watched_too(ours: Ours, keyspace: Keyspace, line: str) -> None:
    ours.run("SET k 1")
    ours.run("WATCH k none")
    Ours(keyspace).run(line)
    ours.run("MULTI")
    assert ours.run("EXEC") is None
    ours.run("MULTI")
    assert ours.run("EXEC") == []


@pytest.mark.parametrize(
    "lines",
    [
        ("SET k 2", "SET k 1"),
        ("SET k 1",),
        ("EXPIRE k 9", "PERSIST k"),
        ("RENAME k l", "RENAME l k"),
        ("APPEND k 2", "SET k 1"),
        ("SET none 1", "DEL none"),
        ("LPUSH none 1", "RPOP none"),
        ("SWAPDB 0 1", "SWAPDB 0 1"),
        ("FLUSHALL", "SET k 1"),
    ],
)
def test_a_change_that_was_undone_is_one(ours: Ours, keyspace: Keyspace, lines: tuple[str, ...]) -> None:
    """What was read in between is not there any more."""
    ours.run("SET k 1")
    ours.run("WATCH k none")
    for line in lines:
        Ours(keyspace).run(line)
    ours.run("MULTI")
    assert ours.run("EXEC") is None


def test_keys_that_are_forgotten_all_seem_touched_and_no_touch_is_missed() -> None:
    touches = Touches()
    seen = {}
    never = touches.of((0, b"never"))
    for number in range(1, 20_000):
        key = (0, b"%d" % number)
        before = touches.of(key)
        touches.note(key)
        assert touches.of(key) != before
        seen[key] = touches.of(key)
    assert touches.of((0, b"1")) == touches.of((0, b"never")) != never
    assert touches.of((0, b"19999")) == seen[0, b"19999"]
    assert sum(touches.of(key) == at for key, at in seen.items()) <= 8192 + 1


def test_a_key_that_expires_has_changed(ours: Ours, keyspace: Keyspace, clock: Clock) -> None:
    made(keyspace.stream(0, b"s"))
    ours.run("PEXPIRE s 10")
    ours.run("WATCH s")
    clock.now += 10
    ours.run("MULTI")
    assert ours.run("EXEC") is None
