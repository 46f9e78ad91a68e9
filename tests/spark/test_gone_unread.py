"""Streams that go before a query has read them, and such as a query has not reached: which of them are missed."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import DataLossError, NotAStoreError, Store
from tests.spark.test_stream_units import Query, at, fill
from tests.streams.layers import small_store

pytest.importorskip("pyarrow")


@pytest.fixture(autouse=True)
def _streams_are_listed_each_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from diskstream.spark import kept_stores, stream_reader

    monkeypatch.setattr(stream_reader, "_LIST_EVERY_S", -1.0)
    yield
    kept_stores.STORES.forget()


@pytest.mark.parametrize("now", ["deleted", "renamed"])
def test_the_only_stream_of_a_query_is_missed_when_it_goes(store: Store, now: str) -> None:
    """It made no batch any more, so nothing looked for it: AvailableNow ended well, another trigger waited for ever."""
    fill(store, range(1, 6))
    query = Query(store.path)
    assert query.numbers() == [1, 2, 3, 4, 5]
    fill(store, range(6, 9))
    query.reader.prepareForTriggerAvailableNow()
    if now == "deleted":
        store.delete("x")
    else:
        store.rename("x", "elsewhere")
    with pytest.raises(DataLossError, match="x: it is gone"):
        query.latest()
    assert Query(store.path, query.offset, failondataloss="false").batch() == []
    if now == "renamed":
        store.rename("elsewhere", "x")
        assert Query(store.path, query.offset).numbers() == [6, 7, 8]


@pytest.mark.parametrize("options", [{"maxentriespertrigger": 1}, {"includetail": "false"}])
def test_a_stream_of_which_nothing_was_read_yet_is_missed(store: Store, options: dict[str, Any]) -> None:
    """Its offset was that of a stream without entries, of which nothing can go."""
    fill(store, range(1, 3), "early")
    store.stream("early").seal()
    fill(store, range(2, 4), "late")
    query = Query(store.path, streams="early,late", **options)
    assert query.batch()[0] == ("early", 1)
    assert at(query.offset)["late"] == "0-0"
    store.delete("late")
    with pytest.raises(DataLossError, match="late: it is gone"):
        query.latest()


def test_what_was_trimmed_off_it_is_missed_too(store: Store) -> None:
    fill(store, range(1, 5))
    query = Query(store.path, includetail="false")
    store.stream("x").trim(maxlen=2)
    with pytest.raises(DataLossError, match="entries up to 2-0 were trimmed away"):
        query.latest()


def test_a_query_with_another_start_goes_on_though_a_stream_has_not_reached_the_old_one(store: Store) -> None:
    """The stream that was the same all the time was taken for another one, as it ended before the offset."""
    fill(store, range(1, 4), "slow")
    fill(store, range(1, 61), "fast")
    query = Query(store.path, streams="slow,fast", startingids="60-0")
    assert query.batch() == [("fast", 60)]
    fill(store, range(61, 62), "fast")
    again = Query(store.path, query.offset, streams="slow,fast", startingids="earliest")
    assert again.batch() == [("fast", 61)]
    fill(store, range(70, 71), "slow")
    assert again.batch() == [("slow", 70)]


def test_a_stream_that_has_not_reached_the_start_may_go(store: Store) -> None:
    fill(store, range(1, 4), "slow")
    fill(store, range(1, 61), "fast")
    query = Query(store.path, streams="slow,fast", startingids="60-0")
    store.delete("slow")
    assert query.batch() == [("fast", 60)]


def test_a_batch_that_was_planned_is_read_where_its_stream_was_renamed_to(store: Store) -> None:
    """As when a query was stopped in it, and started again behind the rename: later batches went on from its end."""
    fill(store, range(1, 6))
    options: dict[str, Any] = {"streams": None, "streampattern": "*", "failondataloss": "false"}
    query = Query(store.path, maxentriespertrigger=3, **options)
    start, end = query.offset, query.latest()
    store.rename("x", "y")
    fill(store, range(7, 9))
    again = Query(store.path, end, **options)
    assert again.read(start, end) == [("y", 1), ("y", 2), ("y", 3)]
    assert sorted(again.batch()) == [("x", 7), ("x", 8), ("y", 4), ("y", 5)]


def test_a_batch_that_was_planned_is_read_where_its_stream_was_renamed_back_to(store: Store) -> None:
    """The query knew the stream by that name before, and took it for read by a position of then."""
    fill(store, range(1, 3))
    options: dict[str, Any] = {"streams": None, "streampattern": "*", "failondataloss": "false"}
    query = Query(store.path, **options)
    assert query.batch() == [("x", 1), ("x", 2)]
    store.rename("x", "y")
    assert query.batch() == []
    fill(store, range(3, 5), "y")
    start, end = query.offset, query.latest()
    store.rename("y", "x")
    again = Query(store.path, end, **options)
    assert again.read(start, end) == [("x", 3), ("x", 4)]
    assert again.batch() == []


@pytest.mark.parametrize("read_before", [False, True])
@pytest.mark.parametrize(("new", "goes_on"), [("y", True), ("elsewhere", False)])
def test_a_task_reads_on_where_its_stream_was_renamed_to(
    tmp_path: Path, new: str, *, read_before: bool, goes_on: bool
) -> None:
    """Later batches take for read what was planned: what the task had not read yet came in none of them."""
    with small_store(tmp_path / "store", segment_bytes=8192, node_max_entries=4) as store:
        for number in range(1, 201):
            store.stream("x").add({"n": number, "pad": f"{number:0100}"}, f"{number}-0")
        query = Query(store.path, streams=None, streampattern="?", failondataloss="false", batchrows=3)
        end = query.latest()
        (partition,) = query.reader.partitions(query.offset, end)
        task = query.reader.read(partition)
        found = pairs(next(task)) if read_before else []
        store.rename("x", new)
        fill(store, range(301, 303))
        found += [pair for batch in task for pair in pairs(batch)]
        begun = [number for name, number in found if name == "x"]
        assert begun == list(range(1, 1 + len(begun)))
        assert bool(begun) == read_before
        assert found[len(begun) :] == [("y", number) for number in range(1 + len(begun), 201) if goes_on]
        assert len(begun) < 200
        query.offset = end
        assert query.batch() == [("x", 301), ("x", 302)]
        assert query.batch() == []


def test_a_stream_that_is_renamed_while_a_batch_is_planned_is_read_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, range(1, 6))
    query = Query(store.path, streams=None, streampattern="*", failondataloss="false")
    names = query.reader._names

    def renamed_before() -> list[bytes]:
        monkeypatch.setattr(query.reader, "_names", names)
        store.rename("x", "y")
        return names()

    assert query.batch()[-1] == ("x", 5)
    fill(store, range(6, 9))
    monkeypatch.setattr(query.reader, "_names", renamed_before)
    assert [number for _ in range(3) for number in query.numbers()] == [6, 7, 8]


def pairs(batch: Any) -> list[tuple[str, int]]:
    return list(zip(batch["stream"].to_pylist(), batch["n"].to_pylist(), strict=True))


# --- stores -----------------------------------------------------------------------------------------------------------


def replaced(store: Store, tmp_path: Path, numbers: range) -> None:
    """Another store takes the place of one."""
    store.close()
    store.path.rename(tmp_path / "before")
    with diskstream.open(store.path) as other:
        fill(other, numbers)


def test_another_store_at_the_path_is_noticed(store: Store, tmp_path: Path) -> None:
    """The query held the one that it had opened, to which nothing came any more: it waited for ever."""
    fill(store, range(1, 6))
    query = Query(store.path)
    assert query.numbers() == [1, 2, 3, 4, 5]
    replaced(store, tmp_path, range(1, 20))
    with pytest.raises(DataLossError, match="x: another one is in its place"):
        query.batch()


def test_where_losses_are_allowed_the_other_store_is_read(store: Store, tmp_path: Path) -> None:
    fill(store, range(1, 6))
    query = Query(store.path, failondataloss="false")
    assert query.numbers() == [1, 2, 3, 4, 5]
    replaced(store, tmp_path, range(2, 4))
    assert query.numbers() == [2, 3]


def test_a_copy_of_the_store_in_its_place_goes_on(store: Store, tmp_path: Path) -> None:
    fill(store, range(1, 6))
    query = Query(store.path)
    assert query.numbers() == [1, 2, 3, 4, 5]
    store.close()
    shutil.copytree(store.path, tmp_path / "copy")
    shutil.rmtree(store.path)
    (tmp_path / "copy").rename(store.path)
    with diskstream.open(store.path) as copy:
        fill(copy, range(6, 8))
    assert query.numbers() == [6, 7]


def test_a_store_that_is_moved_away_is_told(store: Store, tmp_path: Path) -> None:
    fill(store, range(1, 6))
    query = Query(store.path)
    assert query.numbers() == [1, 2, 3, 4, 5]
    store.close()
    store.path.rename(tmp_path / "elsewhere")
    with pytest.raises(NotAStoreError, match="there is no such directory on the driver"):
        query.latest()
    (tmp_path / "elsewhere").rename(store.path)
    assert query.batch() == []


def test_deletes_of_all_that_a_trim_has_left_of_a_segment_are_missed_as_if_they_were_trimmed(tmp_path: Path) -> None:
    """What is known of a segment that is gone is where it ended, not where in it the trim had."""
    with small_store(tmp_path / "store") as store:
        stream = store.stream("x")
        fill(store, range(1, 31))
        query = Query(store.path, maxentriespertrigger=4)
        assert query.numbers() == [1, 2, 3, 4]
        stream.trim(minid="3-0")
        stream.seal()
        fill(store, range(31, 33))
        assert str(stream.trimmed_to()) == "2-0"
        stream.delete(*(f"{number}-0" for number in range(3, 31)))
        assert str(stream.trimmed_to()) == "30-0"
        with pytest.raises(DataLossError, match="x: entries up to 30-0 were trimmed away"):
            query.latest()
        assert Query(store.path, query.offset, failondataloss="false").numbers() == [31, 32]
