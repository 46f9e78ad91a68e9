"""Keys whose time has come go in pieces of time, however many there are; nobody is shown them meanwhile."""

from pathlib import Path
from typing import Any

import pytest

from diskstream import CorruptionError, DiskFullError
from diskstream._native import LOG_HEADER_BYTES
from diskstream.commands.key_records import KeyRecords
from diskstream.commands.keyspace import Keyspace
from diskstream.engine.names import log_path
from tests.commands.conftest import Clock
from tests.commands.world import Ours, Refused

MANY = 250


@pytest.fixture
def due(keyspace: Keyspace, clock: Clock) -> Keyspace:
    """As many keys as are no more than a moment's work, and some streams."""
    for number in range(MANY):
        keyspace.put_values(0, b"%d" % number, "string", (b"v",), expires=clock.now + number)
    for key in (b"stream", b"another"):
        keyspace.stream(0, key).add({"f": "1"}, "1-1")
        keyspace.set_expiry(0, key, clock.now + MANY)
    keyspace.put_values(0, b"kept", "string", (b"v",), expires=clock.now + 10 * MANY)
    clock.now += 2 * MANY
    return keyspace


def test_all_that_are_due_go_in_a_few_frames(due: Keyspace) -> None:
    """It was one frame, and under `always` one flush, for each."""
    store = due._records._store
    assert store is not None
    log = store._logs[b"keys"]
    before = log.native.tail[2]
    assert len(due.expire_due()) == MANY + 2
    assert log.native.tail[2] - before < 10
    assert due.names(0) == [b"kept"]
    assert due.statistics.expired == MANY + 2


def test_a_sweep_ends_with_its_time_and_the_next_goes_on(due: Keyspace) -> None:
    found, sweeps = [], 0
    while due.has_due():
        gone = due.expire_due(seconds=0)
        assert len(gone) == 1
        found += gone
        sweeps += 1
    assert len(found) == len(set(found)) == sweeps == MANY + 2
    assert found[0] == (0, b"0")


@pytest.mark.parametrize("line", ["KEYS *", "DBSIZE", "SCAN 0 COUNT 1000", "RANDOMKEY", "INFO keyspace"])
def test_who_lists_keys_is_shown_none_of_them_and_does_not_remove_them_all(
    due: Keyspace, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setattr("diskstream.commands.keyspace._LOOK_S", 0.0)
    shown = Ours(due).run(line)
    assert shown in ([b"kept"], 1, [b"0", [b"kept"]], b"kept") or shown.count(b"db0:keys=1,expires=1,") == 1
    assert due.has_due()


def test_on_a_full_disk_they_are_listed_no_more_all_the_same(due: Keyspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_full(*_of: object) -> None:
        raise DiskFullError("somewhere", "write", 28, "No space left on device")

    monkeypatch.setattr(KeyRecords, "write", is_full)
    assert due.names(0) == [b"kept"]
    with pytest.raises(DiskFullError):
        due.expire_due()


def test_one_that_cannot_be_removed_is_in_nobodys_way(
    due: Keyspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store = due.store(0)
    real = store._delete

    def delete(name: bytes, is_it: Any) -> bool:
        if name == b"another":
            raise DiskFullError("somewhere", "write", 28, "No space left on device")
        return real(name, is_it)

    with monkeypatch.context() as patched:
        patched.setattr(store, "_delete", delete)
        assert len(due.expire_due()) == MANY + 1
        with pytest.raises(DiskFullError):
            due.expire_due()
    assert due.expire_due() == [(0, b"another")]
    assert not due.has_due()


def test_one_whose_stream_cannot_be_opened_keeps_its_time(tmp_path: Path, clock: Clock) -> None:
    """The time was forgotten, and the stream stayed for good, though its header says that it is the one."""
    with Keyspace(tmp_path / "store", clock=clock) as keyspace:
        keyspace.stream(0, b"damaged").add({"f": "1"}, "1-1")
        keyspace.set_expiry(0, b"damaged", clock.now + 10)
    path = log_path(tmp_path / "store" / "streams" / "damaged", 1)
    whole = path.read_bytes()
    path.write_bytes(whole[: LOG_HEADER_BYTES + 64] + b"x" + whole[LOG_HEADER_BYTES + 65 :])
    with Keyspace(tmp_path / "store", clock=clock) as keyspace:
        clock.now += 20
        with pytest.raises(CorruptionError):
            keyspace.expire_due()
        assert keyspace.has_due()
        assert keyspace.store(0).streams() == [b"damaged"]
    path.write_bytes(whole)
    with Keyspace(tmp_path / "store", clock=clock) as keyspace:
        assert keyspace.expire_due() == [(0, b"damaged")]


@pytest.mark.parametrize("command", ["DEL", "UNLINK"])
@pytest.mark.parametrize("offset", [20, LOG_HEADER_BYTES + 64])
def test_who_deletes_one_that_cannot_be_opened_is_rid_of_it(
    tmp_path: Path, clock: Clock, command: str, offset: int
) -> None:
    """As of one whose time has not come, which it was before: by then it could not be deleted any more. Others are told
    of the damage."""
    with Keyspace(tmp_path / "store", clock=clock) as keyspace:
        for key in (b"damaged", b"whole"):
            keyspace.stream(0, key).add({"f": "1"}, "1-1")
            keyspace.set_expiry(0, key, clock.now + 10)
    path = log_path(tmp_path / "store" / "streams" / "damaged", 1)
    found = path.read_bytes()
    path.write_bytes(found[:offset] + b"\xee" + found[offset + 1 :])
    clock.now += 20
    with Keyspace(tmp_path / "store", clock=clock) as keyspace:
        assert isinstance(Ours(keyspace).run("EXISTS damaged"), Refused)
        assert Ours(keyspace).run(f"{command} damaged whole") == 0, "both had expired"
        assert keyspace.store(0).streams() == []
        assert keyspace.expire_due() == []
        assert keyspace.statistics.expired == 2
        keyspace.stream(0, b"damaged").add({"f": "2"}, "1-2")
        assert keyspace.expires_at(0, b"damaged") is None


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("GET 0", None),
        ("EXISTS 0 stream", 0),
        ("TYPE 0", b"none"),
        ("PTTL 0", -2),
        ("XLEN stream", 0),
        ("TYPE stream", b"none"),
    ],
)
def test_on_a_full_disk_nobody_finds_them_either(
    due: Keyspace, monkeypatch: pytest.MonkeyPatch, line: str, answer: object
) -> None:
    """Reads go on: they were refused, since what had expired could not be noted as gone."""

    def is_full(*_of: object) -> None:
        raise DiskFullError("somewhere", "write", 28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(KeyRecords, "write", is_full)
        ours = Ours(due)
        assert [ours.run(line) for _ in range(2)] == [answer] * 2
        assert isinstance(ours.run("SET 0 v"), Refused)
    due.expire_due()
    assert not due.has_due()
