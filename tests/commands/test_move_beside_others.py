"""MOVE while other processes write to the stream: what they were told is there is under the key, in one database."""

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import EntryID, StorageError, Store, Stream
from diskstream.commands import key_moves
from diskstream.commands.keyspace import Keyspace
from diskstream.commands.versions import version as version_now
from tests.engine.stand_ins import failure


@pytest.fixture
def keyspace(tmp_path: Path) -> Iterator[Keyspace]:
    with Keyspace(tmp_path / "s", fsync="always") as opened:
        opened.store(0).stream("x").add({"n": "1"})
        yield opened


def found(keyspace: Keyspace) -> set[EntryID]:
    return {entry.id for database in (0, 1) for entry in keyspace.store(database).stream("x").range()}


@pytest.mark.parametrize("interrupted_at", [None, 3, 4])
def test_what_others_add_meanwhile_stays_under_the_key(
    tmp_path: Path, keyspace: Keyspace, monkeypatch: pytest.MonkeyPatch, interrupted_at: int | None
) -> None:
    told: list[EntryID] = []
    looks = 0

    with diskstream.open(tmp_path / "s", fsync="always") as other:

        def version(stream: Stream | None) -> object:
            nonlocal looks
            looks += 1
            if looks == 2:  # the copy is made, and what it was made of is looked at once more
                told.extend(other.stream("x").add_many([{"n": "2"}]))
            if looks == interrupted_at:
                raise KeyboardInterrupt
            return version_now(stream)

        monkeypatch.setattr(key_moves, "version", version)
        try:
            assert keyspace.move(0, b"x", 1)
        except KeyboardInterrupt:
            assert interrupted_at is not None
        assert told
        assert set(told) <= found(keyspace)
        assert keyspace.store(0).streams(unfinished=True) == keyspace.store(0).streams()


def test_a_stream_that_is_not_the_one_that_was_looked_at_is_not_removed(keyspace: Keyspace) -> None:
    store = keyspace.store(0)
    assert not store._delete(b"x", lambda _: False)
    assert len(store.stream("x")) == 1
    store.stream("x").add({"n": "2"})
    assert store._delete(b"x", lambda log: log.native.counters()[0] == 2)
    assert store.streams() == []


@pytest.mark.parametrize("place", ["the copy", "the source"])
def test_a_move_that_fails_leaves_the_stream_in_one_place(
    keyspace: Keyspace, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """It was in both databases, and a second MOVE found the name taken."""
    target, name_given, deleted = keyspace.store(1), Store.rename, Store._delete

    def rename(store: Store, old: bytes, new: bytes, **named: Any) -> None:
        name_given(store, old, new, **named)
        if store is target:
            raise failure(store.path, "flush", errno.EIO)

    def delete(store: Store, name: bytes, *given: Any) -> bool:
        if store is not target and name == b"x":
            raise failure(store.path, "rename", errno.EIO)
        return deleted(store, name, *given)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "rename", rename if place == "the copy" else Store.rename)
        patch.setattr(Store, "_delete", delete if place == "the source" else Store._delete)
        with pytest.raises(StorageError):
            keyspace.move(0, b"x", 1)
    assert keyspace.kind(0, b"x") == "stream"
    assert keyspace.kind(1, b"x") is None
    assert len(found(keyspace)) == 1
    assert keyspace.move(0, b"x", 1)
    assert keyspace.kind(0, b"x") is None
    assert len(found(keyspace)) == 1


def test_a_move_that_fails_when_the_source_is_gone_keeps_the_copy(
    keyspace: Keyspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Store._delete

    def delete(store: Store, name: bytes, *given: Any) -> bool:
        gone = whole(store, name, *given)
        if gone and name == b"x":
            raise failure(store.path, "remove", errno.EIO)
        return gone

    with monkeypatch.context() as patch:
        patch.setattr(Store, "_delete", delete)
        with pytest.raises(StorageError):
            keyspace.move(0, b"x", 1)
    assert keyspace.kind(0, b"x") is None
    assert keyspace.kind(1, b"x") == "stream"
    assert len(found(keyspace)) == 1
