"""The copy of a snapshot that stands by itself: a queue that was consumed is mended by it, groups and all."""

from pathlib import Path

import pytest

import diskstream
from diskstream import EntryID
from tests.engine.sample import SMALL, log_of
from tests.repair.test_cases import flip, repair

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
