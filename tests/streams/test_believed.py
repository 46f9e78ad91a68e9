"""What a stream remembers of before is no word on what came since; and what was added is not refused afterwards."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

import diskstream
from diskstream import (
    CorruptionError,
    DiskFullError,
    DiskstreamError,
    LimitError,
    PoisonedError,
    RemoteError,
    StorageError,
    Stream,
    membership,
)
from diskstream.backups import BackupError, find_backup, make_backup, making, read_manifest
from diskstream.engine import trimming
from diskstream.engine.log import StreamLog
from tests.streams.layers import log_of


def test_a_rule_ends_nothing_that_came_after_the_last_id_was_set_back(tmp_path: Path) -> None:
    """Up to where something had been trimmed once, everything pending was ended, entries that were there included."""
    with diskstream.open(tmp_path / "s", retention_interval_ms=0) as store:
        stream = store.stream("x")
        stream.add_many([{"n": n} for n in range(100, 110)], ids=[(n, 0) for n in range(100, 110)])
        group = stream.group("g", start="0")
        stream.set_retention(max_entries=5, ref="DELREF")
        stream.trim(maxlen=0)
        stream.seal()
        stream.set_id("0-1")
        group.set_id("0")
        stream.add_many([{"n": n} for n in range(1, 4)], ids=[(n, 0) for n in range(1, 4)])
        group.consumer("c").read()
        assert stream.trimmed_to() is None or str(stream.trimmed_to()) == "0-1"
        assert stream.apply_retention().references == 0
        assert [str(row.id) for row in group.pending_range()] == ["1-0", "2-0", "3-0"]
    with diskstream.open(tmp_path / "s", retention_interval_ms=0) as store:
        assert str(store.stream("x").trimmed_to()) == "0-1"


def full(log: StreamLog) -> None:
    """The log has no room beyond what it has."""
    if log.native.tail[1] + log.native.needed_bytes > log.file.size_bytes:
        raise DiskFullError(str(log.directory), "extend", errno.ENOSPC, "no space left on device")


def fills_up(stream: Stream, many: bool) -> list[bytes]:
    """Adds until there is no room, each entry with a trim. Returns what was said to be added."""
    added: list[bytes] = []
    while True:
        value = b"%d" % len(added) + b"x" * 100
        try:
            if many:
                stream.add_many([{"n": value}], maxlen=5)
            else:
                stream.add({"n": value}, maxlen=5)
        except DiskFullError:
            return added
        added.append(value)


@pytest.mark.parametrize("many", [False, True])
def test_an_entry_for_whose_trim_there_is_no_room_was_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    """It was there, and its producer was told that it was not: tried again, as is right then, it was there twice."""
    for pad in range(0, 160, 8):  # so that sometimes the trim is what there is no room for
        with diskstream.open(tmp_path / str(pad), fsync="os") as store, monkeypatch.context() as patched:
            stream = store.stream("x")
            stream.add({"n": b"p" * pad})
            patched.setattr(StreamLog, "_extend", full)
            added = fills_up(stream, many)
            there = [entry["n"] for entry in stream.range()]
            assert there[-5:] == added[-5:]
            patched.undo()
            stream.add({"n": b"last"}, maxlen=5)
            assert [entry["n"] for entry in stream.range()] == [*added[-4:], b"last"]


def unreadable(path: Path) -> StorageError:
    return StorageError(str(path), "read", errno.EIO, "Input/output error")


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("why", [unreadable, lambda path: RemoteError(str(path), "Input/output error")])
def test_so_was_one_for_whose_trim_something_could_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: bool, why: Callable[[Path], DiskstreamError]
) -> None:
    with diskstream.open(tmp_path / "s", fsync="always") as store:
        stream = store.stream("x")
        stream.add_many([{"n": n} for n in range(1, 6)], ids=[(n, 0) for n in range(1, 6)])

        def fails(log: StreamLog, *_: object, **__: object) -> int:
            raise why(log.directory)

        with monkeypatch.context() as patched:
            patched.setattr(trimming, "trim_below", fails)
            if many:
                assert [str(each) for each in stream.add_many([{"n": 6}], ids=["6-0"], minid="4")] == ["6-0"]
            else:
                assert str(stream.add({"n": 6}, "6-0", minid="4")) == "6-0"
            with pytest.raises(DiskstreamError, match="Input/output error"):
                stream.trim(minid="4")  # who asks for nothing else is told
        assert len(stream) == 6
        stream.add({"n": 7}, "7-0", minid="4")
        assert [str(entry.id) for entry in stream.range()] == ["4-0", "5-0", "6-0", "7-0"]


@pytest.mark.parametrize("many", [False, True])
def test_so_was_one_for_whose_trim_something_is_damaged(tmp_path: Path, many: bool) -> None:
    """Each of its producer's attempts was told of the damage, and each was in."""
    with diskstream.open(tmp_path / "s", fsync="os") as store:
        stream = store.stream("x")
        stream.add_many([{"n": n} for n in range(1, 6)], ids=[(n, 0) for n in range(1, 6)])
        stream.seal()
        segment = next(log_of(store).directory.glob("*.seg"))
    data = bytearray(segment.read_bytes())
    data[100] ^= 1
    segment.write_bytes(data)
    with diskstream.open(tmp_path / "s", fsync="os") as store:
        stream = store.stream("x")
        if many:
            assert [str(each) for each in stream.add_many([{"n": 6}], ids=["6-0"], minid="4")] == ["6-0"]
        else:
            assert str(stream.add({"n": 6}, "6-0", minid="4")) == "6-0"
        with pytest.raises(CorruptionError):
            stream.trim(minid="4")  # who asks for nothing else is told
        assert len(stream) == 6
        assert [str(entry.id) for entry in stream.range("6")] == ["6-0"]


def test_an_entry_is_not_said_to_be_added_where_its_trim_has_poisoned_the_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with diskstream.open(tmp_path / "s", fsync="os") as store:
        stream = store.stream("x")

        def poisons(log: StreamLog, *_: object, **__: object) -> int:
            log.ctl.poison("a flush failed")
            raise unreadable(log.directory)

        with monkeypatch.context() as patched:
            patched.setattr(trimming, "trim_below", poisons)
            with pytest.raises(StorageError, match="Input/output error"):
                stream.add({"n": 1}, minid="4")
        with pytest.raises(PoisonedError):
            store.close()


def test_messages_that_are_long_past_take_no_room_from_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once their names had come to the limit, no message, group or consumer was taken any more, and none forgotten."""
    monkeypatch.setattr(membership, "MAX_NAMES_BYTES", 10_000)
    now = 1_800_000_000_000
    with diskstream.open(tmp_path / "s", clock=lambda: now) as store:
        stream = store.stream("x")
        stream.add({"n": "first"})
        stream.configure_idempotence(duration_s=60, max_size=10_000)
        with pytest.raises(LimitError):
            for number in range(1000):
                stream.add({"n": number}, producer="p", message_id=b"%100d" % number)
        with pytest.raises(LimitError):
            stream.create_group("g")
        now += 121_000
        stream.create_group("g")
        assert log_of(store).native.names_bytes > 10_000
        stream.add({"n": "new"}, producer="q", message_id="1")
        assert log_of(store).native.names_bytes < 1000
        assert stream.info().messages_tracked == 1


def test_a_backup_that_never_saw_all_streams_at_once_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It said nothing of a stream that was renamed at each look, and had it under neither name."""
    with diskstream.open(tmp_path / "s") as store:
        for name in ("stay", "a"):
            store.stream(name).add({"n": name})
    names, real = ["a", "b"], making.pin  # type: ignore[attr-defined]  # what it imports itself

    def busy(*words: object, **named: object) -> object:
        with diskstream.open(tmp_path / "s") as store:
            store.rename(*names)
        names.reverse()
        return real(*words, **named)  # type: ignore[arg-type]  # handed on as it came

    with monkeypatch.context() as patched:
        patched.setattr(making, "pin", busy)
        with pytest.raises(BackupError, match="come and go"):
            make_backup(tmp_path / "s", tmp_path / "b")
    make_backup(tmp_path / "s", tmp_path / "b")
    assert len(read_manifest(find_backup(tmp_path / "b").path).streams) == 2
