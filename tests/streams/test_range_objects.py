"""A range uses its objects again where nobody holds them, and never those that somebody holds."""

import copy
import os
import pickle
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import diskstream
from diskstream import Entry, EntryID, Store
from diskstream.commands.wire import encode
from tests.streams.layers import Layered, Row, layered, rows, small_store

ROWS = 5_000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Layered]:
    """Many blocks of a few entries each, some of them gone, in every kind of segment."""
    with small_store(tmp_path_factory.mktemp("objects") / "store") as store:
        yield layered(store)


@pytest.fixture(scope="module", params=["sealed", "active"])
def long(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[diskstream.Stream]:
    with diskstream.open(tmp_path_factory.mktemp("long") / "store", fsync="os") as store:
        stream = store.stream("readings")
        stream.add_many([{"n": str(number)} for number in range(ROWS)], ids=[f"{n}-1" for n in range(1, ROWS + 1)])
        if request.param == "sealed":
            stream.seal()
        yield stream


def of_number(entry: Entry) -> Row:
    return entry.id, entry.pairs


def row(number: int) -> Row:
    return EntryID(number + 1, 1), [(b"n", b"%d" % number)]


HOLDERS: dict[str, Callable[[Entry], Any]] = {
    "the entry": lambda entry: entry,
    "its ID": lambda entry: entry.id,
    "both": lambda entry: (entry, entry.id),
    "its method": lambda entry: entry.get,
    "an iterator of it": iter,
    "its ID's method": lambda entry: entry.id.next,
    "nothing, but looks at all": lambda entry: hash((entry.id, str(entry.fields), entry.size_bytes)),
}
SEEN: dict[str, Callable[[Any], Row | None]] = {
    "the entry": lambda held: (held.id, held.pairs),
    "its ID": lambda held: (held, [(b"n", b"%d" % (held.ms - 1))]),
    "both": lambda held: (held[1], held[0].pairs),
    "its method": lambda held: (held.__self__.id, [(b"n", held(b"n"))]),
    "an iterator of it": lambda held: (next(held), list(next(held).items())),
    "its ID's method": lambda held: (held().prev(), held.__self__ and [(b"n", b"%d" % (held().ms - 1))]),
    "nothing, but looks at all": lambda held: None,
}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pattern=st.lists(st.sampled_from(sorted(HOLDERS)), min_size=1, max_size=40),
    for_how_long=st.integers(1, 600),
    backwards=st.booleans(),
)
def test_what_somebody_holds_stays_what_it_is(
    long: diskstream.Stream, pattern: list[str], for_how_long: int, *, backwards: bool
) -> None:
    held: list[tuple[int, str, Any]] = []
    for at, entry in enumerate(long.revrange() if backwards else long.range()):
        number = ROWS - 1 - at if backwards else at
        assert (entry.id, entry[b"n"]) == (EntryID(number + 1, 1), b"%d" % number)
        kind = pattern[at % len(pattern)]
        held.append((number, kind, HOLDERS[kind](entry)))
        if len(held) > for_how_long:
            check(*held.pop(0))
    for each in held:
        check(*each)


def check(number: int, kind: str, held: object) -> None:
    assert SEEN[kind](held) in (row(number), None)


def test_a_list_of_a_range_has_all_its_entries(long: diskstream.Stream, made: Layered) -> None:
    assert [of_number(entry) for entry in list(long.range())] == [row(number) for number in range(ROWS)]
    assert [entry.id.ms for entry in list(long.revrange())] == list(range(ROWS, 0, -1))
    assert rows(list(made.stream.range())) == made.live
    assert rows(list(made.stream.revrange())) == made.live[::-1]


@pytest.mark.parametrize("every", [2, 7, 64, 128, 129, 1000])
def test_some_that_are_kept_of_many_blocks_stay_what_they_are(made: Layered, every: int) -> None:
    kept = [entry for at, entry in enumerate(made.stream.range()) if at % every == 0]
    assert rows(kept) == made.live[::every]
    kept = [entry for at, entry in enumerate(made.stream.revrange()) if at % every == 0]
    assert rows(kept) == made.live[::-1][::every]


def test_ids_that_are_kept_are_keys_for_good(long: diskstream.Stream) -> None:
    numbers = {entry.id: int(entry["n"]) for entry in long.range()}
    assert len(numbers) == ROWS
    assert all(numbers[EntryID(number + 1, 1)] == number for number in range(ROWS))
    entries = {entry for entry in long.range() if entry.id.ms % 3 == 0}
    assert {entry.id.ms for entry in entries} == set(range(3, ROWS + 1, 3))


def test_what_compares_and_sorts_sees_each_entry(long: diskstream.Stream) -> None:
    assert max(long.range(), key=attrgetter("id")).id == EntryID(ROWS, 1)
    by_text = sorted(long.range(), key=lambda entry: entry["n"])
    assert [entry["n"] for entry in by_text] == sorted(b"%d" % number for number in range(ROWS))
    assert all(one == other for one, other in zip(long.range(), long.range(), strict=True))
    assert pickle.loads(pickle.dumps(list(long.range(count=300)))) == list(long.range(count=300))


def test_entries_that_nobody_holds_are_made_once(long: diskstream.Stream) -> None:
    objects = {(id(entry), id(entry.id)) for entry in long.range()}
    assert len(objects) < ROWS // 8  # a list at a time, and once more where blocks are many
    alive = list(long.range())
    ids = [entry.id for entry in alive]
    assert len({*map(id, alive)}) == len({*map(id, ids)}) == ROWS


def test_an_entry_of_a_range_is_an_entry_to_all_that_take_one(long: diskstream.Stream) -> None:
    entry = next(long.range())
    kept = long.get(entry.id)
    assert kept is not None
    assert isinstance(entry, Entry)
    assert repr(entry) == repr(kept) == f"Entry('{entry.id}', {entry.fields})"
    assert (entry, hash(entry)) == (kept, hash(kept))
    assert encode([entry], resp3=False) == encode([kept], resp3=False)
    assert type(copy.copy(entry)) is Entry
    assert copy.deepcopy(entry) == kept
    with pytest.raises(AttributeError):
        entry.id = EntryID(1, 1)  # type: ignore[misc]  # refused: it is frozen
    with pytest.raises(KeyError):
        entry["other"]


KEEPER = """
import sys
import diskstream

def resident_kib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4

with diskstream.open(sys.argv[1], read_only=True) as store:
    stream = store.stream("s")
    assert sum(len(entry["pad"]) for entry in stream.range()) == 40_000 * 1_000
    before = resident_kib()
    kept = [entry for at, entry in enumerate(stream.range()) if at % 256 == int(sys.argv[2])]
    print(resident_kib() - before)
"""


@pytest.mark.parametrize("at", [70, 79], ids=["amid a block", "at the end of a block"])
def test_an_entry_that_is_kept_holds_its_own_block_in_memory_and_not_those_beside_it(tmp_path: Path, at: int) -> None:
    with diskstream.open(tmp_path / "store", fsync="os", node_max_entries=16) as store:
        stream = store.stream("s")
        for _ in range(40):
            stream.add_many([{"pad": random.randbytes(1_000)} for _ in range(1_000)])
        stream.seal()
    command = [sys.executable, "-c", KEEPER, str(tmp_path / "store"), str(at)]
    ran = subprocess.run(command, capture_output=True, check=True)
    assert int(ran.stdout) < 12 << 10  # 157 blocks of 16 KiB are 2.5 MiB; with all beside them they would be 39


LATE_KEEPER = """
import sys
import diskstream

def resident_kib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4

with diskstream.open(sys.argv[1], read_only=True, cache_bytes=0) as store:
    stream = store.stream("s")
    assert sum(len(entry["pad"]) for entry in stream.range()) == 32 << 20
    before = resident_kib()
    for at, entry in enumerate(stream.range()):
        if at == 30:
            kept = entry
    entry = None
    print(resident_kib() - before)
"""


def test_an_entry_that_is_kept_after_many_large_blocks_does_not_hold_those_before_it(tmp_path: Path) -> None:
    """Only what is small stands on one shelf with others: who keeps an entry late is not known before."""
    with diskstream.open(tmp_path / "store", fsync="os") as store:
        stream = store.stream("s")
        for _ in range(32):
            stream.add({"pad": random.randbytes(1 << 20)})  # a block of its own
        stream.seal()
    command = [sys.executable, "-c", LATE_KEEPER, str(tmp_path / "store")]
    # What is let go of goes back to the system at once, so that what is resident is what is held.
    allocator = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0"}
    ran = subprocess.run(command, capture_output=True, check=True, env={**os.environ, **allocator})
    assert int(ran.stdout) < 8 << 10  # its block has 1 MiB, all on a shelf without a limit 31


def test_text_and_bytes_stay_apart(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "store", decode_responses=True, fsync="os") as store:
        stream = store.stream("s")
        stream.add_many([{"n": "ä" * (number % 5)} for number in range(1_000)])
        assert [entry["n"] for entry in stream.range()] == ["ä" * (number % 5) for number in range(1_000)]


def test_threads_that_share_a_range_see_each_entry_once(long: diskstream.Stream) -> None:
    entries, lock = long.range(), threading.Lock()
    seen: list[list[Row]] = [[], []]

    def go(mine: list[Row]) -> None:
        while True:
            with lock:
                entry = next(entries, None)
            if entry is None:
                return
            mine.append(of_number(entry))

    threads = [threading.Thread(target=go, args=(mine,)) for mine in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen[0] + seen[1]) == [row(number) for number in range(ROWS)]
    assert seen[0] == sorted(seen[0])


def test_a_kept_entry_outlives_its_range_and_its_store(tmp_path: Path) -> None:
    def some(store: Store) -> Iterable[Entry]:
        stream = store.stream("s")
        stream.add_many([{"n": str(number)} for number in range(3_000)])
        for at, entry in enumerate(stream.range()):
            if at % 500 == 0:
                yield entry

    with diskstream.open(tmp_path / "store", fsync="os") as store:
        kept = list(some(store))
    assert [entry["n"] for entry in kept] == [b"%d" % number for number in range(0, 3_000, 500)]
