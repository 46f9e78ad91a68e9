"""The lag of groups after a repair that lost entries: what it says is so, or it says that nobody knows."""

from pathlib import Path

import pytest

import diskstream
from diskstream import Store
from diskstream.engine.layouts import DELETE, ENTRIES, FRAME_HEADER, REPLACE
from tests.repair.test_cases import flip, folder, frames, repair

EACH = 10


def opened(path: Path) -> Store:
    return diskstream.open(path, seal="manual", node_max_entries=EACH)


def build(path: Path, *, sealed: bool) -> None:
    """Three frames of ten entries, in a segment of their own each where they are sealed; a group that has read some."""
    with opened(path) as store:
        stream = store.stream("s")
        for part in range(1, 4):
            stream.add_many([{"n": "1"}] * EACH, ids=[f"{part}-{number}" for number in range(EACH)])
            if sealed:
                stream.seal()
        for name, count in (("before", 5), ("within", 15), ("behind", 25)):
            stream.group(name, start="0").consumer("a").read(count=count)


@pytest.mark.parametrize("how", ["frame", "node", "file"])
def test_no_lag_counts_what_is_lost(tmp_path: Path, how: str) -> None:
    """It was above what there is to read for ever, or below zero: who adds consumers by it is told a falsehood."""
    build(tmp_path, sealed=how != "frame")
    if how == "frame":
        (log,) = folder(tmp_path).glob("*.log")
        flip(log, [frame for frame in frames(log) if frame.kind == ENTRIES][1].offset + FRAME_HEADER.size + 3)
    elif how == "node":
        flip(folder(tmp_path) / "00000002.seg", 64 + 32 + 3)
    else:
        (folder(tmp_path) / "00000002.seg").unlink()
    assert [loss.entries for loss in repair(tmp_path).losses] == [EACH]
    with opened(tmp_path) as store:
        stream = store.stream("s")
        assert len(stream) == 2 * EACH
        behind = stream.group("behind", create=False).info()
        assert (behind.entries_read, behind.lag) == ((None, None) if how == "frame" else (25, 5))
        for name in ("before", "within", "behind"):
            group = stream.group(name, create=False)
            while True:
                info = group.info()
                assert info.lag in (None, len(list(stream.range(f"({info.last_delivered_id}"))))
                if not group.consumer("a").read(count=2):
                    break
            assert group.info().lag == 0
        stream.add({"n": "2"})
        assert {group.lag for group in stream.groups()} == {1}


def test_no_lag_counts_what_a_compaction_left_out_where_the_deletes_are_lost(tmp_path: Path) -> None:
    build(tmp_path, sealed=True)
    with opened(tmp_path) as store:
        store.stream("s").delete("2-7", "3-8")
        store.compact("s")
    (log,) = folder(tmp_path).glob("*.log")
    for bad in [frame for frame in frames(log) if frame.kind in (DELETE, REPLACE)]:
        flip(log, bad.offset + FRAME_HEADER.size + 3)
    assert any("is listed again" in note for note in repair(tmp_path).notes)
    with opened(tmp_path) as store:
        stream = store.stream("s")
        assert len(stream) == 3 * EACH - 2
        for group in stream.groups():
            assert group.lag in (None, len(list(stream.range(f"({group.last_delivered_id}"))))
