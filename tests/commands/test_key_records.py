"""What is known of keys beside their streams, while it is written anew."""

from pathlib import Path

import pytest

from diskstream.commands import key_records
from diskstream.commands.keyspace import Keyspace


@pytest.fixture(autouse=True)
def little_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_records, "_SPARE", 8)


def test_who_looked_before_it_was_begun_anew_misses_nothing(tmp_path: Path) -> None:
    """The rows that said that a key is gone were dropped before the other process read them."""
    with Keyspace(tmp_path) as one, Keyspace(tmp_path) as other:
        one.put_values(0, b"k", "string", (b"v",))
        assert other.kind(0, b"k") == "string"
        one.delete(0, b"k")
        one.swap(0, 1)
        for n in range(20):
            one.put_values(0, b"n", "string", (b"%d" % n,))
        assert [other.kind(1, b"k"), other.values(0, b"n", "string")] == [None, (b"19",)]
        other.put_values(0, b"m", "set", (b"a",))
        assert one.names(0) == other.names(0) == [b"m", b"n"]


def test_what_a_thread_touches_while_it_is_begun_anew_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing else is: the keys whose rows are written once more have not changed."""
    with Keyspace(tmp_path) as keyspace:
        keyspace.put_values(0, b"still", "string", (b"v",))
        records = keyspace._records
        before = [keyspace.version(0, key) for key in (b"still", b"touched")]
        look = records.refresh

        def touched_beside() -> None:
            records.touches.note((0, b"touched"))
            look()

        monkeypatch.setattr(records, "refresh", touched_beside)
        records._begin_anew()
        monkeypatch.undo()
        after = [keyspace.version(0, key) for key in (b"still", b"touched")]
        assert [old == new for old, new in zip(before, after, strict=True)] == [True, False]


def test_more_than_a_frame_is_written_anew_in_several(tmp_path: Path) -> None:
    """It was written as one frame, which takes 64 MiB: from then on each SET was done, and answered with an error."""
    value = b"x" * key_records.MAX_VALUE_BYTES
    with Keyspace(tmp_path, fsync="os") as keyspace:
        for n in range(66):
            keyspace.put_values(0, b"large %d" % n, "string", (value,))
        for n in range(2 * 66 + 20):
            keyspace.put_values(0, b"small", "string", (b"%d" % n,))
        assert len(keyspace.names(0)) == 67
    with Keyspace(tmp_path) as keyspace:
        assert keyspace.values(0, b"small", "string") == (b"%d" % (2 * 66 + 19),)
        assert keyspace.values(0, b"large 0", "string") == keyspace.values(0, b"large 65", "string") == (value,)


def test_large_values_are_dropped_before_they_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand changes of one mebibyte were kept: a gigabyte, which each start, and each other server, read."""
    monkeypatch.setattr(key_records, "_SPARE", 1000)
    monkeypatch.setattr(key_records, "_SPARE_BYTES", 1 << 20)
    value = b"x" * (100 << 10)
    with Keyspace(tmp_path, fsync="os") as keyspace, Keyspace(tmp_path, fsync="os") as other:
        for n in range(40):
            keyspace.put_values(0, b"%d" % (n % 5), "string", (b"%d" % n, value))
            assert len(keyspace._records._stream) <= 5 + 2 * 5 + 11
        assert other.values(0, b"4", "string") == (b"39", value)
    with Keyspace(tmp_path) as keyspace:
        assert len(keyspace.names(0)) == 5
        assert keyspace.values(0, b"0", "string") == (b"35", value)
