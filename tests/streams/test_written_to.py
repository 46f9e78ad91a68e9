"""`written_to`: up to where a stream had entries, whatever its last ID was set to."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

import diskstream
from diskstream import EntryID, StorageError
from tests.engine.stand_ins import IllDisk
from tests.streams.layers import small_store

STEPS = some.lists(
    some.sampled_from(["add", "add many", "ahead", "back", "delete first", "delete last", "trim", "seal", "compact"]),
    max_size=25,
)


@given(STEPS)
def test_it_is_the_greatest_id_of_an_entry_gone_or_not(steps: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder, small_store(Path(folder) / "store") as store:
        stream, greatest = store.stream("x"), EntryID(0, 0)
        assert stream.written_to() == greatest
        for step in ["add", *steps]:
            live = [entry.id for entry in stream.range()]
            last = stream.last_id()
            if step.startswith("add"):
                for number in range(1, 60 if step == "add many" else 2):
                    greatest = stream.add({"pad": "." * 90}, (last.ms + number, 0))
            elif step == "ahead":
                stream.set_id((last.ms + 1000, 0))
            elif step == "back":
                stream.set_id(greatest)
            elif step.startswith("delete"):
                stream.delete(*(live[:20] if step == "delete first" else live[-20:]))
            elif step == "trim":
                stream.trim(maxlen=len(live) // 3)
            elif step == "seal":
                stream.seal()
            else:
                stream.compact()
            assert stream.written_to() == greatest <= stream.last_id()


@pytest.mark.parametrize("sealed", [False, True])
def test_what_waits_for_a_flush_is_not_written_yet(tmp_path: Path, *, sealed: bool) -> None:
    disk = IllDisk()
    store = diskstream.open(tmp_path / "s", fsync="always", files=disk)
    stream = store.stream("x")
    stream.add({"n": 1}, "5-1")
    if sealed:
        stream.seal()
    disk.ill = True
    with pytest.raises(StorageError):
        stream.add({"n": 2}, "6-0")
    assert str(stream.written_to()) == "5-1"
    disk.ill = False
    with pytest.raises(StorageError):
        store.close()


def test_a_last_id_that_is_set_back_takes_it_along(tmp_path: Path) -> None:
    with small_store(tmp_path / "store") as store:
        stream = store.stream("x")
        for number in range(1, 11):
            stream.add({"n": number}, (number, 0))
        stream.trim(maxlen=0)
        assert str(stream.written_to()) == "10-0"
        stream.set_id("4-0")
        assert str(stream.written_to()) == "4-0"
