"""`trim`: exact to the entry over every border, in whole runs where told, and segments unlinked behind it."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import ArgumentError, EntryID, Store
from tests.streams.background import LIMIT_S
from tests.streams.layers import MAX, frames, ids, kinds, layered, log_of, rows, small_store


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A closed store with a layered stream, to be copied, and what it holds."""
    path = tmp_path_factory.mktemp("trim") / "store"
    with small_store(path) as store:
        live = layered(store).live
    return path, live


def test_a_stream_is_cut_to_every_length_over_every_border(template: Any, tmp_path: Path) -> None:
    path, live = template
    shutil.copytree(path, tmp_path / "store")
    with small_store(tmp_path / "store") as store:
        stream = store.stream("x")
        assert len(set(kinds(store))) == 4
        for length in range(len(live), -1, -1):
            assert stream.trim(maxlen=length) == (0 if length == len(live) else 1)
            assert len(stream) == length
            first = stream.info().first_entry
            assert (first.id if first else None) == (live[-length][0] if length else None)
            if length % 29 == 0:
                assert rows(stream) == live[len(live) - length :]
        assert store.exists("x")
        assert kinds(store) == ["active"]


@pytest.mark.parametrize("length", [0, 1, 2, 50, 51, 99, 150, 200, 250, 300])
@pytest.mark.parametrize("by", ["maxlen", "minid"])
def test_a_stream_is_cut_to_a_length_in_one_frame(template: Any, tmp_path: Path, length: int, by: str) -> None:
    path, live = template
    length = min(length, len(live))
    shutil.copytree(path, tmp_path / "store")
    with small_store(tmp_path / "store") as store:
        stream = store.stream("x")
        before = frames(store) if len(stream) else 0
        least = live[len(live) - length][0] if length else EntryID(MAX, MAX)
        options: dict[str, Any] = {"maxlen": length} if by == "maxlen" else {"minid": least}
        assert stream.trim(**options) == len(live) - length
        assert frames(store) == before + 1
        assert rows(stream) == live[len(live) - length :]
        assert rows(stream.revrange()) == live[len(live) - length :][::-1]
        assert stream.trim(**options) == 0
        assert frames(store) == before + 1
        stream.seal()
        stream.compact()
        assert rows(stream) == live[len(live) - length :]
    with small_store(tmp_path / "store") as store:
        assert rows(store.stream("x")) == live[len(live) - length :]
        assert store.verify().ok


def test_ids_below_a_least_one_go_wherever_that_lies(template: Any, tmp_path: Path) -> None:
    path, live = template
    shutil.copytree(path, tmp_path / "store")
    with small_store(tmp_path / "store") as store:
        stream = store.stream("x")
        left = list(live)
        for index in range(0, len(live), 4):
            for least in (live[index][0], EntryID(live[index][0].ms, live[index][0].seq + 1)):
                gone = [row for row in left if row[0] < least]
                left = left[len(gone) :]
                assert stream.trim(minid=least) == len(gone)
                assert len(stream) == len(left)
                assert rows(stream.range(count=2)) == left[:2]
        assert stream.trim(minid=MAX) == len(left)
        assert stream.trim(minid="0") == 0


def test_a_least_id_may_be_incomplete(store: Store) -> None:
    stream = store.stream("x")
    stream.add_many([{"n": 1}] * 4, ids=["4-7", "5-0", "5-1", "6-0"])
    assert stream.trim(minid="5") == 1
    assert stream.trim(minid=6) == 2
    assert ids(stream) == ["6-0"]


def test_nothing_is_trimmed_from_what_is_short_enough_or_does_not_exist(store: Store) -> None:
    stream = store.stream("x")
    assert stream.trim(maxlen=0) == stream.trim(minid="5") == 0
    assert not store.exists("x")
    stream.add({"n": 1}, "5-0")
    assert stream.trim(maxlen=1) == stream.trim(maxlen=2**62) == stream.trim(minid="5-0") == 0
    assert ids(stream) == ["5-0"]


def test_a_trim_needs_a_strategy(store: Store) -> None:
    for approximate in (False, True):
        with pytest.raises(ArgumentError, match=r"^syntax error, XTRIM must be called with a trimming strategy$"):
            store.stream("x").trim(approximate=approximate)


def test_a_trim_leaves_ids_and_counters_alone(store: Store) -> None:
    stream = store.stream("x")
    for number in range(1, 11):
        stream.add({"n": number}, (number, 0))
    stream.delete("2-0")
    assert stream.trim(maxlen=0) == 9
    info = stream.info()
    assert (info.length, info.entries_added, str(info.last_generated_id), str(info.max_deleted_entry_id)) == (
        0,
        10,
        "10-0",
        "2-0",
    )
    assert str(info.recorded_first_entry_id) == "0-0"
    assert (info.first_entry, info.last_entry) == (None, None)


def segment_files(store: Store) -> set[int]:
    """The numbers of segments that have a file."""
    return {int(path.name[:8]) for path in log_of(store).directory.iterdir() if path.name[:8].isdigit()}


def test_segments_wholly_below_are_unlinked_once_the_trim_is_durable(small: Store) -> None:
    made = layered(small)
    views = log_of(small).segments.views()
    active = log_of(small).native.tail[0]
    assert segment_files(small) == {view.number for view in views} | {active}
    kept = views[3]
    length = sum(1 for entry_id, _ in made.live if entry_id >= kept.first)
    made.trim_to(length)
    small.sync()
    wait_until_unlinked(small, {view.number for view in views[:3]})
    assert segment_files(small) == {view.number for view in views[3:]} | {active}
    assert rows(made.stream) == made.live


def wait_until_unlinked(store: Store, numbers: set[int]) -> None:
    """The store's own thread removes files; a read that waits in vain paces the look."""
    for _ in range(int(LIMIT_S / 0.02)):
        if not segment_files(store) & numbers:
            return
        store.read({"nothing": "$"}, block=0.02)
    pytest.fail(f"still there: {segment_files(store) & numbers}")


def test_files_of_trimmed_segments_are_gone_after_reopening(tmp_path: Path) -> None:
    with small_store(tmp_path / "store") as store:
        made = layered(store)
        made.trim_to(5)
        directory = log_of(store).directory
    with small_store(tmp_path / "store") as store:
        assert rows(store.stream("x")) == made.live
        store.stream("x").seal()
        assert len([path for path in directory.iterdir() if path.suffix in (".seg", ".log")]) <= 3
        assert store.verify().ok


def test_sealing_removes_the_active_segment_of_a_stream_trimmed_to_nothing(small: Store) -> None:
    made = layered(small)
    before = segment_files(small)
    assert made.stream.trim(maxlen=0) == len(made.live)
    made.stream.seal()
    wait_until_unlinked(small, before)
    assert segment_files(small) == {log_of(small).native.tail[0]}
    assert made.stream.info().segments == 1


def test_a_trim_frees_the_disk(small: Store) -> None:
    stream = small.stream("x")
    for number in range(1, 3001):
        stream.add({"n": number, "pad": "." * 80}, (number, 0), maxlen=100)
        if number % 300 == 0:
            stream.seal()
            assert stream.info().size_bytes < 120_000
    assert len(stream) == 100
    assert ids(stream) == [f"{number}-0" for number in range(2901, 3001)]


# --- approximately ----------------------------------------------------------------------------------------------------


def filled(store: Store, count: int, *, sealed_every: int = 0, name: str = "x") -> diskstream.Stream:
    stream = store.stream(name)
    for start in range(1, count + 1, 100):
        numbers = range(start, min(start + 100, count + 1))
        stream.add_many([{"n": number} for number in numbers], ids=[(number, 0) for number in numbers])
        if sealed_every and start % sealed_every == 1:
            stream.seal()
    return stream


@pytest.mark.parametrize(
    ("options", "gone"),
    [
        ({"maxlen": 1000}, 0),
        ({"maxlen": 999}, 0),
        ({"maxlen": 901}, 0),
        ({"maxlen": 900}, 100),
        ({"maxlen": 899}, 100),
        ({"maxlen": 7}, 900),
        ({"maxlen": 0}, 1000),
        ({"minid": 100}, 0),
        ({"minid": 101}, 100),
        ({"minid": 555}, 500),
        ({"minid": 1001}, 1000),
        ({"maxlen": 0, "limit": 99}, 0),
        ({"maxlen": 0, "limit": 100}, 100),
        ({"maxlen": 0, "limit": 350}, 300),
        ({"maxlen": 0, "limit": 0}, 1000),
        ({"minid": 555, "limit": 200}, 200),
        ({"minid": 555, "limit": 99}, 0),
    ],
    ids=repr,
)
def test_approximately_whole_runs_of_a_hundred_go(store: Store, options: dict[str, Any], gone: int) -> None:
    stream = filled(store, 1000)
    assert stream.trim(**options, approximate=True) == gone
    assert ids(stream) == [f"{number}-0" for number in range(gone + 1, 1001)]


def test_at_most_ten_thousand_go_at_once_unless_told_otherwise(store: Store) -> None:
    stream = filled(store, 12_050)
    assert stream.trim(maxlen=10, approximate=True) == 10_000
    assert stream.trim(maxlen=10, approximate=True, limit=0) == 2_000
    assert len(stream) == 50
    stream = filled(store, 12_050, name="exact")
    assert stream.trim(maxlen=10) == 12_040


@pytest.mark.parametrize("length", range(0, 340, 37))
@pytest.mark.parametrize("limit", [None, 0, 57, 120])
def test_never_more_goes_than_exactly_and_less_than_a_run_stays(
    template: Any, tmp_path: Path, length: int, limit: int | None
) -> None:
    path, live = template
    shutil.copytree(path, tmp_path / "store")
    with small_store(tmp_path / "store") as store:
        stream = store.stream("x")
        exact = max(0, len(live) - length)
        gone = stream.trim(maxlen=length, approximate=True, limit=limit)
        allowed = exact if not limit else min(exact, limit)
        assert allowed - 100 < gone <= allowed
        assert rows(stream) == live[gone:]


@pytest.mark.parametrize("deleted", [[250], [249, 250], [1], [101, 250]])
def test_an_approximate_trim_leaves_nothing_behind_what_was_deleted_at_the_end(
    store: Store, deleted: list[int]
) -> None:
    """As in Redis, where a node goes as soon as all that is left in it may go."""
    stream = store.stream("x")
    stream.add_many([{"n": 1}] * 250, ids=[(number, 0) for number in range(1, 251)])
    stream.delete(*[(number, 0) for number in deleted])
    assert stream.trim(maxlen=0, approximate=True) == 250 - len(deleted)
    assert len(stream) == 0


@pytest.mark.parametrize("deleted", [range(101, 129), range(129, 150), range(120, 180), range(65, 70)])
def test_what_was_deleted_behind_the_last_that_goes_is_not_trimmed(store: Store, deleted: range) -> None:
    """A trim to a length took words of 64 deleted entries with it: who read on behind was told that a trim had."""
    for by in ("maxlen", "minid"):
        stream = store.stream(by)
        stream.add_many([{"n": 1}] * 250, ids=[(number, 0) for number in range(1, 251)])
        stream.delete(*[(number, 0) for number in deleted])
        last = deleted[0] - 1
        length = len(stream) - last
        assert stream.trim(**{"maxlen": length} if by == "maxlen" else {"minid": (last + 1, 0)}) == last
        assert stream.trimmed_to() == EntryID(last, 0)
