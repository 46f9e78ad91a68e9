"""The copy of a snapshot that stands by itself: a queue that was consumed is mended by it, groups and all."""

from pathlib import Path

import pytest

import diskstream
from diskstream import EntryID
from diskstream.backups import Wanted, find_backup, make_backup, restore
from diskstream.engine.roll import INITIAL_BYTES
from tests.engine.sample import SMALL, log_of
from tests.repair.test_cases import flip, repair
from tests.repair.test_cold import inspected

SNAPSHOT = 4096


@pytest.fixture
def queue(tmp_path: Path) -> Path:
    """A stream `s` of which all entries before its active log are gone, and one of three is pending."""
    path = tmp_path / "store"
    with diskstream.open(path, **SMALL) as store:
        stream = store.stream("s")
        stream.add_many([{"n": str(n)} for n in range(1, 4)], ids=["1-0", "2-0", "3-0"])
        group = stream.group("g", start="0")
        group.consumer("alice").read(count=3)
        group.ack("1-0", "2-0")
        stream.delete("1-0", "2-0", "3-0")
        log_of(store, b"s").roll()
    assert sorted(each.name for each in (path / "streams/s").iterdir() if each.name != "ctl") == [
        "00000002.log",
        "00000002.state",
    ]
    return path


def assert_the_group_is_as_it_was(path: Path) -> None:
    with diskstream.open(path, create=False) as store:
        assert store.verify().ok
        stream = store.stream("s")
        assert [pending.id for pending in stream.group("g", create=False).pending_range()] == [EntryID(3, 0)]
        assert stream.info().entries_added == 3
        added = stream.add({"n": "4"})
        assert added is not None
        assert added > EntryID(3, 0)


@pytest.mark.parametrize("offset", [20, SNAPSHOT + 2, SNAPSHOT + 70], ids=["log header", "frame header", "payload"])
def test_a_bad_block_at_the_beginning_of_the_log_costs_nothing(queue: Path, offset: int) -> None:
    flip(queue / "streams/s/00000002.log", offset)
    report = repair(queue)
    assert report.losses == []
    assert_the_group_is_as_it_was(queue)


def test_where_the_log_is_missing_the_state_is_that_of_its_beginning(queue: Path) -> None:
    (queue / "streams/s/00000002.log").unlink()
    report = repair(queue)
    assert len(report.losses) == 1  # what was added or changed in it nobody knows
    assert_the_group_is_as_it_was(queue)


def test_a_backup_of_a_damaged_queue_is_mended_as_the_queue_itself(queue: Path, tmp_path: Path) -> None:
    """The copy was left out: what was restored had lost its groups, which the store could still be given back."""
    flip(queue / "streams/s/00000002.log", SNAPSHOT + 70)
    assert [stream.name for stream in make_backup(queue, tmp_path / "backups").damaged] == ["s"]
    restore(find_backup(tmp_path / "backups"), tmp_path / "again", Wanted(damaged=True))
    assert repair(tmp_path / "again").losses == []
    assert_the_group_is_as_it_was(tmp_path / "again")


def test_a_restored_queue_has_the_copy_too(queue: Path, tmp_path: Path) -> None:
    assert make_backup(queue, tmp_path / "backups").damaged == []
    backup = find_backup(tmp_path / "backups")
    assert diskstream.verify(backup.path).ok
    restore(backup, tmp_path / "again")
    restore(backup, tmp_path / "renamed", Wanted((b"s",), b"t"))
    assert diskstream.verify(tmp_path / "renamed").ok
    flip(tmp_path / "again/streams/s/00000002.log", SNAPSHOT + 70)
    repair(tmp_path / "again")
    assert_the_group_is_as_it_was(tmp_path / "again")


def test_of_a_log_that_was_restored_nothing_is_lost_though_it_is_shorter_than_others(tmp_path: Path) -> None:
    """A backup has a log up to its end, and an empty page: it was taken for one that was cut off."""
    with diskstream.open(tmp_path / "store", **SMALL) as store:
        store.stream("s").add({"n": "1"}, "1-0")
    make_backup(tmp_path / "store", tmp_path / "backups")
    restore(find_backup(tmp_path / "backups"), tmp_path / "again")
    log = tmp_path / "again/streams/s/00000001.log"
    assert log.stat().st_size < INITIAL_BYTES
    flip(log, 20)
    assert repair(tmp_path / "again").losses == []
    log.write_bytes(log.read_bytes()[:SNAPSHOT])  # and this one is
    assert repair(tmp_path / "again").losses


def test_inspect_shows_the_copy_as_the_snapshot_that_it_is(queue: Path) -> None:
    path = str(queue / "streams/s/00000002.state")
    rows = inspected(path)
    assert (rows[0]["kind"], rows[1]["kind"], rows[1]["sound"]) == ("state", "snapshot", True)
    assert inspected(path, "--bytes", "0:64")[0]["of"].endswith("(snapshot) header: salt")
    flip(queue / "streams/s/00000002.state", 3)
    assert [row["is"] for row in inspected(path)] == ["file", "damaged"]
