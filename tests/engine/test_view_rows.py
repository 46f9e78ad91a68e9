"""Chunks of the view are found by the keys that they hold, in whatever order they are asked for."""

import random
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

from diskstream.engine import view_rows
from diskstream.engine.state import ViewDamaged
from diskstream.engine.view_rows import BY_CONSUMER, BY_ID, BY_TIME, Chunks

UUID = bytes(range(16))
GROUPS = {BY_ID: 7, BY_CONSUMER: 7, BY_TIME: 8}
FIRSTS = [10, 20, 21, 35, 60]  # keys of chunks: each holds what lies before the next


def key_of(number: int) -> bytes:
    return number.to_bytes(24)


@pytest.fixture
def env(tmp_path: Path) -> Iterator[lmdb.Environment]:
    with lmdb.open(str(tmp_path / "view"), map_size=1 << 20) as env:
        with env.begin(write=True) as txn:
            for order, group in GROUPS.items():
                index = view_rows.prefix(UUID, order, group)
                view_rows.put_chunks(txn, index, [(key_of(first), b"chunk %d" % first) for first in FIRSTS])
        yield env


def expected(number: int) -> tuple[bytes | None, bytes | None, bytes | None]:
    held = [first for first in FIRSTS if first <= number]
    after = [first for first in FIRSTS if first > number]
    found = (key_of(held[-1]), b"chunk %d" % held[-1]) if held else (None, None)
    return (*found, key_of(after[0]) if after else None)


@pytest.mark.parametrize("order", GROUPS)
def test_each_key_is_in_the_chunk_that_begins_last_before_it(env: lmdb.Environment, order: int) -> None:
    chance = random.Random(order)
    index = view_rows.prefix(UUID, order, GROUPS[order])
    with env.begin() as txn:
        assert [view_rows.chunk_at(txn, index, key_of(number)) for number in range(70)] == [*map(expected, range(70))]
        for _ in range(200):
            numbers = chance.choices(range(70), k=chance.randrange(1, 8))
            if chance.random() < 0.7:
                numbers.sort()  # as who looks for many does
            chunks = Chunks(txn, index)
            assert [chunks.at(key_of(number)) for number in numbers] == [*map(expected, numbers)], numbers


def test_an_index_without_chunks_holds_nothing(env: lmdb.Environment) -> None:
    with env.begin() as txn:
        chunks = Chunks(txn, view_rows.prefix(UUID, BY_ID, 8))
        assert [chunks.at(key_of(number)) for number in (1, 20, 99)] == [(None, None, None)] * 3


@pytest.mark.parametrize("number", [35, 60])
def test_a_damaged_chunk_is_told_whether_it_is_sought_or_gone_on_to(env: lmdb.Environment, number: int) -> None:
    index = view_rows.prefix(UUID, BY_ID, 7)
    with env.begin(write=True) as txn:
        value = bytearray(txn.get(index + key_of(number)) or b"")
        value[-1] ^= 1
        txn.put(index + key_of(number), bytes(value))
        with pytest.raises(ViewDamaged):
            Chunks(txn, index).at(key_of(number))
        chunks = Chunks(txn, index)
        assert chunks.at(key_of(12)) == expected(12)
        with pytest.raises(ViewDamaged):
            for each in (20, 21, 35, 60):
                chunks.at(key_of(each))
