"""The rule of retention in a damaged log: entries go by it, so it holds only where it is certain."""

from pathlib import Path

import pytest

import diskstream
from diskstream import RetentionRule
from diskstream.engine.layouts import ENTRIES, FRAME_HEADER, GROUPS
from tests.repair.test_cases import flip, folder, frames, repair

LAST = RetentionRule(max_entries=100_000)


def build(path: Path, *, clear: bool = False) -> Path:
    """A stream with a sealed segment and a rule, in whose active log the rule is another one, or gone. The log."""
    with diskstream.open(path, seal="manual", segment_bytes=1 << 20, retention_interval_ms=0) as store:
        stream = store.stream("s")
        stream.add({"n": "1"}, "1-0")
        stream.set_retention(max_entries=50_000)
        store.seal("s")
        for number in range(2, 6):
            stream.add({"n": str(number)}, f"{number}-0")
        if clear:
            stream.clear_retention()
        else:
            stream.set_retention(max_entries=100_000)
        stream.add({"n": "6"}, "6-0")
    (log,) = folder(path).glob("*.log")
    return log


def rule(path: Path) -> RetentionRule | None:
    with diskstream.open(path, create=False, retention_interval_ms=0) as store:
        assert store.verify().ok
        return store.stream("s").retention


def damage(log: Path, kind: int) -> None:
    bad = next(frame for frame in frames(log) if frame.kind == kind)
    flip(log, bad.offset + FRAME_HEADER.size + 3)


def test_a_rule_set_behind_the_damage_holds(tmp_path: Path) -> None:
    """It was taken for a record of a later version and left out: the rule before it was in force again."""
    damage(build(tmp_path), ENTRIES)
    assert repair(tmp_path).notes == []
    assert rule(tmp_path) == LAST


def test_a_rule_cleared_behind_the_damage_stays_cleared(tmp_path: Path) -> None:
    damage(build(tmp_path, clear=True), ENTRIES)
    repair(tmp_path)
    assert rule(tmp_path) is None


def test_where_what_changed_the_rule_is_lost_nothing_goes_by_the_one_before(tmp_path: Path) -> None:
    damage(build(tmp_path, clear=True), GROUPS)
    notes = repair(tmp_path).notes
    assert any('{"max_entries":50000' in note and "taken away" in note for note in notes)
    assert rule(tmp_path) is None


def test_where_the_active_log_is_lost_so_is_what_it_said_of_the_rule(tmp_path: Path) -> None:
    build(tmp_path, clear=True).unlink()
    assert any("rule of retention" in note for note in repair(tmp_path).notes)
    assert rule(tmp_path) is None


def test_a_rule_from_before_the_damage_holds_where_only_entries_are_lost(tmp_path: Path) -> None:
    log = build(tmp_path)
    bad = [frame for frame in frames(log) if frame.kind == ENTRIES][-1]
    flip(log, bad.offset + FRAME_HEADER.size + 3)
    assert [loss.entries for loss in repair(tmp_path).losses] == [1]
    assert rule(tmp_path) == LAST


@pytest.mark.parametrize("how", ["frame", "log"])
def test_a_rule_that_moves_stays_where_it_is_not_certain(tmp_path: Path, how: str) -> None:
    """It was taken away, and the next trim of a producer removed for good what would have been moved."""
    place = f"file://{tmp_path}/place"
    log = build(tmp_path / "store")
    with diskstream.open(tmp_path / "store", seal="manual", retention_interval_ms=0) as store:
        store.stream("s").set_retention(to=place, on_trim=True)
        if how == "log":
            store.seal("s")
        store.stream("s").group("g", start="0")
        store.stream("s").add({"n": "7"}, "7-0")
    if how == "log":
        max(folder(tmp_path / "store").glob("*.log")).unlink()
    else:
        flip(log, [frame for frame in frames(log) if frame.kind == GROUPS][-1].offset + FRAME_HEADER.size + 3)
    assert any(place in note and "is kept" in note for note in repair(tmp_path / "store").notes)
    with diskstream.open(tmp_path / "store", create=False, retention_interval_ms=0) as store:
        stream = store.stream("s")
        assert stream.retention == RetentionRule(to=place, on_trim=True)
        before = len(stream)
        stream.add({"n": "8"}, "8-0", maxlen=1)
        assert len(stream) == before + 1
