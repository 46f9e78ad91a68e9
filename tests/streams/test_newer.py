"""A look for what is new is one native call where nothing stands in the way, and says what the long way says."""

from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import Entry, EntryID, Stream, reading
from tests.engine.sample import log_of


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch, no_keepers: None) -> list[bool]:
    """Of each look whether it took the short way: none finds a roll followed by a keeper already."""
    gone: list[bool] = []
    newer = reading._newer

    def counted(*given: Any) -> list[Entry] | None:
        found = newer(*given)
        gone.append(found is not None)
        return found

    monkeypatch.setattr("diskstream.reading._newer", counted)
    return gone


def filled(stream: Stream, entries: int) -> list[EntryID]:
    return stream.add_many([{"n": number} for number in range(entries)])


def read(stream: Stream, after: EntryID | str, **how: Any) -> list[int]:
    return [int(entry[b"n"]) for entry in stream.read(after, **how)]


@pytest.mark.parametrize("fsync", ["everysec", "always"])
def test_what_is_behind_an_id_is_found_at_once(fsync: str, short: list[bool], tmp_path: Path) -> None:
    with diskstream.open(tmp_path, fsync=fsync) as store:
        stream = store.stream("x")
        ids = filled(stream, 50)
        stream.delete(ids[20], ids[49])
        rest = [number for number in range(50) if number not in (20, 49)]
        for after in (0, 19, 20, 47, 48, 49):
            assert read(stream, ids[after]) == [number for number in rest if number > after]
            assert read(stream, ids[after], count=3) == [number for number in rest if number > after][:3]
        assert read(stream, "$") == []
        assert read(stream, "0") == rest
        stream.trim(maxlen=10)
        assert read(stream, "0") == rest[-10:]
    assert all(short)


@pytest.mark.parametrize("entries", [1023, 1024, 3000])
def test_many_are_found_the_long_way(entries: int, short: list[bool], tmp_path: Path) -> None:
    with diskstream.open(tmp_path) as store:
        stream = store.stream("x")
        filled(stream, entries)
        assert read(stream, "0") == list(range(entries))
        assert read(stream, "0", count=1024) == list(range(min(entries, 1024)))
    assert short == [entries < 1024, True]


def test_large_ones_are_found_the_long_way(short: list[bool], tmp_path: Path) -> None:
    with diskstream.open(tmp_path) as store:
        stream = store.stream("x")
        for number in range(5):
            stream.add({"n": number, "much": bytes(1 << 20)})
        assert read(stream, "0") == list(range(5))
    assert short == [False]


def test_what_is_sealed_is_found_the_long_way(short: list[bool], tmp_path: Path) -> None:
    with diskstream.open(tmp_path) as store:
        stream = store.stream("x")
        ids = filled(stream, 10)
        stream.seal()
        filled(stream, 2)
        assert read(stream, ids[3]) == [4, 5, 6, 7, 8, 9, 0, 1]
        assert read(stream, ids[9]) == [0, 1]
    assert short == [False, True]


def test_others_are_followed(short: list[bool], tmp_path: Path) -> None:
    with diskstream.open(tmp_path) as mine, diskstream.open(tmp_path) as theirs:
        stream = mine.stream("x")
        (last,) = filled(stream, 1)
        for number in range(1, 20):
            before = last
            (last,) = theirs.stream("x").add_many([{"n": number}])
            assert read(stream, before) == [number]
            if number == 10:
                log_of(theirs, b"x").roll()
    assert short.count(False) == 1  # where the segment was rolled


def test_a_store_that_is_only_read_looks_at_the_file(short: list[bool], tmp_path: Path) -> None:
    with diskstream.open(tmp_path) as store:
        filled(store.stream("x"), 3)
    with diskstream.open(tmp_path, read_only=True) as store:
        assert read(store.stream("x"), "0") == [0, 1, 2]
    assert short == [False]
