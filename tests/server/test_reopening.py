"""Stores that the server opens anew by itself: what is in the way is tried again each second, and reads go on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from diskstream import DiskFullError, PoisonedError, StorageError, store
from diskstream.commands.key_records import KeyRecords
from diskstream.engine.log import StreamLog
from tests.engine.sample import log_of
from tests.server.client import packed
from tests.server.turns import Turns


@pytest.fixture
def turns(tmp_path: Path) -> Iterator[Turns]:
    with Turns(tmp_path / "store", 2, enable_debug_command="yes") as made:
        made.turn([packed("XADD", "s", "1-1", "a", "b") + packed("SET", "k", "v")])
        yield made


def heard(turns: Turns, *words: str) -> bytes:
    turns.heard[0].clear()
    turns.turn([packed(*words)])
    return bytes(turns.heard[0])


def fails(*_of: object, **_how: object) -> None:
    raise StorageError("somewhere", "flush", 5, "Input/output error")


def test_a_flush_that_fails_while_stores_are_closed_is_the_last_of_it(
    turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store `keys` was closed, and never opened again: LOADING was the answer to everything."""
    with monkeypatch.context() as patched:
        patched.setattr(StreamLog, "_close_cleanly", fails)
        turns.server.loop.runner.poisoned = True
        turns.second()
    assert not turns.server.loop.runner.poisoned
    assert heard(turns, "XLEN", "s") == b":1\r\n"
    assert heard(turns, "GET", "k") == b"$1\r\nv\r\n"


@pytest.mark.parametrize("words", [("DEBUG", "RELOAD"), ("CONFIG", "SET", "appendfsync", "always"), ()])
def test_stores_that_cannot_be_opened_are_opened_once_they_can(
    turns: Turns, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    turns.turn([b"", packed("XREAD", "BLOCK", 0, "STREAMS", "s", "$")])
    with monkeypatch.context() as patched:
        patched.setattr(store, "open", fails)
        if words:
            assert heard(turns, *words).startswith(b"-")
        turns.server.loop.runner.poisoned = not words
        for _ in range(2):
            turns.second()
    turns.second()
    assert heard(turns, "XLEN", "s") == b":1\r\n"
    assert heard(turns, "GET", "k") == b"$1\r\nv\r\n"
    assert heard(turns, "CONFIG", "GET", "appendfsync").endswith(b"everysec\r\n")
    assert not turns.heard[1]
    turns.turn([packed("XADD", "s", "2-1", "a", "b")])
    assert bytes(turns.heard[1]).count(b"2-1") == 1  # who waits, waits on


def test_a_key_that_cannot_be_removed_closes_no_store(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk, say. What is due is tried again each second; nothing is wrong with the stores."""
    keyspace = turns.server.keyspace
    keyspace.put_values(0, b"due", "string", (b"v",), expires=1)
    opened = keyspace.store(0)

    def is_full(*_of: object) -> None:
        raise DiskFullError("somewhere", "write", 28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(KeyRecords, "write", is_full)
        for _ in range(2):
            turns.second()
    assert keyspace.store(0) is opened
    assert heard(turns, "XLEN", "s") == b":1\r\n"
    turns.second()
    assert keyspace.statistics.expired == 1


def test_a_store_of_keys_that_takes_no_more_writes_is_opened_anew(
    turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyspace = turns.server.keyspace
    keyspace.put_values(0, b"due", "string", (b"v",), expires=1)

    def takes_no_more(*_of: object) -> None:
        raise PoisonedError("somewhere", "a flush failed")

    with monkeypatch.context() as patched:
        patched.setattr(KeyRecords, "write", takes_no_more)
        turns.second()
    assert turns.server.loop.runner.poisoned
    turns.second()
    assert keyspace.statistics.expired == 1


@pytest.mark.parametrize("words", [("DEBUG", "RELOAD"), ("CONFIG", "SET", "appendfsync", "everysec"), ()])
def test_what_was_answered_in_the_turn_of_a_reopening_is_on_disk_or_nobody_hears_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """The stores that owed the flush were forgotten before it failed, and the acknowledgement was answered with 1."""
    with Turns(tmp_path / "store", 2, appendfsync="always", enable_debug_command="yes") as turns:
        read = packed("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
        turns.turn([packed("XADD", "s", "1-1", "a", "b") + packed("XGROUP", "CREATE", "s", "g", "0") + read])
        turns.heard[0].clear()
        with monkeypatch.context() as patched:
            patched.setattr(StreamLog, "flush", fails)
            patched.setattr(StreamLog, "_close_cleanly", fails)
            turns.server.loop.runner.poisoned = not words
            turns.server.loop._second = 0.0
            turns.turn([packed("XACK", "s", "g", "1-1"), packed(*words) if words else b""])
        assert not turns.heard[0]
        assert turns.connections[0].closed
        for _ in range(2):
            turns.second()
        assert not turns.server.loop.runner.poisoned


def test_a_flush_that_failed_is_told_of_once(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes after the reopening has nothing to do with it."""
    keyspace = turns.server.keyspace
    heard(turns, "CONFIG", "SET", "appendfsync", "always")
    turns.turn(
        [packed("XGROUP", "CREATE", "s", "g", "0") + packed("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")]
    )
    heard(turns, "PING")
    with monkeypatch.context() as patched:
        patched.setattr(StreamLog, "flush", fails)
        turns.turn([packed("XACK", "s", "g", "1-1")])
        assert turns.connections[0].closed
        patched.setattr(StreamLog, "_close_cleanly", fails)
        turns.second()
    turns.turn([b"", packed("XLEN", "s")])
    assert bytes(turns.heard[1]) == b":1\r\n"
    keyspace.settle()


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([("MULTI",), ("XADD", "s", "*", "a", "b"), ("EXEC",)], id="a transaction"),
        pytest.param([("XADD", "s", "*", "a", "b")] * 2, id="entries in a row"),
        pytest.param([("XACK", "s", "g", "1-1")] * 2, id="acknowledgements in a row"),
        pytest.param([("CLIENT", "REPLY", "OFF"), ("XADD", "s", "*", "a", "b", "c", "d")], id="without replies"),
    ],
)
def test_a_stream_that_takes_no_more_is_opened_anew_however_its_clients_write(
    turns: Turns, pieces: list[tuple[str, ...]]
) -> None:
    """Only the reply to a command alone told the server of it: redis-py's pipelines were refused for ever."""
    store = turns.server.keyspace.store(0)
    turns.turn(
        [packed("XGROUP", "CREATE", "s", "g", "0") + packed("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")]
    )
    log_of(store, b"s").ctl.poison("a flush failed")
    turns.turn([b"".join(packed(*words) for words in pieces)])
    turns.second()
    turns.turn([b"", packed("XADD", "s", "9-9", "a", "b")])
    assert bytes(turns.heard[1]) == b"$3\r\n9-9\r\n"
