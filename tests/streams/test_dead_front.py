"""A stream whose front, or whose end, was deleted: what is gone is not unpacked to find what is left."""

import random
from pathlib import Path

import pytest

import diskstream
from diskstream import EntryID, Store
from diskstream.engine import reader
from tests.engine.sample import SMALL, log_of

ALL = EntryID(0, 0), EntryID(2**64 - 1, 2**64 - 1)


def made(path: Path, kind: str, *, front: bool = False) -> tuple[Store, list[EntryID]]:
    """A stream of a segment of one kind, of which some entries in the middle are left, and some at the end."""
    store = diskstream.open(path, **{**SMALL, "segment_bytes": 1 << 20})
    stream = store.stream("x")
    ids = [one for _ in range(30) for one in stream.add_many([{"n": "1"}] * 100)]
    if kind == "rows":
        log_of(store).roll()
    elif kind == "sealed":
        stream.seal()
    left = ids[:10] + ids[1700:1703] if front else ids[1700:1703] + ids[2990:]
    stream.delete(*(set(ids) - set(left)))
    return store, left


@pytest.mark.parametrize("kind", ["active", "rows", "sealed"])
def test_a_read_begins_at_the_first_entry_that_is_left(tmp_path: Path, kind: str) -> None:
    store, left = made(tmp_path / "s", kind)
    with store:
        stream = store.stream("x")
        found = list(reader.blocks(log_of(store), *ALL, enough=1))
        assert found[0].id_at(found[0].row_count - 1) >= left[0] >= found[0].id_at(0)
        assert kind == "sealed" or found[0].id_at(0) == left[0]
        assert sum(block.row_count for block in found) < 1310, "nothing is unpacked but what lies behind"
        assert kind != "sealed" or len(found) <= 5, "nodes in which nothing is left are passed over"
        assert [entry.id for entry in stream.range()] == left
        assert [entry.id for entry in stream.revrange()] == left[::-1]
        assert [entry.id for entry in stream.read("0", count=100)] == left
        assert [entry.id for entry in stream.read(left[1])] == left[2:]
        assert reader.first_id(log_of(store)) == left[0]
        assert [entry.id for entry in stream.group("g", start="0").consumer("c").read(count=100)] == left
        stream.delete(*left[:-1])
        assert [entry.id for entry in stream.range()] == left[-1:]
        stream.delete(left[-1])
        assert list(stream.range()) == list(stream.read("0")) == []
        last = stream.add({"n": "2"})
        assert [entry.id for entry in stream.range()] == [entry.id for entry in stream.read("0")] == [last]
        assert store.verify().ok


@pytest.mark.parametrize("kind", ["active", "rows", "sealed"])
def test_a_read_backwards_begins_at_the_last_entry_that_is_left(tmp_path: Path, kind: str) -> None:
    store, left = made(tmp_path / "s", kind, front=True)
    with store:
        stream = store.stream("x")
        found = list(reader.blocks(log_of(store), *ALL, reverse=True, enough=1))
        assert found[0].id_at(found[0].row_count - 1) >= left[-1] >= found[0].id_at(0)
        assert kind == "sealed" or found[0].id_at(found[0].row_count - 1) == left[-1]
        assert kind != "sealed" or len(found) <= 5, "nodes in which nothing is left are passed over"
        assert [entry.id for entry in stream.revrange()] == left[::-1]
        assert [entry.id for entry in stream.revrange(left[-2], left[1])] == left[1:-1][::-1]
        assert [entry.id for entry in stream.read("+")] == left[-1:]
        stream.delete(*left[1:])
        assert [entry.id for entry in stream.revrange()] == left[:1]
        stream.delete(left[0])
        assert list(stream.revrange()) == []
        last = stream.add({"n": "2"})
        assert [entry.id for entry in stream.revrange()] == [last]


@pytest.mark.parametrize("kind", ["active", "rows", "sealed"])
@pytest.mark.parametrize("seed", range(12))
def test_whatever_was_deleted_the_rest_is_read_from_anywhere(tmp_path: Path, kind: str, seed: int) -> None:
    rng = random.Random(seed)
    with diskstream.open(tmp_path / "s", **{**SMALL, "segment_bytes": 1 << 20}) as store:
        stream = store.stream("x")
        ids = stream.add_many([{"n": "1"}] * 400)
        if kind == "rows":
            log_of(store).roll()
        elif kind == "sealed":
            stream.seal()
        left = list(ids)
        while left:
            at, share = rng.randrange(len(left)), rng.choice([1, 3, 40, 64, 130])
            gone = left[at : at + share]
            stream.delete(*gone)
            left = [entry_id for entry_id in left if entry_id not in set(gone)]
            low, high = sorted(rng.choices(ids, k=2))
            within = [entry_id for entry_id in left if low <= entry_id <= high]
            count = rng.choice([1, 2, 500])
            assert [entry.id for entry in stream.range(low, high, count=count)] == within[:count]
            assert [entry.id for entry in stream.revrange(high, low, count=count)] == within[::-1][:count]
            behind = [entry_id for entry_id in left if entry_id > low]
            assert [entry.id for entry in stream.read(low, count=count)] == behind[:count]
            assert [entry.id for entry in stream.range()] == left
