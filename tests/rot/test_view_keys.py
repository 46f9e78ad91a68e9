"""A bit of a view's keys: who looks for the row does not come upon its checksum, so all are looked at beforehand."""

import shutil
from pathlib import Path

import pytest

import diskstream
from diskstream import EntryID, Store
from diskstream.engine.view_pages import read_rows
from tests.engine.sample import SMALL

UUID_BYTES, KEY_BYTES = 16, 45


def opened(path: Path) -> Store:
    return diskstream.open(path, **SMALL, pending_rows=4)


def pending(store: Store) -> list[tuple[EntryID, bytes, int]]:
    rows = store.stream("x").group("g", create=False).pending_range()
    return [(row.id, row.consumer, row.deliveries) for row in rows]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[EntryID, bytes, int]]]:
    path = tmp_path_factory.mktemp("view") / "s"
    with opened(path) as store:
        stream = store.stream("x")
        stream.add_many([{"n": number} for number in range(30)])
        group = stream.group("g", start="0")
        group.consumer("ann").read(count=12)
        group.consumer("bob").read(count=12)
        return path, pending(store)


@pytest.mark.parametrize("order", range(3))
@pytest.mark.parametrize("at", range(KEY_BYTES))
def test_a_bit_of_any_byte_of_a_key_loses_nothing(
    tmp_path: Path, made: tuple[Path, list[tuple[EntryID, bytes, int]]], order: int, at: int
) -> None:
    sound, expected = made
    path = shutil.copytree(sound, tmp_path / "s")
    data = path / "view" / "data.mdb"
    whole = data.read_bytes()
    keys = [key for key, _ in read_rows(data) if len(key) == KEY_BYTES and key[UUID_BYTES] == order]
    assert keys
    place = whole.rindex(keys[-1])  # the last one that was written is the one in use
    spoilt = bytearray(whole)
    spoilt[place + at] ^= 0x40
    data.write_bytes(spoilt)
    with opened(path) as store:
        assert pending(store) == expected
        assert store.verify().problems == []
