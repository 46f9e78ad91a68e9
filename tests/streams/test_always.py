"""Under `always`, what is written but not flushed yet is not visible; trims and counters must not be misled by it."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

import diskstream
from diskstream import GroupExistsError, IDOrderError, StorageError, Stream
from tests.engine.stand_ins import IllDisk


def test_an_approximate_trim_by_id_within_an_add_counts_what_the_add_brought(tmp_path: Path) -> None:
    """The trim was planned with the visible length, which lacks the entries just added, and took as many too many."""
    with diskstream.open(tmp_path / "s", fsync="always") as store:
        stream = store.stream("x")
        stream.add_many([{"n": number} for number in range(300)], ids=[(number, 0) for number in range(1, 301)])
        added = stream.add_many(
            [{"n": number} for number in range(100)],
            ids=[(number, 0) for number in range(301, 401)],
            minid=(151, 0),
            approximate=True,
        )
        assert len(added) == 100
        assert [entry.id.ms for entry in stream.range()] == list(range(101, 401))


@pytest.mark.parametrize("change", ["add", "set"])
@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("rolled", [False, True])
def test_the_last_id_is_not_that_of_what_waits_for_its_flush(
    tmp_path: Path, change: str, *, ahead: bool, rolled: bool
) -> None:
    """Right behind a roll, and where it was set, the last ID was that of what a power cut would have taken."""
    disk = IllDisk()
    store = diskstream.open(tmp_path / "s", fsync="always", files=disk)
    stream = store.stream("x")
    stream.add_many([{"n": 1}, {"n": 2}], ids=["5-1", "5-2"])
    if ahead:
        stream.set_id("7-0")
    if rolled:
        stream.seal()
    seen = stream.summary()
    disk.ill = True
    with pytest.raises(StorageError):
        if change == "add":
            stream.add_many([{"n": 3}, {"n": 4}])
        else:
            stream.set_id("9-0", entries_added=9, max_deleted_id="5-5")
    assert str(stream.last_id()) == ("7-0" if ahead else "5-2")
    assert stream.summary() == seen
    disk.ill = False
    with pytest.raises(StorageError):
        store.close()
    with diskstream.open(tmp_path / "s", fsync="always") as store:
        assert store.stream("x").last_id() > seen.last_generated_id, "it was written, and is there after all"


@pytest.mark.parametrize("again", [lambda stream: stream.delete("1-0"), lambda stream: stream.trim(maxlen=2)])
def test_that_there_is_nothing_to_remove_is_said_once_that_is_durable(
    tmp_path: Path, again: Callable[[Stream], int]
) -> None:
    """A process died before its flush: who tried again heard 0, and a power cut brought the entry back."""
    with (
        diskstream.open(tmp_path / "s", fsync="os") as dying,
        diskstream.open(tmp_path / "s", fsync="always") as store,
    ):
        dying.stream("x").add_many([{"n": number} for number in range(3)], ids=["1-0", "2-0", "3-0"])
        dying.sync()
        assert len(store.stream("x")) == 3
        assert dying.stream("x").delete("1-0") == 1
        assert not dying.stream("x").info().durable
        assert again(store.stream("x")) == 0
        assert dying.stream("x").info().durable


@pytest.mark.parametrize(
    "again", [lambda stream: stream.add({"n": 1}, "3-0"), lambda stream: stream.add_many([{"n": 1}], ids=["3-0"])]
)
def test_that_an_id_is_taken_is_said_once_that_is_durable(tmp_path: Path, again: Callable[[Stream], object]) -> None:
    """A process died before its flush: who added its entry again heard that it is there, and a power cut took it."""
    with (
        diskstream.open(tmp_path / "s", fsync="os") as dying,
        diskstream.open(tmp_path / "s", fsync="always") as store,
    ):
        dying.stream("x").add({"n": 1}, "1-0")
        dying.sync()
        assert len(store.stream("x")) == 1
        dying.stream("x").add({"n": 1}, "3-0")
        assert not dying.stream("x").info().durable
        with pytest.raises(IDOrderError):
            again(store.stream("x"))
        assert dying.stream("x").info().durable


@pytest.mark.parametrize("create", [True, "new"])
def test_that_there_is_a_group_is_said_once_that_is_durable(tmp_path: Path, create: bool | str) -> None:
    """A process died before its flush: who made sure that there is the group, and added, found it gone after a power
    cut; made anew at the end of the stream, it was given none of that."""
    with (
        diskstream.open(tmp_path / "s", fsync="os") as dying,
        diskstream.open(tmp_path / "s", fsync="always") as store,
    ):
        dying.stream("x").add({"n": 1})
        dying.sync()
        assert len(store.stream("x")) == 1
        dying.stream("x").group("workers")
        assert not dying.stream("x").info().durable
        with contextlib.nullcontext() if create is True else pytest.raises(GroupExistsError):
            store.stream("x").group("workers", create=create)
        assert dying.stream("x").info().durable


def test_an_append_that_trims_what_all_have_acknowledged_takes_itself_too(tmp_path: Path) -> None:
    """No reader sees it before it is durable; the trim must."""
    with diskstream.open(tmp_path / "s", fsync="always") as store:
        stream = store.stream("x")
        for number in range(3):
            stream.add({"n": number}, maxlen=0, ref="ACKED")
            assert len(stream) == 0
