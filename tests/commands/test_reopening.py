"""Stores that are closed and opened anew, with something in the way: the next try begins where this one ended."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from diskstream import StorageError, Store
from diskstream.commands.key_records import KeyRecords
from diskstream.commands.keyspace import Keyspace
from diskstream.engine.log import StreamLog
from diskstream.errors import ClosedError
from tests.commands.world import Ours


@contextlib.contextmanager
def failing(of: type, method: str, store: str = "") -> Iterator[None]:
    """The disk says no to a method: to that of logs in one store, where it is named."""
    real = getattr(of, method)

    def fails(self: Any) -> None:
        if not store or self.directory.parent.parent.name == store:
            raise StorageError("somewhere", "flush", 5, "Input/output error")
        real(self)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(of, method, fails)
        yield


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[Ours]:
    with Keyspace(tmp_path / "data") as keyspace:
        found = Ours(keyspace)
        found.run("XADD s 1-1 a b")
        found.run("SET k v")
        yield found


@pytest.mark.parametrize("store", ["keys", "data"])
def test_a_store_that_cannot_be_closed_well_is_opened_anew_all_the_same(ours: Ours, store: str) -> None:
    with failing(StreamLog, "_close_cleanly", store):
        ours.keyspace.reopen()
    assert not ours.keyspace.must_reopen
    assert [ours.run("XLEN s"), ours.run("GET k"), ours.run("SET k w")] == [1, b"v", b"OK"]


def test_all_are_closed_though_one_cannot_be_closed_well(ours: Ours) -> None:
    ours.run("SELECT 3")
    ours.run("XADD s 1-1 a b")
    stores = [ours.keyspace.store(0), ours.keyspace.store(3), ours.keyspace._records._store]
    with failing(StreamLog, "_close_cleanly"), pytest.raises(StorageError):
        ours.keyspace.close()
    assert [store is not None and store.closed for store in stores] == [True, True, True]
    ours.keyspace.close()


def test_what_could_not_be_opened_is_opened_by_the_next_try(ours: Ours) -> None:
    """It was never tried again: everything was closed for good."""
    keyspace = ours.keyspace
    for _ in range(2):
        with failing(KeyRecords, "refresh"), pytest.raises(StorageError):
            keyspace.reopen(fsync="always")
        assert keyspace.must_reopen
        assert keyspace.options.get("fsync") is None
        with pytest.raises(ClosedError):
            keyspace.kind(0, b"k")
    keyspace.reopen()
    assert not keyspace.must_reopen
    assert [ours.run("XLEN s"), ours.run("GET k"), ours.run("SET k w")] == [1, b"v", b"OK"]


def test_a_key_that_could_not_be_removed_is_due_as_before(ours: Ours) -> None:
    """It was due no more, and stayed until somebody looked for it."""
    keyspace = ours.keyspace
    keyspace.put_values(0, b"one", "string", (b"1",), expires=1)
    keyspace.put_values(0, b"two", "string", (b"2",), expires=2)
    with failing(KeyRecords, "changing"), pytest.raises(StorageError):
        keyspace.expire_due()
    assert keyspace.expire_due() == [(0, b"one"), (0, b"two")]


def test_a_compaction_goes_on_in_a_store_that_was_opened_anew(ours: Ours, monkeypatch: pytest.MonkeyPatch) -> None:
    """As CONFIG SET appendfsync does it: INFO said `err`, and most of the store was not compacted."""
    real, before = Store.compact, ours.keyspace.store(0)

    def compact(self: Store) -> object:
        if self is before:
            ours.keyspace.reopen()
        return real(self)

    monkeypatch.setattr(Store, "compact", compact)
    assert ours.run("BGREWRITEAOF") == b"Background append only file rewriting started"
    assert ours.keyspace.store(0) is not before
    assert b"aof_last_bgrewrite_status:ok\r\n" in ours.run("INFO persistence")
    assert ours.keyspace.stream(0, b"s").info().sealed_segments == 1


def test_the_log_says_why_a_compaction_was_not_done(
    ours: Ours, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def compact(_store: Store) -> None:
        raise ClosedError("the store") if not caplog.messages else StorageError("somewhere", "write", 5, "no")

    monkeypatch.setattr(Store, "compact", compact)
    for _ in range(2):  # one that is closed and stays so ends it, too
        ours.run("BGREWRITEAOF")
        assert b"aof_last_bgrewrite_status:err\r\n" in ours.run("INFO persistence")
    assert [each.startswith("could not compact database 0: ") for each in caplog.messages] == [True, True]
