"""Commits: a writer that tries again adds nothing twice, whoever died where."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import ArgumentError, ArgumentTypeError, Commit, IDOrderError, LimitError, ReadOnlyError, Store, Stream
from diskstream.commits import COMPLETE
from tests.read_twice import opened, same
from tests.streams.background import Background
from tests.streams.layers import frames, ids, kinds, small_store

ROWS = [{"n": 1}, {"n": 2}]
MIB = 1 << 20


@pytest.fixture
def stream(store: Store) -> Stream:
    return store.stream("x")


# --- a part is added once ---------------------------------------------------------------------------------------------


def test_the_second_time_nothing_is_added_and_none_says_so(store: Store, stream: Stream) -> None:
    made = stream.add_many(ROWS, commit=Commit(b"job", 7, 0))
    assert made is not None
    assert ids(stream) == [str(each) for each in made]
    before = frames(store)
    assert stream.add_many(ROWS, commit=Commit(b"job", 7, 0)) is None
    assert (len(stream), frames(store)) == (2, before)
    assert stream.committed(b"job") == (7, 0)


@pytest.mark.parametrize(
    ("version", "part", "is_new"),
    [
        (7, 3, False),
        (7, 2, False),
        (6, COMPLETE, False),
        (0, 0, False),
        (7, 4, True),
        (8, 0, True),
        (2**64 - 1, 0, True),
    ],
)
def test_what_is_not_behind_the_last_part_was_committed(stream: Stream, version: int, part: int, is_new: bool) -> None:
    stream.add_many(ROWS, commit=Commit(b"job", 7, 3))
    assert (stream.add_many(ROWS, commit=Commit(b"job", version, part)) is not None) == is_new
    assert stream.committed(b"job") == ((version, part) if is_new else (7, 3))


def test_writers_and_streams_know_nothing_of_each_other(store: Store) -> None:
    for name in ("a", "b"):
        for writer in (b"one", b"two\xff"):
            assert store.stream(name).add_many(ROWS, commit=Commit(writer, 1))
    assert [len(stream) for stream in store] == [4, 4]
    assert store.stream("a").committed(b"three") is None
    assert store.stream("nobody").committed(b"one") is None


def test_rows_and_commit_are_one_frame(store: Store, stream: Stream) -> None:
    stream.add({"n": 0})
    before = frames(store)
    stream.add_many(ROWS, commit=Commit(b"job", 1))
    assert frames(store) == before + 1


def test_given_ids_of_a_part_that_is_there_are_no_mistake(stream: Stream) -> None:
    given = [(1, 1), (1, 2)]
    stream.add_many(ROWS, ids=given, commit=Commit(b"job", 1, 0))
    assert stream.add_many(ROWS, ids=given, commit=Commit(b"job", 1, 0)) is None
    with pytest.raises(IDOrderError):
        stream.add_many(ROWS, ids=given, commit=Commit(b"job", 1, 1))
    assert stream.committed(b"job") == (1, 0)
    assert ids(stream) == ["1-1", "1-2"]


def test_a_part_that_is_there_trims_nothing(stream: Stream) -> None:
    stream.add_many(ROWS, commit=Commit(b"job", 1))
    assert stream.add_many(ROWS, commit=Commit(b"job", 1), maxlen=0) is None
    assert len(stream) == 2
    assert stream.add_many(ROWS, commit=Commit(b"job", 2), maxlen=1) is not None
    assert len(stream) == 1


def test_no_rows_commit_nothing_and_no_stream_is_made(store: Store, stream: Stream) -> None:
    assert stream.add_many([], commit=Commit(b"job", 1)) == []
    assert stream.add_many(ROWS, commit=Commit(b"job", 1), nomkstream=True) == []
    assert not store.exists("x")
    assert stream.committed(b"job") is None


@pytest.mark.parametrize("bad", [[{}], pytest.param([{"n": object()}], id="object()")], ids=repr)
def test_an_append_that_fails_commits_nothing(stream: Stream, bad: Any) -> None:
    stream.add({"n": 0})
    with pytest.raises(ArgumentError):
        stream.add_many(bad, commit=Commit(b"job", 1))
    assert stream.committed(b"job") is None


def test_a_batch_that_leaves_no_room_for_its_commit_is_refused(stream: Stream) -> None:
    limit = diskstream._native.MAX_BATCH_BYTES
    row = [("a", b"." * (31 * MIB))]
    largest = [row, row, [("a", b"." * (limit - 62 * MIB - 200))]]
    with pytest.raises(LimitError, match="batch of"):
        stream.add_many(largest, commit=Commit(b"w" * 4096, 1))
    assert stream.add_many(largest, commit=Commit(b"w", 1))
    assert stream.committed(b"w" * 4096) is None


# --- a commit alone ---------------------------------------------------------------------------------------------------


def test_a_version_is_noted_as_complete(store: Store, stream: Stream) -> None:
    assert stream.add_many(ROWS, commit=Commit(b"job", 7, 0))
    assert stream.note_commit(Commit.complete(b"job", 7))
    assert stream.committed(b"job") == (7, COMPLETE)
    before = frames(store)
    assert not stream.note_commit(Commit.complete(b"job", 7))
    assert not stream.note_commit(Commit(b"job", 7, 5))
    assert frames(store) == before
    assert stream.add_many(ROWS, commit=Commit(b"job", 7, 1)) is None
    assert stream.add_many(ROWS, commit=Commit(b"job", 8, 0)) is not None


def test_a_version_without_rows_makes_the_stream(stream: Stream) -> None:
    assert stream.note_commit(Commit.complete(b"job", 0))
    assert stream.exists()
    assert (len(stream), stream.committed(b"job")) == (0, (0, COMPLETE))


# --- what a commit is -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "error"),
    [
        (("job", 1, 0), ArgumentTypeError),
        ((b"", 1, 0), ArgumentError),
        ((b"w" * 4097, 1, 0), LimitError),
        ((b"w", -1, 0), ArgumentError),
        ((b"w", 2**64, 0), ArgumentError),
        ((b"w", 1, -1), ArgumentError),
        ((b"w", 1, 2**32), ArgumentError),
        ((b"w", "1", 0), ArgumentTypeError),
        ((b"w", 1, True), ArgumentTypeError),
    ],
    ids=repr,
)
def test_a_commit_that_cannot_be_is_refused_where_it_is_made(values: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        Commit(*values)


def test_the_name_of_a_writer_is_checked_where_it_is_looked_up(stream: Stream) -> None:
    for bad in ("job", b"", b"w" * 4097):
        with pytest.raises(ArgumentError):
            stream.committed(bad)  # type: ignore[arg-type]  # refused: of a wrong kind


def test_the_greatest_numbers_and_the_longest_name_come_back(tmp_path: Path) -> None:
    with small_store(tmp_path / "s") as store:
        store.stream("x").add_many(ROWS, commit=Commit(b"\xff" * 4096, 2**64 - 1, COMPLETE))
        store.stream("x").seal()
    with small_store(tmp_path / "s") as store:
        assert store.stream("x").committed(b"\xff" * 4096) == (2**64 - 1, COMPLETE)


# --- what it survives -------------------------------------------------------------------------------------------------


def roll(store: Store) -> None:
    log = store._log(b"x", create=False)
    assert log is not None
    assert log.roll()


def seal_and_compact(store: Store) -> None:
    stream = store.stream("x")
    for number in range(3):
        stream.add({"n": number})
        stream.seal()
    stream.delete(*[entry.id for entry in stream.range(count=2)])
    stream.compact()
    assert "compacted" in kinds(store)


def fill(store: Store) -> None:
    stream = store.stream("x")
    for _ in range(30):
        stream.add_many([{"pad": "." * 100}] * 20)
    assert stream.info().segments > 3


@pytest.mark.parametrize("fsync", ["always", "everysec", "os"])
@pytest.mark.parametrize(
    "what", [roll, Store.seal, seal_and_compact, fill, lambda store: store.stream("x").trim(maxlen=0)]
)
def test_commits_are_still_known_behind(tmp_path: Path, fsync: str, what: Callable[[Store], object]) -> None:
    with small_store(tmp_path / "s", fsync=fsync) as store:
        stream = store.stream("x")
        stream.add_many(ROWS, commit=Commit(b"job", 7, 0))
        stream.note_commit(Commit(b"other", 1, 1))
        what(store)
        assert stream.add_many(ROWS, commit=Commit(b"job", 7, 0)) is None
    with small_store(tmp_path / "s", fsync=fsync) as store:
        stream = store.stream("x")
        count = len(stream)
        assert stream.add_many(ROWS, commit=Commit(b"job", 7, 0)) is None
        assert not stream.note_commit(Commit(b"other", 1, 1))
        assert len(stream) == count
        assert store.verify().ok
    with small_store(tmp_path / "s", read_only=True) as store:
        stream = store.stream("x")
        assert (stream.committed(b"job"), stream.committed(b"other")) == ((7, 0), (1, 1))
        with pytest.raises(ReadOnlyError):
            stream.note_commit(Commit(b"job", 8))
        with pytest.raises(ReadOnlyError):
            stream.add_many(ROWS, commit=Commit(b"job", 7, 0))


def test_parts_go_on_over_many_segments(tmp_path: Path) -> None:
    with small_store(tmp_path / "s") as store:
        stream = store.stream("x")
        for part in range(60):
            for _ in range(2):
                stream.add_many([{"part": part, "pad": "." * 300}] * 5, commit=Commit(b"job", 1, part))
        assert [int(entry["part"]) for entry in stream] == [part for part in range(60) for _ in range(5)]
        assert stream.info().segments > 5


def test_a_stream_keeps_its_commits_under_a_new_name_and_loses_them_when_it_goes(store: Store, stream: Stream) -> None:
    stream.add_many(ROWS, commit=Commit(b"job", 7, 0))
    store.rename("x", "y")
    assert store.stream("y").committed(b"job") == (7, 0)
    store.delete("y")
    assert store.stream("y").committed(b"job") is None
    assert store.stream("y").add_many(ROWS, commit=Commit(b"job", 7, 0)) is not None


def test_of_1024_writers_the_one_heard_of_longest_ago_goes(tmp_path: Path) -> None:
    times = iter(range(1000, 10_000))
    with small_store(tmp_path / "s", clock=lambda: next(times)) as store:
        stream = store.stream("x")
        for number in range(1024):
            stream.note_commit(Commit(b"%d" % number, 1))
        stream.add_many(ROWS, commit=Commit(b"0", 2))
        stream.note_commit(Commit(b"new", 1))
        found = [stream.committed(name) for name in (b"0", b"1", b"2", b"new")]
        assert found == [(2, 0), None, (1, 0), (1, 0)]
        stream.seal()
    with small_store(tmp_path / "s") as store:
        assert [store.stream("x").committed(name) for name in (b"0", b"1", b"2", b"new")] == found


def test_what_the_format_says_of_commits_is_what_is_there(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for part in range(200):
            store.stream("a").add_many([{"pad": "." * 90}] * 2, commit=Commit(b"w%d" % (part % 3), 1, part))
        assert store.stream("a").info().segments > 2
    commits = same(tmp_path)[b"a"].state.groups.commits
    assert {name: known[:2] for name, known in commits.writers.items()} == {
        b"w0": (1, 198),
        b"w1": (1, 199),
        b"w2": (1, 197),
    }


# --- others -----------------------------------------------------------------------------------------------------------

CHILD = """
import os, sys, diskstream
from diskstream import Commit
store = diskstream.open(sys.argv[1], fsync=sys.argv[2])
stream = store.stream("x")
stream.add_many([{"by": "child"}] * 3, commit=Commit(b"job", 7, 0))
if sys.argv[3] == "part":
    os._exit(9)
stream.note_commit(Commit.complete(b"job", 7))
os._exit(9)
"""


@pytest.mark.parametrize("fsync", ["always", "everysec", "os"])
@pytest.mark.parametrize("until", ["part", "complete"])
def test_who_takes_over_from_the_dead_adds_only_what_is_missing(tmp_path: Path, fsync: str, until: str) -> None:
    with diskstream.open(tmp_path / "s", fsync=fsync) as store:
        stream = store.stream("x")
        stream.add({"by": "parent"})
        done = subprocess.run([sys.executable, "-c", CHILD, str(tmp_path / "s"), fsync, until], check=False)
        assert done.returncode == 9
        assert stream.add_many([{"by": "parent"}] * 3, commit=Commit(b"job", 7, 0), durable=True) is None
        added = stream.add_many([{"by": "parent"}], commit=Commit(b"job", 7, 1))
        assert (added is None) == (until == "complete")
        assert stream.note_commit(Commit.complete(b"job", 7), durable=True) == (until == "part")
        wanted = [b"parent", b"child", b"child", b"child"] + ([b"parent"] if until == "part" else [])
        assert [entry["by"] for entry in stream] == wanted


@pytest.mark.parametrize("fsync", ["always", "everysec"])
def test_none_is_as_durable_as_was_asked_for(tmp_path: Path, fsync: str) -> None:
    """Whoever committed the part before need not have waited for the disk; who is told None relies on it."""
    with diskstream.open(tmp_path / "s", fsync=fsync) as store:
        stream = store.stream("x")
        stream.add_many(ROWS, commit=Commit(b"job", 1))
        log = store._log(b"x", create=False)
        assert log is not None
        assert stream.add_many(ROWS, commit=Commit(b"job", 1), durable=True) is None
        assert log.native.is_durable
        assert not stream.note_commit(Commit(b"job", 1), durable=True)
        assert stream.note_commit(Commit(b"job", 2), durable=True)
        assert log.native.is_durable


def test_of_many_who_try_at_once_one_adds(store: Store, stream: Stream) -> None:
    for version in range(20):
        tries = [
            Background(lambda: stream.add_many(ROWS, commit=Commit(b"job", version), durable=number % 2 == 0))
            for number in range(4)
        ]
        assert sum(each.result() is not None for each in tries) == 1
    assert len(stream) == 40
