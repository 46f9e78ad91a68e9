"""One call of `add_many` is one frame, however many entries it has: it is read as if they had come a few at a time."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

import diskstream
from diskstream import Entry, EntryID, Store, Stream

pytest.importorskip("pyarrow")

ENTRIES = 20_000
FEW = 100
IDS = [EntryID(5 + number // 7, number % 7 * 3) for number in range(ENTRIES)]


def row(number: int) -> dict[str, str]:
    """Of shapes that are met from the beginning, every now and then, and late."""
    fields = {"n": str(number)}
    if number % 5 == 0:
        fields["long"] = "x" * (number % 300)
    if number > ENTRIES // 2 and number % 3 == 0:
        fields[f"late {number % 4}"] = ""
    return fields


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    path: Path = tmp_path_factory.mktemp("frames") / "store"
    with diskstream.open(path) as opened:
        opened.stream("once").add_many([row(number) for number in range(ENTRIES)], ids=IDS)
        often = opened.stream("often")
        for first in range(0, ENTRIES, 50):
            often.add_many([row(number) for number in range(first, first + 50)], ids=IDS[first : first + 50])
        yield opened


Pieces = Iterator[Sequence[Entry]]


def plain(entries: Sequence[Entry]) -> list[tuple[EntryID, list[tuple[bytes, bytes]]]]:
    return [(entry.id, entry.pairs) for entry in entries]


def by_group(stream: Stream) -> Pieces:
    consumer = stream.group("group", start="0").consumer("consumer")
    while found := consumer.read(count=FEW, noack=True):
        yield found


def forwards(stream: Stream) -> Pieces:
    after = "-"
    while found := list(stream.range(after, "+", count=FEW)):
        yield found
        after = f"({found[-1].id}"


def backwards(stream: Stream) -> Pieces:
    before = "+"
    while found := list(stream.revrange(before, "-", count=FEW)):
        yield found
        before = f"({found[-1].id}"


@pytest.mark.parametrize("read", [by_group, forwards, backwards])
def test_a_large_frame_is_read_in_pieces_as_many_small_ones(store: Store, read: Callable[[Stream], Pieces]) -> None:
    once, often = ([plain(piece) for piece in read(store.stream(name))] for name in ("once", "often"))
    assert once == often
    assert sorted(each[0] for piece in once for each in piece) == IDS


def test_a_large_frame_is_scanned_as_many_small_ones(store: Store) -> None:
    once, often = (
        [each for batch in store.stream(name).scan(batch_rows=1000) for each in batch.to_pylist()]
        for name in ("once", "often")
    )
    assert len(once) == ENTRIES
    assert once == often


def test_in_a_large_frame_each_entry_is_found_and_nothing_between(store: Store) -> None:
    once = store.stream("once")
    for number in range(0, ENTRIES, 37):
        assert plain(list(filter(None, [once.get(IDS[number])]))) == [
            (IDS[number], [(name.encode(), value.encode()) for name, value in row(number).items()])
        ]
    for low, high in list(pairwise(IDS))[::101]:
        assert once.get(EntryID(low.ms, low.seq + 1)) is None
        assert [entry.id for entry in once.range(EntryID(low.ms, low.seq + 1), high)] == [high]
