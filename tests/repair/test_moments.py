"""Files of several moments in one stream: a copy made beside a compaction, an earlier log in place of a later one."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import diskstream
from diskstream import CorruptionError, EntryID, Repair, Stream
from tests.engine.sample import SMALL, log_of

_BEFORE = 10


def fill(path: Path) -> Path:
    """Two sealed segments of five entries, and an active log; its directory."""
    with diskstream.open(path, **SMALL) as store:
        stream = store.stream("x")
        for number in range(1, _BEFORE + 1):
            stream.add({"n": str(number)}, EntryID(number, 1))
            if number % 5 == 0:
                stream.seal()
        stream.add({"n": "last"}, "100-1")
    return path / "streams" / "x"


def change(path: Path, *moves: Callable[[Stream], object]) -> None:
    with diskstream.open(path, **SMALL) as store:
        for move in moves:
            move(store.stream("x"))


def delete(*numbers: int) -> Callable[[Stream], object]:
    return lambda stream: stream.delete(*(EntryID(number, 1) for number in numbers))


def trim(first: int) -> Callable[[Stream], object]:
    return lambda stream: stream.trim(minid=EntryID(first, 1))


def compact(stream: Stream) -> object:
    return stream.compact()


def numbers(path: Path) -> list[int]:
    with diskstream.open(path, **SMALL) as store:
        assert store.verify().ok
        entries = list(store.stream("x").range())
        assert len(store.stream("x")) == len(entries)
    assert entries[-1].fields == {b"n": b"last"}
    assert [entry[b"n"] for entry in entries[:-1]] == [str(entry.id.ms).encode() for entry in entries[:-1]]
    return [entry.id.ms for entry in entries[:-1]]


def repaired(path: Path) -> Repair:
    shown = [vars(report) | {"kept": []} for report in diskstream.repair(path, dry_run=True)]
    (report,) = diskstream.repair(path)
    assert [(each["actions"], each["notes"]) for each in shown] == [(report.actions, report.notes)]
    assert [report.failed, *diskstream.verify(path).problems] == [""]
    return report


def copied_beside_a_compaction(
    tmp_path: Path, before: list[Callable[[Stream], object]], behind: list[Callable[[Stream], object]]
) -> Path:
    """Segments are copied, then they are compacted, then the log is copied, which lists what was not there to copy."""
    folder, copy = fill(tmp_path / "live"), tmp_path / "copy"
    change(tmp_path / "live", *before)
    shutil.copytree(tmp_path / "live", copy)
    change(tmp_path / "live", compact, *behind)
    shutil.copy(folder / "00000003.log", copy / "streams" / "x")
    return copy


def test_what_a_missing_segment_was_compacted_from_is_not_removed(tmp_path: Path) -> None:
    """It was: opening the copy removed all that it had, as dropped."""
    copy = copied_beside_a_compaction(tmp_path, [], [])
    folder = copy / "streams" / "x"
    for _ in range(2):
        with diskstream.open(copy, **SMALL) as store, pytest.raises(CorruptionError, match=r"00000001\.g1\.seg"):
            list(store.stream("x").range())
        change(copy, lambda stream: stream.add({"n": "more"}), lambda stream: stream.trim(maxlen=11))
    assert [each.name for each in sorted(folder.glob("*.seg"))] == ["00000001.seg", "00000002.seg"]


@pytest.mark.parametrize("is_opened", [False, True])
def test_it_is_made_anew_from_them(tmp_path: Path, *, is_opened: bool) -> None:
    copy = copied_beside_a_compaction(tmp_path, [trim(3)], [delete(5, 8), trim(4)])
    if is_opened:
        change(copy)
    report = repaired(copy)
    assert (report.losses, report.notes) == ([], [])
    assert report.actions == [
        "wrote segment 1 anew, whose file is missing, from 00000001.seg, 00000002.seg",
    ]
    assert sorted(path.name.partition("-")[0] for path in report.kept) == ["00000001.seg", "00000002.seg"]
    assert numbers(copy) == [4, 6, 7, 9, 10]
    assert numbers(copy) == numbers(tmp_path / "live")
    assert not (copy / "streams" / "x" / "00000002.seg").exists(), "it is of no more use"


def test_where_entries_were_deleted_before_they_are_there_again_and_that_is_said(tmp_path: Path) -> None:
    copy = copied_beside_a_compaction(tmp_path, [delete(2, 7)], [trim(4)])
    report = repaired(copy)
    assert report.losses == []
    assert report.notes == ["segment 1: entries that were deleted or trimmed may be there again"]
    there = numbers(copy)
    assert set(there) >= {4, 5, 6, 8, 9, 10}, "none that was live is lost"
    assert 1 not in there, "certainly trimmed"


def test_what_is_not_there_of_it_is_said(tmp_path: Path) -> None:
    copy = copied_beside_a_compaction(tmp_path, [], [])
    (copy / "streams" / "x" / "00000002.seg").unlink()
    report = repaired(copy)
    assert [(loss.first, loss.last, loss.entries) for loss in report.losses] == [("1-1", "10-1", 5)]
    assert numbers(copy) == [1, 2, 3, 4, 5]


def test_a_rolled_log_that_was_copied_before_it_was_sealed_and_compacted_is_one_of_them(tmp_path: Path) -> None:
    folder = tmp_path / "live" / "streams" / "x"
    with diskstream.open(tmp_path / "live", **SMALL) as store:
        stream = store.stream("x")
        for number in range(1, _BEFORE + 1):
            stream.add({"n": str(number)}, EntryID(number, 1))
            if number == 5:
                stream.seal()
        log_of(store).roll()
        stream.add({"n": "last"}, "100-1")
    shutil.copytree(tmp_path / "live", tmp_path / "copy")
    assert (folder / "00000002.log").exists()
    change(tmp_path / "live", compact)
    shutil.copy(folder / "00000003.log", tmp_path / "copy" / "streams" / "x")
    report = repaired(tmp_path / "copy")
    assert report.actions == ["wrote segment 1 anew, whose file is missing, from 00000001.seg, 00000002.log"]
    assert (report.losses, numbers(tmp_path / "copy")) == ([], list(range(1, _BEFORE + 1)))


@pytest.mark.parametrize("is_opened", [False, True])
def test_an_earlier_log_has_its_segments_from_what_they_were_compacted_into(tmp_path: Path, *, is_opened: bool) -> None:
    """They were taken off the list: all their entries were lost, though a file had them."""
    folder = fill(tmp_path)
    shutil.copy(folder / "00000003.log", tmp_path / "earlier")
    change(tmp_path, delete(4), compact)
    shutil.copy(tmp_path / "earlier", folder / "00000003.log")
    if is_opened:
        change(tmp_path)  # what the log does not list goes into quarantine
    report = repaired(tmp_path)
    assert report.losses == []
    assert [action.partition(", from 00000001.g1.seg")[0] for action in report.actions] == [
        f"wrote segment {number} anew, whose file is missing" for number in (1, 2)
    ]
    assert ["into has 4 of its 5 entries" in note for note in report.notes[-1:]] == [True]
    assert numbers(tmp_path) == [1, 2, 3, 5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize("is_moved", [False, True])
def test_what_lies_in_quarantine_under_the_name_that_a_file_would_get_stays_and_the_file_is_kept_too(
    tmp_path: Path, *, is_moved: bool
) -> None:
    """As in a store that was copied to another disk: the names in quarantine are of inodes of the old one."""
    folder = fill(tmp_path)
    damaged = folder / ("00000009.seg" if is_moved else "00000001.seg")
    content = bytearray((folder / "00000001.seg").read_bytes())
    content[100] ^= 1
    damaged.write_bytes(bytes(content))
    other = folder / "quarantine" / f"{damaged.name}-{damaged.stat().st_ino:x}"
    other.parent.mkdir()
    other.write_bytes(b"of an earlier repair")
    (report,) = diskstream.repair(tmp_path)
    assert other.read_bytes() == b"of an earlier repair"
    assert [path.read_bytes() for path in report.kept if path != other] == [bytes(content)]


def test_of_segments_that_are_missing_at_the_end_nobody_can_tell_how_far_they_went(tmp_path: Path) -> None:
    """Their range had the greatest ID that there may be for its end."""
    folder = tmp_path / "streams" / "x"
    change(tmp_path, lambda stream: stream.add({"n": "1"}, "1-1"))
    shutil.copy(folder / "00000001.log", tmp_path / "first")
    for number in (2, 3):
        change(tmp_path, lambda stream, number=number: stream.add({"n": "more"}, EntryID(number, 1)))  # type: ignore[misc]  # bound now
        change(tmp_path, lambda stream: stream.group("g", start="0").consumer("c").read(), lambda stream: stream.seal())
    for path in folder.iterdir():
        if path.suffix not in {"", ".audit"}:
            path.unlink()
    shutil.copy(tmp_path / "first", folder / "00000001.log")
    (report,) = diskstream.repair(tmp_path)
    missing = [loss for loss in report.losses if "segments 2 to 2 are not there" in loss.what]
    assert [(loss.first, loss.last) for loss in missing] == [("1-2", "")]
