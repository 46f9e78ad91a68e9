"""`set_id`: the last ID and the counters, as XSETID, with all that stands against them."""

from pathlib import Path
from typing import Any

import pytest

from diskstream import ArgumentError, EntryID, IDExhaustedError, IDOrderError, InvalidIDError, NoSuchStreamError, Store
from tests.streams.layers import MAX_ID, ids, layered, rows, small_store


def state(store: Store) -> tuple[int, str, int, str]:
    info = store.stream("x").info()
    return info.length, str(info.last_generated_id), info.entries_added, str(info.max_deleted_entry_id)


@pytest.fixture
def five(store: Store) -> Store:
    """Entries 1-0 to 5-0 were added; 2-0 was deleted, 5-0 too."""
    stream = store.stream("x")
    for number in range(1, 6):
        stream.add({"n": number}, (number, 0))
    stream.delete("2-0", "5-0")
    assert state(store) == (3, "5-0", 5, "5-0")
    return store


def test_the_last_id_moves_and_the_next_entry_comes_behind_it(five: Store) -> None:
    stream = five.stream("x")
    stream.set_id("70-5")
    assert state(five) == (3, "70-5", 5, "5-0")
    with pytest.raises(IDOrderError):
        stream.add({"n": 6}, "70-5")
    assert stream.add({"n": 6}, "70-*") == EntryID(70, 6)
    assert ids(stream) == ["1-0", "3-0", "4-0", "70-6"]


def test_the_counters_may_be_set_with_it(five: Store) -> None:
    stream = five.stream("x")
    stream.set_id("9-0", entries_added=100)
    assert state(five) == (3, "9-0", 100, "5-0")
    stream.set_id("9-0", max_deleted_id="8-3")
    assert state(five) == (3, "9-0", 100, "8-3")
    stream.set_id("10-0", entries_added=3, max_deleted_id="10-0")
    assert state(five) == (3, "10-0", 3, "10-0")
    stream.add({"n": 1}, "11-0")
    assert state(five) == (4, "11-0", 4, "10-0")


def test_zero_as_greatest_deleted_id_leaves_it_as_it_is(five: Store) -> None:
    five.stream("x").set_id("9-0", max_deleted_id="0-0")
    assert state(five) == (3, "9-0", 5, "5-0")


@pytest.mark.parametrize("given", ["9", b"9-0", 9, (9, 0), EntryID(9, 0)])
def test_ids_may_be_given_in_any_form(five: Store, given: Any) -> None:
    five.stream("x").set_id(given, max_deleted_id=given)
    assert state(five) == (3, "9-0", 5, "9-0")


SMALLER = "The ID specified in XSETID is smaller than "


@pytest.mark.parametrize(
    ("given", "options", "text"),
    [
        ("6-0", {"max_deleted_id": "6-1"}, SMALLER + "the provided max_deleted_entry_id"),
        ("4-9", {}, SMALLER + "current max_deleted_entry_id"),
        ("4-9", {"max_deleted_id": "1-0"}, SMALLER + "current max_deleted_entry_id"),
        ("9-0", {"entries_added": 2}, "The entries_added specified in XSETID is smaller than the target stream length"),
        ("9-0", {"entries_added": -1}, "entries_added must be positive"),
        ("9-0", {"entries_added": 2**64}, f"value is not an integer or out of range: entries_added is {2**64}"),
    ],
)
def test_what_contradicts_the_stream_is_refused_in_the_words_of_redis(
    five: Store, given: str, options: dict[str, Any], text: str
) -> None:
    before = state(five)
    with pytest.raises(ArgumentError) as caught:
        five.stream("x").set_id(given, **options)
    assert str(caught.value) == text
    assert state(five) == before


def test_it_does_not_go_below_the_newest_entry(store: Store) -> None:
    stream = store.stream("x")
    stream.add({"n": 1}, "5-3")
    with pytest.raises(ArgumentError) as caught:
        stream.set_id("5-2")
    assert str(caught.value) == SMALLER + "the target stream top item"
    stream.set_id("5-3")
    assert state(store) == (1, "5-3", 1, "0-0")


@pytest.mark.parametrize("bad", ["", "x", "+", "-", "$", "*", "5-*", None])
def test_a_malformed_id_is_refused(five: Store, bad: Any) -> None:
    before = state(five)
    with pytest.raises(InvalidIDError):
        five.stream("x").set_id(bad)
    if bad is not None:
        with pytest.raises(InvalidIDError):
            five.stream("x").set_id("9-0", max_deleted_id=bad)
    assert state(five) == before


def test_the_stream_must_exist(store: Store) -> None:
    with pytest.raises(NoSuchStreamError, match=r"^no such key") as caught:
        store.stream("x").set_id("5-0")
    assert caught.value.name == b"x"
    assert not store.exists("x")


def test_at_the_last_possible_id_the_stream_is_exhausted(five: Store) -> None:
    stream = five.stream("x")
    stream.set_id(MAX_ID)
    with pytest.raises(IDExhaustedError):
        stream.add({"n": 1})
    stream.set_id("5-0")
    assert stream.add({"n": 1}, "5-*") == EntryID(5, 1)


def test_it_is_kept_over_rolls_and_reopening(tmp_path: Path) -> None:
    with small_store(tmp_path / "store") as store:
        made = layered(store)
        made.stream.set_id("99999-7", entries_added=12_345, max_deleted_id="9999-1")
    for _ in range(2):
        with small_store(tmp_path / "store") as store:
            assert state(store) == (len(made.live), "99999-7", 12_345, "9999-1")
            assert rows(store.stream("x")) == made.live
            store.stream("x").seal()
            store.stream("x").compact()
    with small_store(tmp_path / "store") as store:
        assert store.stream("x").add({"n": 1}, "99999-*") == EntryID(99_999, 8)


def test_an_empty_stream_may_begin_anew_with_smaller_ids(small: Store) -> None:
    stream = small.stream("x")
    for number in range(1, 200):
        stream.add({"n": number, "pad": "." * 90}, (number, 0))
    stream.trim(maxlen=0)
    stream.set_id("0-0")
    assert [stream.add({"n": number}, (number, 0)) for number in range(1, 4)] == [
        EntryID(1, 0),
        EntryID(2, 0),
        EntryID(3, 0),
    ]
    stream.seal()
    assert ids(stream) == ["1-0", "2-0", "3-0"]
    assert small.verify().ok


@pytest.mark.parametrize("sealed", ["not", "before the delete", "after the delete", "after the new entry"])
def test_ids_of_deleted_entries_at_the_end_may_be_given_again(tmp_path: Path, sealed: str) -> None:
    """XSETID may lower the greatest deleted ID, then the last ID down to the newest live entry."""
    with small_store(tmp_path / "store") as store:
        stream = store.stream("x")
        for number in range(1, 11):
            stream.add({"n": number}, (number, 0))
        if sealed == "before the delete":
            stream.seal()
        stream.delete("8-0", "9-0", "10-0")
        if sealed == "after the delete":
            stream.seal()
        stream.set_id("10-0", max_deleted_id="1-0")
        stream.set_id("7-0")
        for number in (8, 9, 12):
            stream.add({"again": number}, (number, 0))
        stream.delete("9-0")
        if sealed == "after the new entry":
            stream.seal()
        check_given_again(store)
    with small_store(tmp_path / "store") as store:
        check_given_again(store)
        store.seal()
        store.compact()
        check_given_again(store)
        assert store.verify().ok


def check_given_again(store: Store) -> None:
    stream = store.stream("x")
    expected = [*(f"{number}-0" for number in range(1, 9)), "12-0"]
    assert ids(stream.range()) == ids(stream.revrange())[::-1] == expected
    assert [entry_id for entry_id in (f"{number}-0" for number in range(14)) if stream.get(entry_id)] == expected
    assert ids(stream.range("8", "11")) == ["8-0"]
    assert stream.get("8-0")["again"] == b"8"  # type: ignore[index]  # it is there
    assert len(stream) == 9
    assert [f"{ms}-0" for ms in stream.columns().ms.tolist()] == expected
