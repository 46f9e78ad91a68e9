"""Looking many IDs up at once finds what looking each of them up finds, whatever nodes and segments they lie in."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import diskstream
from diskstream import Entry, EntryID
from diskstream.engine import reader

ENTRIES = 60


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[diskstream.Stream]:
    """Three segments of nodes of seven rows and an active one; some entries are trimmed, some deleted."""
    with diskstream.open(tmp_path / "s", fsync="os", node_max_entries=7, seal="manual") as store:
        stream = store.stream("x")
        for start in range(0, ENTRIES, ENTRIES // 4):
            if start:
                stream.seal()
            stream.add_many([{"n": start + n} for n in range(15)], ids=[f"{2 * (start + n) + 1}-0" for n in range(15)])
        stream.trim(maxlen=ENTRIES - 3)
        stream.delete(*(f"{2 * n + 1}-0" for n in (6, 7, 8, 9, 10, 11, 12, 13, 20, 44, 59)))
        yield stream


def found_in(stream: diskstream.Stream, ids: list[EntryID]) -> dict[EntryID, Entry]:
    nothing: dict[EntryID, Entry] = {}
    return stream._use(lambda log: reader.find_many(log, ids), nothing)


@pytest.mark.parametrize("seed", range(40))
def test_the_same_is_found_as_one_by_one(stream: diskstream.Stream, seed: int) -> None:
    chance = random.Random(seed)
    some = [EntryID(chance.randrange(2 * ENTRIES + 2), chance.choice((0, 0, 1))) for _ in range(chance.randrange(90))]
    found = found_in(stream, some)
    alone = {each: stream.get(each) for each in some}
    assert {each: entry.fields for each, entry in found.items()} == {
        each: entry.fields for each, entry in alone.items() if entry is not None
    }
    assert all(each == entry.id for each, entry in found.items())


def test_all_of_them_are_found_at_once(stream: diskstream.Stream) -> None:
    ids = [entry.id for entry in stream.range()]
    chance = random.Random(7)
    shuffled = [*ids, *ids[::3]]
    chance.shuffle(shuffled)
    assert sorted(found_in(stream, shuffled)) == ids
