"""Files of another stream in a stream's directory: whose directory it is, and what is kept."""

from pathlib import Path

import pytest

import diskstream

ENTRIES = 200


def two_streams(path: Path, sealed: int) -> Path:
    """A store with streams `a` and `b`, each of so many sealed segments and an active log with one entry."""
    with diskstream.open(path, seal="manual") as store:
        for name in "ab":
            stream = store.stream(name)
            for part in range(1, sealed + 1):
                stream.add_many([{"who": name}] * ENTRIES, ids=[f"{part}-{at + 1}" for at in range(ENTRIES)])
                stream.seal()
            stream.add({"who": name}, "9-1")
    return path


def log_of(store: Path, name: str) -> Path:
    (log,) = (store / "streams" / name).glob("*.log")
    return log


def held(store: Path, name: str) -> list[bytes]:
    with diskstream.open(store, seal="manual", read_only=True) as opened:
        assert opened.verify().ok
        return [entry[b"who"] for entry in opened.stream(name)]


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("sealed", [1, 2, 3])
def test_a_log_of_a_stream_that_lives_elsewhere_is_the_stranger(tmp_path: Path, sealed: int, dry_run: bool) -> None:
    """With up to two sealed segments the stranger's log was believed: the stream's own segments were put aside."""
    store = two_streams(tmp_path / "store", sealed)
    log_of(store, "a").write_bytes(log_of(store, "b").read_bytes())
    (found,) = [each for each in diskstream.repair(store, dry_run=dry_run) if each.stream == b"a"]
    aside = [action for action in found.actions if "another stream's" in action]
    assert len(aside) == 1
    assert ".log" in aside[0]
    if not dry_run:
        assert held(store, "a") == [b"a"] * (ENTRIES * sealed)
        assert held(store, "b") == [b"b"] * (ENTRIES * sealed + 1)


@pytest.mark.parametrize("sealed", [2, 3])
def test_of_strangers_from_elsewhere_the_fewer_files_go(tmp_path: Path, sealed: int) -> None:
    store, other = two_streams(tmp_path / "store", sealed), two_streams(tmp_path / "other", sealed)
    log_of(store, "a").write_bytes(log_of(other, "b").read_bytes())
    list(diskstream.repair(store))
    assert held(store, "a") == [b"a"] * (ENTRIES * sealed)


def test_a_sealed_segment_of_a_stream_that_lives_elsewhere_goes(tmp_path: Path) -> None:
    store = two_streams(tmp_path / "store", 2)
    for name in ("00000001.seg", "00000002.seg"):
        (store / "streams" / "a" / name).write_bytes((store / "streams" / "b" / name).read_bytes())
    list(diskstream.repair(store))
    assert held(store, "a") == [b"a"]
    assert held(store, "b") == [b"b"] * (2 * ENTRIES + 1)


def test_of_as_many_files_those_are_right_that_are_what_their_names_say(tmp_path: Path) -> None:
    """The first log of another store's stream stood where the second one was: it was taken for the stream."""
    store, other = two_streams(tmp_path / "store", 1), two_streams(tmp_path / "other", 0)
    log_of(store, "a").write_bytes(log_of(other, "b").read_bytes())
    list(diskstream.repair(store))
    assert held(store, "a") == [b"a"] * ENTRIES
