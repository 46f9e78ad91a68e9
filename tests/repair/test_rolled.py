"""The snapshot of the active log is damaged, and the log before it is not sealed yet: no copy, but it leads there."""

import shutil
from pathlib import Path

import pytest

import diskstream
from diskstream import Commit, EntryID, RetentionRule, Store
from diskstream.engine.layouts import ENTRIES, FRAME_HEADER
from tests.repair.test_cases import flip, folder, frames, repair

SNAPSHOT = 4096
SEEN = ("0-5", "0-6", "0-7")


def opened(path: Path) -> Store:
    return diskstream.open(path, seal="manual", segment_bytes=8192, retention_interval_ms=0)


def fill(store: Store, path: Path, number: int) -> None:
    """Adds entries until the log of that number begins."""
    stream = store.stream("s")
    while not (folder(path) / f"{number:08d}.log").exists():
        stream.add({"pad": "." * 240}, "0-*")


def build(path: Path) -> tuple[Path, Path]:
    """A stream of which much is changed in the log before the active one. Both logs."""
    with opened(path) as store:
        stream = store.stream("s")
        stream.add({"n": "1"}, "0-1")
        group = stream.group("g", start="0")
        group.consumer("a").read(count=1)
        stream.set_retention(max_entries=5)
        fill(store, path, 2)
        stream.clear_retention()
        stream.delete("0-3")
        stream.add_many([{"n": "2"}], ids=["0-1000"], commit=Commit(b"w", 1, 0))
        group.consumer("a").read(count=5)
        group.ack("0-1", "0-2", "0-4")
        stream.add({"n": "3"}, "0-1001")
        fill(store, path, 3)
        group.consumer("a").read(count=2)
    before, log = sorted(folder(path).glob("*.log"))[-2:]
    assert before.name == "00000002.log"
    return before, log


def state(path: Path) -> tuple[object, ...]:
    with opened(path) as store:
        assert store.verify().ok
        stream = store.stream("s")
        group = stream.group("g", create=False)
        pending = [(str(row.id), row.consumer, row.deliveries) for row in group.pending_range(count=100)]
        counters = stream.info().entries_added, stream.info().max_deleted_entry_id, stream.last_id()
        again = stream.add_many([{"n": "2"}], commit=Commit(b"w", 1, 0))
        return list(stream.range()), counters, stream.retention, group.info(), pending, again


@pytest.mark.parametrize("at", [FRAME_HEADER.size + 20, 9], ids=["payload", "header"])
def test_nothing_is_lost_with_the_snapshot_where_the_log_before_it_is_whole(tmp_path: Path, at: int) -> None:
    """A rule that was taken away there was in force again, by which entries went; what was deleted was there again."""
    _, log = build(tmp_path)
    before = state(tmp_path)
    flip(log, SNAPSHOT + at)
    report = repair(tmp_path)
    assert report.losses == []
    assert any("made anew from what led to it in 00000002.log" in note for note in report.notes)
    assert state(tmp_path) == before
    assert before[2] is None


def test_a_last_frame_that_ends_with_zeros_is_whole(tmp_path: Path) -> None:
    """It was cut off where they begin, and lost: an entry whose value ends with some, and each mark of a close whose
    checksum does, one in 256, though that is no entry.
    """
    build(tmp_path / "open")
    with opened(tmp_path / "open") as store:
        stream = store.stream("s")
        stream.add({"n": b"last" + bytes(100)}, "0-*")
        shutil.copytree(tmp_path / "open", tmp_path / "killed")
        before = list(stream.range())
    log = max(folder(tmp_path / "killed").glob("*.log"))
    assert frames(log)[-1].end - len(log.read_bytes().rstrip(b"\0")) > 100
    flip(log, SNAPSHOT + FRAME_HEADER.size + 20)
    assert repair(tmp_path / "killed").losses == []
    with opened(tmp_path / "killed") as store:
        assert list(store.stream("s").range()) == before


def test_with_all_of_the_log_its_own_entries_go_and_nothing_else(tmp_path: Path) -> None:
    """What was deleted in the log before came back, and what was committed there was added again."""
    _, log = build(tmp_path)
    with opened(tmp_path) as store:
        before = list(store.stream("s").range())
    log.write_bytes(b"")
    (loss,) = repair(tmp_path).losses
    entries, _, rule, _, _, added_again = state(tmp_path)
    assert entries == [entry for entry in before if entry.id < EntryID(loss.first)] == before[:-1]
    assert (rule, added_again) == (None, None)


def test_with_a_block_of_the_log_the_entries_in_it_go_and_nothing_else(tmp_path: Path) -> None:
    """The first frames go with the snapshot, as disks lose it: the log before was not asked then, and all that was
    deleted, given and committed in it was forgotten."""
    _, log = build(tmp_path)
    with opened(tmp_path) as store:
        for _ in range(9):
            store.stream("s").add({"pad": "." * 240}, "0-*")
        before = list(store.stream("s").range())
    with log.open("r+b") as file:
        file.seek(SNAPSHOT)
        file.write(bytes(1024))
    report = repair(tmp_path)
    assert any("made anew from what led to it in 00000002.log" in note for note in report.notes)
    (loss,) = report.losses
    entries, _, rule, group, pending, added_again = state(tmp_path)
    lost = [entry for entry in before if EntryID(loss.first) <= entry.id <= EntryID(loss.last)]
    assert 0 < len(lost) < 5
    assert entries == [entry for entry in before if entry not in lost]
    assert isinstance(group, diskstream.GroupInfo)
    assert (pending, str(group.last_delivered_id)) == ([(row, b"a", 1) for row in SEEN], SEEN[-1])
    assert (rule, added_again) == (None, None)


def test_an_earlier_end_of_the_log_before_is_not_taken_for_it(tmp_path: Path) -> None:
    before, log = build(tmp_path)
    last = [frame for frame in frames(before) if frame.kind == ENTRIES][-1]
    flip(before, last.offset + FRAME_HEADER.size + 3)
    flip(log, SNAPSHOT + FRAME_HEADER.size + 20)
    notes = repair(tmp_path).notes
    assert not any("what led to it" in note for note in notes)


def test_where_neither_is_whole_no_rule_comes_back_and_nothing_is_lost_to_groups(tmp_path: Path) -> None:
    """What a group was given in the log before was neither pending nor to be given: frames applied as they were."""
    before, log = build(tmp_path)
    bad = next(frame for frame in frames(before) if frame.kind == ENTRIES)
    flip(before, bad.offset + FRAME_HEADER.size + 3)
    flip(log, SNAPSHOT + FRAME_HEADER.size + 20)
    notes = repair(tmp_path).notes
    assert any(str(RetentionRule(max_entries=5).packed.decode()) in note and "taken away" in note for note in notes)
    with opened(tmp_path) as store:
        stream = store.stream("s")
        assert stream.retention is None
        pending = {str(row.id) for row in stream.group("g", create=False).pending_range(count=100)}
        assert set(SEEN) <= pending
