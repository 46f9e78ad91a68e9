"""`delete`: entries by ID, wherever they lie."""

import random
from pathlib import Path
from typing import Any

import pytest

from diskstream import EntryID, InvalidIDError, Store
from tests.streams.layers import MAX, MAX_ID, frames, ids, kinds, layered, log_of, nth_id, rows, small_store


def test_it_says_how_many_there_were(store: Store) -> None:
    stream = store.stream("x")
    for number in range(1, 6):
        stream.add({"n": number}, (number, 0))
    assert stream.delete("2-0") == 1
    assert stream.delete("2-0") == 0
    assert stream.delete("1-0", "2-0", "3-0", "3-1", "99-0", "0-0", MAX_ID) == 2
    assert stream.delete("4-0", b"4-0", 4, (4, 0), EntryID(4, 0)) == 1
    assert stream.delete() == 0
    assert ids(stream) == ["5-0"]
    assert len(stream) == 1


def test_of_a_stream_that_does_not_exist_nothing_is_deleted_and_none_is_made(store: Store) -> None:
    assert store.stream("x").delete("1-0") == 0
    assert not store.exists("x")


@pytest.mark.parametrize("bad", ["", "x", "-", "+", "$", "*", "5-*", "(5-0", None])
def test_one_malformed_id_leaves_all_where_they_are(store: Store, bad: Any) -> None:
    stream = store.stream("x")
    stream.add({"n": 1}, "5-0")
    with pytest.raises(InvalidIDError):
        stream.delete("5-0", bad)
    assert ids(stream) == ["5-0"]


def test_many_are_one_frame(store: Store) -> None:
    stream = store.stream("x")
    for number in range(1, 200):
        stream.add({"n": number}, (number, 0))
    before = frames(store)
    assert stream.delete(*((number, 0) for number in range(1, 200, 2))) == 100
    assert frames(store) == before + 1
    assert stream.delete("1-0", "77-5") == 0
    assert frames(store) == before + 1


def test_any_entry_of_any_segment_is_deleted_in_any_order(tmp_path: Path) -> None:
    """A third before reopening, a third after, a third after sealing and compacting: the rest stays what it was."""
    chance = random.Random(5)
    with small_store(tmp_path / "store") as store:
        made = layered(store)
        live = dict(made.live)
        order = list(live)
        chance.shuffle(order)
        parts = [order[:80], order[80:160], order[160:220]]
        for start in range(0, 80, 9):
            made.stream.delete(*parts[0][start : start + 9])
    for entry_id in parts[0]:
        del live[entry_id]
    with small_store(tmp_path / "store") as store:
        stream = store.stream("x")
        assert rows(stream) == sorted(live.items())
        for entry_id in parts[1]:
            assert stream.delete(entry_id) == 1
            del live[entry_id]
        assert rows(stream) == sorted(live.items())
        stream.seal()
        stream.compact()
        assert stream.delete(*parts[0], *parts[1], *parts[2]) == len(parts[2])
        for entry_id in parts[2]:
            del live[entry_id]
        assert rows(stream.range()) == rows(stream.revrange())[::-1] == sorted(live.items())
        assert [stream.get(entry_id) is not None for entry_id in order] == [entry_id in live for entry_id in order]
        assert len(stream) == len(live)
        assert store.verify().ok


def test_ids_between_entries_delete_nothing(small: Store) -> None:
    made = layered(small)
    gaps = [(nth_id(number).ms, nth_id(number).seq + 1) for number in range(made.added)]
    assert made.stream.delete(*gaps) == 0
    assert rows(made.stream) == made.live


def test_deleting_everything_leaves_an_empty_stream(store: Store) -> None:
    stream = store.stream("x")
    for number in range(1, 301):
        stream.add({"n": number}, (number, 0))
    stream.seal()
    stream.add({"n": 301}, "301-0")
    assert stream.delete(*((number, 0) for number in range(1, 302))) == 301
    assert store.exists("x")
    assert len(stream) == 0
    assert list(stream) == []
    info = stream.info()
    assert (info.last_generated_id, info.max_deleted_entry_id, info.entries_added) == (
        EntryID(301, 0),
        EntryID(301, 0),
        301,
    )
    assert stream.add({"n": 302}, "301-*") == EntryID(301, 1)


def test_a_segment_of_deleted_entries_only_is_removed(small: Store) -> None:
    made = layered(small)
    before = kinds(small)
    oldest = log_of(small).segments.views()[0]
    inside = [entry_id for entry_id, _ in made.live if entry_id <= oldest.last]
    made.delete(range(len(inside)))
    assert kinds(small) == before[1:]
    made.stream.seal()
    directory = log_of(small).directory
    assert not [path.name for path in directory.iterdir() if path.name.startswith(f"{oldest.number:08d}.")]
    assert rows(made.stream) == made.live


def test_a_queue_that_deletes_what_it_has_read_stays_small(small: Store) -> None:
    stream = small.stream("x")
    sizes = []
    for number in range(1, 2001):
        stream.add({"n": number, "pad": "." * 80}, (number, 0))
        if number > 10:
            assert stream.delete((number - 10, 0)) == 1
        if number % 500 == 0:
            stream.seal()
            sizes.append(stream.info().size_bytes)
    assert len(stream) == 10
    assert max(sizes) < 200_000
    assert stream.info().segments <= 3


def test_the_greatest_ids_can_be_deleted(store: Store) -> None:
    stream = store.stream("x")
    stream.add({"n": 1}, (MAX, MAX - 1))
    stream.add({"n": 2}, MAX_ID)
    assert stream.delete(MAX_ID) == 1
    stream.seal()
    assert stream.delete(MAX_ID) == 0
    assert stream.delete((MAX, MAX - 1)) == 1
    assert list(stream) == []
