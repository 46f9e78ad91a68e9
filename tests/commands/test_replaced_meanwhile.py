"""COPY, DUMP, XRANGE and XINFO while another process gives the stream's name to another stream: an answer is of one."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import Store, copying
from diskstream.commands import dumps
from diskstream.commands.begun_anew import begun_anew
from diskstream.commands.keyspace import Keyspace
from diskstream.commands.replies import OK
from diskstream.engine import reader
from diskstream.errors import ChangedError
from tests.commands.world import Ours, words_of

OLD, NEW = [b"1-1", b"2-1"], [b"1-2", b"2-2", b"3-2"]


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Store]:
    """What another process has open: a stream with a group, and one that it may put in its place."""
    with diskstream.open(tmp_path / "s", fsync="os") as store:
        for name, ids in (("x", OLD), ("y", NEW)):
            for id in ids:
                store.stream(name).add({"n": name}, id)
        store.stream("x").create_group("g", "0").consumer("c").read()
        yield store


@pytest.fixture
def ours(tmp_path: Path, other: Store) -> Iterator[Ours]:
    with Keyspace(tmp_path / "s", fsync="os") as keyspace:
        yield Ours(keyspace)


def replace(other: Store) -> None:
    other.rename("y", "x")


def remove(other: Store) -> None:
    other.delete("x")


def once_behind(monkeypatch: pytest.MonkeyPatch, where: object, name: str, act: Callable[[], None]) -> None:
    """Has something happen once, behind a function's first call."""
    function, left = getattr(where, name), [act]

    def called(*given: Any, **named: Any) -> Any:
        result = function(*given, **named)
        while left:
            left.pop()()
        return result

    monkeypatch.setattr(where, name, called)


def once_within_blocks(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Has something happen once, behind the first block that is read of a stream."""
    blocks, left = reader.blocks, [act]

    def read(log: Any, start: Any, end: Any, **named: Any) -> Iterator[Any]:
        if not left:
            yield from blocks(log, start, end, **named)
            return
        yield from blocks(log, start, start, **named)
        left.pop()()
        yield from blocks(log, start.next(), end, **named)

    monkeypatch.setattr(reader, "blocks", read)


def test_a_copy_has_not_the_groups_of_one_stream_and_the_entries_of_another(
    ours: Ours, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    once_behind(monkeypatch, copying, "state_of", lambda: replace(other))
    assert ours.run("COPY x z") == 1
    assert [bytes(entry.id) for entry in other.stream("z")] == NEW
    assert other.stream("z").groups() == []
    assert other.streams() == [b"x", b"z"]


def test_a_copy_of_what_is_removed_meanwhile_is_none(ours: Ours, other: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    once_behind(monkeypatch, copying, "state_of", lambda: remove(other))
    assert ours.run("COPY x z") == 0
    assert other.streams() == [b"y"]


def test_a_dump_has_not_the_groups_of_one_stream_and_the_entries_of_another(
    ours: Ours, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    once_behind(monkeypatch, dumps, "state_of", lambda: replace(other))
    payload = ours.run("DUMP x")
    assert ours.raw(b"RESTORE", b"z", b"0", payload) == OK
    assert [bytes(entry.id) for entry in other.stream("z")] == NEW
    assert other.stream("z").groups() == []


def test_a_dump_of_what_is_removed_meanwhile_is_none(ours: Ours, other: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    once_behind(monkeypatch, dumps, "state_of", lambda: remove(other))
    assert ours.run("DUMP x") is None


def test_a_range_is_of_one_stream_and_no_error(ours: Ours, other: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client heard "it was removed or renamed while it was read", which no server of Redis says."""
    once_within_blocks(monkeypatch, lambda: replace(other))
    assert [bytes(entry.id) for entry in ours.raw(*words_of("XRANGE x 1-1 +"))] == NEW


def test_a_look_that_is_cut_short_each_time_ends() -> None:
    def look() -> None:
        raise ChangedError("x", "it was renamed", "read it again")

    with pytest.raises(ChangedError):
        begun_anew(look)
