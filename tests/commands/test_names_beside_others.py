"""A name that another process takes while a command is under way is taken, whatever was seen there before."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import Store, Stream
from diskstream.commands import key_copies, versions
from diskstream.commands.key_records import KeyRecords
from diskstream.commands.keyspace import Keyspace
from diskstream.commands.replies import Failure
from tests.commands.world import Ours, plain


class Caller:
    def __init__(self, keyspace: Keyspace) -> None:
        self.keyspace, self.database = keyspace, 0


@pytest.fixture
def keyspace(tmp_path: Path) -> Iterator[Keyspace]:
    with Keyspace(tmp_path / "s", fsync="os") as opened:
        opened.store(0).stream("x").add({"n": "1"}, "1-0")
        yield opened


@pytest.fixture
def other(keyspace: Keyspace, tmp_path: Path) -> Iterator[Store]:
    """Another opening of the same streams, as another process has."""
    with diskstream.open(tmp_path / "s", fsync="os") as opened:
        yield opened


def taking(other: Store, name: str) -> Callable[..., object]:
    return lambda *_: other.stream(name).add({"n": "another's"}, "9-0")


def before(monkeypatch: pytest.MonkeyPatch, place: Any, name: str, step: Callable[..., object]) -> None:
    """Another process's step right before something is called."""
    real = getattr(place, name)

    def stepping(*given: Any, **named: Any) -> Any:
        step(*given)
        return real(*given, **named)

    monkeypatch.setattr(place, name, stepping)


def is_the_others(stream: Stream) -> bool:
    return [(str(each.id), each[b"n"]) for each in stream.range()] == [("9-0", b"another's")]


def test_restore_does_not_replace_a_key_that_came_while_it_unpacked(
    keyspace: Keyspace, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller: Any = Caller(keyspace)
    packed: Any = key_copies._dump(caller, [b"dump", b"x"])
    before(monkeypatch, key_copies, "fill", taking(other, "new"))
    with pytest.raises(Failure, match="BUSYKEY"):
        key_copies._restore(caller, [b"restore", b"new", b"0", packed])
    assert is_the_others(keyspace.stream(0, b"new"))
    assert other.streams() == [b"new", b"x"]


def test_restore_with_replace_does(keyspace: Keyspace, other: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    caller: Any = Caller(keyspace)
    packed: Any = key_copies._dump(caller, [b"dump", b"x"])
    before(monkeypatch, key_copies, "fill", taking(other, "new"))
    key_copies._restore(caller, [b"restore", b"new", b"0", packed, b"replace"])
    assert [str(each.id) for each in keyspace.stream(0, b"new").range()] == ["1-0"]


def test_renamenx_does_not_replace_a_key_that_came_meanwhile(
    keyspace: Keyspace, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    before(monkeypatch, Store, "rename", taking(other, "new"))
    assert not keyspace.rename(0, b"x", b"new", replace=False)
    assert is_the_others(keyspace.stream(0, b"new"))
    assert [str(each.id) for each in keyspace.stream(0, b"x").range()] == ["1-0"]


def test_copy_does_not_replace_a_key_that_came_meanwhile(
    keyspace: Keyspace, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    before(monkeypatch, Store, "rename", taking(other, "new"))
    assert not keyspace.copy(0, b"x", 0, b"new")
    assert is_the_others(keyspace.stream(0, b"new"))
    assert other.streams() == [b"new", b"x"]


def test_move_does_not_replace_a_key_that_came_meanwhile(keyspace: Keyspace, monkeypatch: pytest.MonkeyPatch) -> None:
    before(monkeypatch, Store, "rename", lambda *_: keyspace.store(1).stream("x").add({"n": "another's"}, "9-0"))
    assert not keyspace.move(0, b"x", 1)
    assert is_the_others(keyspace.store(1).stream("x"))
    assert [str(each.id) for each in keyspace.store(0).stream("x").range()] == ["1-0"]


def test_what_was_made_anew_does_not_expire_for_the_one_before(
    keyspace: Keyspace, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    due = keyspace.now_ms() + 3_600_000
    keyspace.set_expiry(0, b"x", due)
    real = versions.identity

    def made_anew(stream: Stream) -> bytes:
        found = real(stream)
        other.delete("x")
        other.stream("x").add({"n": "another's"}, "9-0")
        return found

    monkeypatch.setattr("diskstream.commands.key_sweeping.identity", made_anew)
    keyspace.expire_due(due + 1)
    assert is_the_others(other.stream("x"))


@pytest.fixture
def beside(keyspace: Keyspace, tmp_path: Path) -> Iterator[Keyspace]:
    """Another server's keyspace over the same directory."""
    with Keyspace(tmp_path / "s", fsync="os") as opened:
        yield opened


def first(monkeypatch: pytest.MonkeyPatch, keyspace: Keyspace, step: Callable[[], object]) -> None:
    """Another process's step right before this one has the keys for itself."""
    steps = [step]

    def once(records: KeyRecords) -> None:
        if records is keyspace._records and steps:
            steps.pop()()

    before(monkeypatch, KeyRecords, "changing", once)


@pytest.mark.parametrize("words", [[b"COPY", b"l", b"new"], [b"RESTORE", b"new", b"0"]], ids=["COPY", "RESTORE"])
def test_a_list_does_not_replace_a_key_that_another_server_made_meanwhile(
    keyspace: Keyspace, beside: Keyspace, monkeypatch: pytest.MonkeyPatch, words: list[bytes]
) -> None:
    """Whether the name is free was asked before the keys were this process's alone."""
    ours = Ours(keyspace)
    ours.run("RPUSH l a")
    given = [*words, ours.raw(b"DUMP", b"l")] if words[0] == b"RESTORE" else words
    first(monkeypatch, keyspace, lambda: beside.put_values(0, b"new", "string", (b"another's",)))
    assert plain(ours.raw(*given)) in (0, b"BUSYKEY Target key name already exists.")
    assert ours.run("GET new") == b"another's"


def test_a_key_that_two_servers_delete_at_once_is_deleted_by_one(
    keyspace: Keyspace, beside: Keyspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both were told that they had: who takes that for a claim on something had it twice."""
    ours = Ours(keyspace)
    ours.run("SET claim free")
    first(monkeypatch, keyspace, lambda: beside.delete(0, b"claim"))
    assert ours.run("DEL claim") == 0
    ours.run("SET claim free")
    assert ours.run("DEL claim") == 1


TAKEN = b"BUSYKEY Target key name already exists."
WRONG = b"WRONGTYPE Operation against a key holding the wrong kind of value"


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("SET new a NX", None),
        ("SET new a NX GET", WRONG),
        ("INCR new", WRONG),
        ("RPUSH new a", WRONG),
        ("SADD new a", WRONG),
        ("RENAMENX l new", 0),
        ("COPY l new", 0),
        ("RESTORE new 0", TAKEN),
    ],
)
def test_a_stream_that_came_meanwhile_is_not_replaced_by_a_key_of_another_type(
    keyspace: Keyspace, other: Store, monkeypatch: pytest.MonkeyPatch, line: str, reply: object
) -> None:
    """Who has the store open knows of no keys but streams: it may make one at any instant."""
    ours = Ours(keyspace)
    ours.run("RPUSH l a")
    words = [*line.encode().split(), *([ours.raw(b"DUMP", b"l")] if line.startswith("RESTORE") else [])]
    steps = [taking(other, "new")]
    before(monkeypatch, KeyRecords, "write", lambda *_: steps and steps.pop()())
    assert plain(ours.raw(*words)) == reply
    assert is_the_others(other.stream("new"))
    assert (ours.run("TYPE new"), ours.run("LRANGE l 0 -1")) == (b"stream", [b"a"])


@pytest.mark.parametrize("line", ["SET new a", "COPY l new REPLACE", "RENAME l new"])
def test_it_is_replaced_where_that_is_asked_for(
    keyspace: Keyspace, other: Store, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    ours = Ours(keyspace)
    ours.run("RPUSH l a")
    steps = [taking(other, "new")]
    before(monkeypatch, KeyRecords, "write", lambda *_: steps and steps.pop()())
    ours.run(line)
    assert ours.run("TYPE new") in (b"string", b"list")
    assert not other.exists("new")
