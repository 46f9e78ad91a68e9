"""`durable_id`: up to where a stream is known to be on disk, before a flush, behind one, and behind one that failed."""

from pathlib import Path

import pytest

import diskstream
from diskstream import EntryID, StorageError
from tests.engine.sample import SMALL
from tests.engine.stand_ins import IllDisk


def test_it_is_the_last_id_that_was_flushed(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        stream = store.stream("x")
        assert stream.durable_id() == EntryID(0, 0)
        stream.add({"n": 1}, "5-1")
        assert stream.durable_id() == EntryID(0, 0)
        store.sync()
        stream.add_many([{"n": 2}, {"n": 3}], ids=["5-2", "5-3"])
        assert str(stream.durable_id()) == "5-1"
        store.sync()
        stream.delete("5-3")
        assert str(stream.durable_id()) == "5-3"
        with diskstream.open(tmp_path / "s", read_only=True) as reader:
            assert reader.stream("x").durable_id() == EntryID(0, 0)


def test_a_segment_that_was_left_behind_is_on_disk(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s", **SMALL) as store:
        stream = store.stream("x")
        for number in range(1, 40):
            stream.add({"pad": "." * 400}, f"5-{number}")
        active = stream.info().segments
        assert active > 1
        known = stream.durable_id()
        assert EntryID(0, 0) < known < EntryID(5, 39)
        stream.seal()
        assert str(stream.durable_id()) == "5-39"


@pytest.mark.parametrize("fsync", ["always", "os"])
def test_what_a_flush_that_failed_was_for_is_not_known_to_be_there(tmp_path: Path, fsync: str) -> None:
    disk = IllDisk()
    store = diskstream.open(tmp_path / "s", fsync=fsync, files=disk)
    stream = store.stream("x")
    stream.add({"n": 1}, "5-1")
    store.sync()
    disk.ill = True
    with pytest.raises(StorageError):
        stream.add({"n": 2}, "5-2", durable=True)
    disk.ill = False
    assert str(stream.durable_id()) == "5-1"
    with pytest.raises(StorageError):
        store.close()
    with diskstream.open(tmp_path / "s") as store:
        assert str(store.stream("x").durable_id()) == "5-2"
