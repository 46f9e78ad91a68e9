"""An earlier moment that lies within a batch, or between two settings of the last ID: nothing of before is missing."""

from pathlib import Path

import pytest

import diskstream
from diskstream import EntryID
from diskstream.backups import Wanted, find_backup, make_backup, restore


def restored(tmp_path: Path, until: str) -> tuple[str, list[str], str]:
    """The way, the IDs of the entries, and the last ID."""
    place = tmp_path / f"at {until}"
    found = restore(find_backup(tmp_path / "b"), place, Wanted(until=EntryID(until)))
    with diskstream.open(place, read_only=True) as store:
        stream = store.stream("x")
        (rewound,) = found.streams.values()
        return rewound.way, [str(entry.id) for entry in stream.range()], str(stream.last_id())


@pytest.mark.parametrize("until", [3, 9, 10])
def test_a_batch_is_there_as_it_was_before_others_removed_of_it(tmp_path: Path, until: int) -> None:
    """What was trimmed and deleted later was missing, and that is what such a restore is for."""
    with diskstream.open(tmp_path / "s") as store:
        stream = store.stream("x")
        stream.add({"n": 0}, id="0-1")
        stream.add_many([{"n": n} for n in range(1, 11)], ids=[(n, 0) for n in range(1, 11)])
        stream.delete("2-0")
        stream.add({"n": 100}, id="100-0")
        stream.trim(maxlen=2)
    make_backup(tmp_path / "s", tmp_path / "b")
    expected = ["0-1", *(f"{n}-0" for n in range(1, until + 1) if until < 10 or n != 2)]
    assert restored(tmp_path, f"{until}-0") == ("cut", expected, f"{until}-0")


def test_a_last_id_that_was_set_and_set_back_is_no_end(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s") as store:
        stream = store.stream("x")
        for number in range(1, 6):
            stream.add({"n": number}, id=f"{number}-0")
        stream.set_id("1000-0")
        stream.set_id("5-0")
        for number in range(6, 11):
            stream.add({"n": number}, id=f"{number}-0")
    make_backup(tmp_path / "s", tmp_path / "b")
    assert restored(tmp_path, "8-0") == ("cut", [f"{number}-0" for number in range(1, 9)], "8-0")


def test_where_something_was_added_in_between_the_entries_are_exact(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "s", seal="manual") as store:
        stream = store.stream("x")
        stream.add({"n": 1}, id="1-0")
        stream.add({"n": 1000}, id="1000-0")
        stream.trim(minid="1000-1")
        stream.set_id("1-0")
        stream.add({"n": 2}, id="2-0")
        stream.add({"n": 3}, id="3-0")
    make_backup(tmp_path / "s", tmp_path / "b")
    _, there, _ = restored(tmp_path, "2-0")
    assert there == ["2-0"]
