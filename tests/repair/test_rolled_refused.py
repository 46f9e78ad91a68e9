"""Where the log before the active one does not lead to its beginning, the damaged snapshot is not made anew from it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diskstream.engine import salvage_rolled
from diskstream.engine.frames import read_all
from diskstream.engine.layouts import ENTRIES, FRAME_HEADER
from diskstream.engine.recovery import left_behind_mark
from tests.repair.test_cases import flip, frames, repair
from tests.repair.test_rolled import SNAPSHOT, build

DAMAGES = {"payload": FRAME_HEADER.size + 20, "header": 9}


def leads_there(path: Path) -> bool:
    return any("made anew from what led to it in 00000002.log" in note for note in repair(path).notes)


def lose_end(log: Path) -> None:
    """The disk lost what was last written, and gives zeros for it: a log that looks whole, and ends earlier."""
    last = [frame for frame in frames(log) if frame.kind == ENTRIES][-1]
    data = bytearray(log.read_bytes())
    data[last.offset :] = bytes(len(data) - last.offset)
    log.write_bytes(data)


def lose_mark(log: Path) -> None:
    """It does not say any more that another one followed it."""
    at, mark = left_behind_mark(3)
    data = bytearray(log.read_bytes())
    assert data[at : at + len(mark)] == mark
    data[at : at + len(mark)] = bytes(len(mark))
    log.write_bytes(data)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_log_before_that_has_lost_its_end(tmp_path: Path, damage: str) -> None:
    """It would be an earlier state: what was added or acknowledged since would be undone without a word."""
    before, log = build(tmp_path)
    lose_end(before)
    flip(log, SNAPSHOT + DAMAGES[damage])
    assert not leads_there(tmp_path)


@pytest.mark.parametrize(("change", "leads"), [(lambda _: None, True), (lose_mark, False)], ids=["marked", "not"])
def test_where_nothing_is_left_of_the_log_the_mark_in_the_one_before_must_say_that_it_was_whole(
    tmp_path: Path, change: Callable[[Path], None], leads: bool
) -> None:
    before, log = build(tmp_path)
    change(before)
    log.write_bytes(b"")
    assert leads_there(tmp_path) is leads


def test_a_log_before_of_which_the_disk_does_not_give_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not mapped: a look at such a block ends the process."""
    before, log = build(tmp_path)

    def with_bad_block(path: Path) -> Any:
        data, bad = read_all(path)
        return (data, [8192]) if path == before else (data, bad)

    monkeypatch.setattr(salvage_rolled, "read_all", with_bad_block)
    flip(log, SNAPSHOT + DAMAGES["payload"])
    assert not leads_there(tmp_path)
