"""What goes while a query plans or reads is missed, and never passed over."""

import math
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import diskstream
from diskstream import ArgumentError, DataLossError, DiskstreamError, NotAStoreError, Store, leases

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from diskstream.spark import planning, stream_reader
from diskstream.spark.jobs.archive import ArchiveSettings, run
from diskstream.spark.jobs.manifest import latest
from diskstream.spark.jobs.parts import PartWriter
from diskstream.spark.jobs.place import Place
from diskstream.spark.partitions import EntriesPartition
from diskstream.spark.source import EntriesReader
from tests.spark.archives import no_spark  # noqa: F401  # a fixture
from tests.spark.test_read_options import ddl, options
from tests.spark.test_stream_units import Query, at, fill
from tests.streams.layers import small_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with diskstream.open(tmp_path / "store", fsync="os") as made:
        yield made


def test_what_is_trimmed_between_the_look_and_the_plan_is_missed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(store, range(1, 100))
    query = Query(store.path)
    end = query.latest()
    real = planning.partitioned

    def trimming(*given: Any) -> Any:
        store.stream("x").trim(minid="60-0")
        return real(*given)

    monkeypatch.setattr(stream_reader, "partitioned", trimming)
    with pytest.raises(DataLossError, match="entries up to 59-0 were trimmed away"):
        query.reader.partitions(query.offset, end)


def test_what_is_trimmed_from_a_stream_that_is_new_is_missed(store: Store) -> None:
    fill(store, range(1, 3), "s1")
    query = Query(store.path, streampattern="*", streams=None)
    assert [number for _, number in query.batch()] == [1, 2]
    fill(store, range(1, 100), "s2")
    query.reader._listed = (0.0, [])
    end = query.latest()
    assert at(end) == {"s1": "2-0", "s2": "99-0"}
    store.stream("s2").trim(minid="60-0")
    with pytest.raises(DataLossError, match=r"s2.*entries up to 59-0 were trimmed away"):
        query.reader.partitions(query.offset, end)


def test_what_was_trimmed_before_a_stream_was_found_is_not_missed(store: Store) -> None:
    fill(store, range(1, 10), "s1")
    query = Query(store.path, streampattern="*", streams=None)
    fill(store, range(1, 100), "s2")
    store.stream("s2").trim(minid="60-0")
    query.reader._listed = (0.0, [])
    assert len(query.batch()) == 9 + 40
    assert query.batch() == []
    fill(store, range(100, 101), "s2")
    assert query.numbers() == [100]


@pytest.mark.parametrize(("named", "first"), [("5-0", 5), ("earliest", 1), ("latest", 1)])
def test_a_stream_that_comes_later_begins_where_it_was_named_to(store: Store, named: str, first: int) -> None:
    """With a word it begins at its beginning: all of it came after the query."""
    bounds = f'{{"s2": "{named}", "*": "earliest"}}'
    query = Query(store.path, streampattern="*", streams=None, startingids=bounds)
    fill(store, range(1, 10), "s2")
    assert query.numbers() == list(range(first, 10))
    fill(store, range(10, 11), "s2")
    assert query.numbers() == [10]


def replaced(store: Store) -> None:
    store.delete("x")
    fill(store, range(1000, 1001))


def test_another_stream_under_the_name_with_greater_ids_is_noticed(store: Store) -> None:
    fill(store, range(1, 100))
    query = Query(store.path, maxentriespertrigger=30)
    assert query.numbers() == list(range(1, 31))
    replaced(store)
    with pytest.raises(DataLossError, match="another one is in its place: it was deleted or replaced"):
        query.batch()


def test_one_that_comes_between_the_plan_and_the_task_is_noticed(store: Store) -> None:
    fill(store, range(1, 100))
    query = Query(store.path)
    planned = query.reader.partitions(query.offset, query.latest())
    replaced(store)
    with pytest.raises(DataLossError, match="another one is in its place"):
        for each in planned:
            list(query.reader.read(each))


@pytest.fixture
def segments(tmp_path: Path) -> Iterator[Store]:
    with small_store(tmp_path / "segments") as made:
        for number in range(1, 401):
            made.stream("x").add({"pad": "." * 100}, (number, 0))
        made.seal()
        yield made


def over_many_segments(store: Store, **given: object) -> tuple[EntriesReader, EntriesPartition]:
    """A task whose slice is of several segments, as it is of a stream that was compacted since it was planned."""
    asked = options(path=store.path, streams="x", batchRows=10, **given)
    reader = EntriesReader(asked, ddl("stream string, id string"))
    made = reader.partitions()[0]
    assert isinstance(made, EntriesPartition)
    made.slices = (replace(made.slices[0], last=(400, 0)),)
    return reader, made


def read_while(change: Callable[[], object], reader: EntriesReader, partition: EntriesPartition) -> list[str]:
    batches = reader.read(partition)
    found: list[str] = next(batches).column("id").to_pylist()
    change()
    return found + [each for batch in batches for each in batch.column("id").to_pylist()]


def test_a_stream_that_goes_between_two_segments_is_missed_as_ever(segments: Store) -> None:
    reader, partition = over_many_segments(segments, lease="false")
    with pytest.raises(DataLossError, match="it is gone: it was deleted or replaced"):
        read_while(lambda: segments.delete("x"), reader, partition)


def test_a_lease_that_goes_between_two_segments_is_told_of_as_ever(segments: Store) -> None:
    reader, partition = over_many_segments(segments)
    with pytest.raises(NotAStoreError, match="has run out or was released"):
        read_while(lambda: leases.release(Path(partition.path)), reader, partition)


def test_where_losses_are_allowed_a_stream_that_goes_between_two_segments_is_at_its_end(segments: Store) -> None:
    reader, partition = over_many_segments(segments, lease="false", failOnDataLoss="false")
    found = read_while(lambda: segments.delete("x"), reader, partition)
    assert 10 <= len(found) < 400
    assert found == [f"{number}-0" for number in range(1, len(found) + 1)]


def test_where_losses_are_allowed_it_goes_on_in_the_new_one(store: Store) -> None:
    fill(store, range(1, 10))
    query = Query(store.path, failondataloss="false")
    assert len(query.batch()) == 9
    replaced(store)
    assert query.numbers() == [1000]
    assert query.batch() == []


def with_lesser_ids(store: Store) -> None:
    store.delete("x")
    fill(store, range(1, 13))


@pytest.mark.parametrize("limit", [None, 5])
def test_the_new_one_is_read_from_its_beginning(store: Store, limit: int | None) -> None:
    """What it has up to the old position was passed over."""
    fill(store, range(1, 10))
    query = Query(store.path, failondataloss="false", maxentriespertrigger=limit)
    while query.batch():
        pass
    with_lesser_ids(store)
    start, end = query.offset, query.latest()
    found = query.numbers()
    # A batch that comes again, after a restart, is the same.
    again = Query(store.path, start, failondataloss="false")
    assert [number for _, number in again.read(start, end)] == found
    while more := query.numbers():
        found += more
    assert found == list(range(1, 13))
    fill(store, range(20, 22))
    assert query.numbers() == [20, 21]


def test_of_the_new_one_a_batch_that_was_planned_of_the_old_has_nothing(store: Store) -> None:
    """It comes again after a restart; a later one reads the new stream from its beginning, and each entry once."""
    fill(store, range(1, 10))
    query = Query(store.path, failondataloss="false")
    start, end = query.offset, query.latest()
    with_lesser_ids(store)
    again = Query(store.path, start, failondataloss="false")
    assert again.read(start, end) == []
    again.offset = end
    assert again.numbers() == list(range(1, 13))


def test_of_the_new_one_a_task_that_was_planned_of_the_old_has_nothing(store: Store) -> None:
    fill(store, range(1, 10))
    query = Query(store.path, failondataloss="false")
    end = query.latest()
    planned = query.reader.partitions(query.offset, end)
    with_lesser_ids(store)
    assert [batch for each in planned for batch in query.reader.read(each)] == []
    query.offset = end
    assert query.numbers() == list(range(1, 13))


def test_one_that_was_renamed_goes_on_under_its_new_name(store: Store) -> None:
    """It is the same stream: what was read of it under a name before does not come again, there and back."""
    fill(store, range(1, 6), "a")
    query = Query(store.path, streampattern="*", streams=None, failondataloss="false")
    assert len(query.batch()) == 5
    for number, (old, new) in enumerate([("a", "b"), ("b", "a"), ("a", "b")], 6):
        store.rename(old, new)
        fill(store, range(number, number + 1), new)
        query.reader._listed = (0.0, [])
        assert query.batch() == [(new, number)]
        assert query.batch() == []
    fill(store, range(1, 3), "a")
    assert query.batch() == [("a", 1), ("a", 2)]
    store.rename("b", "a")  # which takes its place
    fill(store, range(9, 10), "a")
    assert query.batch() == [("a", 9)]


def test_one_that_was_renamed_goes_on_though_another_has_its_name_at_once(store: Store) -> None:
    """As where streams are rotated: names are listed once a second, and all that was read of it came again."""
    fill(store, range(1, 6), "a")
    query = Query(store.path, streampattern="*", streams=None, failondataloss="false")
    assert len(query.batch()) == 5
    query.reader._listed = (math.inf, query.reader._names())  # not again of itself
    fill(store, range(6, 7), "a")
    store.rename("a", "old")
    fill(store, range(1, 3), "a")
    assert query.batch() == [("a", 1), ("a", 2), ("old", 6)]
    query.reader._listed = (0.0, [])
    assert query.batch() == []


def test_the_new_one_may_be_empty_at_first(store: Store) -> None:
    fill(store, range(1, 10))
    query = Query(store.path, failondataloss="false")
    assert len(query.batch()) == 9
    store.delete("x")
    assert query.batch() == []
    store.stream("x").group("g")  # makes the stream
    assert (query.batch(), query.batch()) == ([], [])
    fill(store, range(1, 4))
    assert (query.numbers(), query.batch()) == ([1, 2, 3], [])


def test_a_group_of_the_new_one_does_not_move_past_what_nobody_read(store: Store) -> None:
    fill(store, range(1, 10))
    query = Query(store.path, group="g", failondataloss="false")
    query.batch()
    with_lesser_ids(store)
    query.reader.commit(query.offset)
    assert store.stream("x").groups() == []
    query.batch()
    query.reader.commit(query.offset)
    (group,) = store.stream("x").groups()
    assert (str(group.last_delivered_id), group.lag) == ("12-0", 0)


def test_the_checkpoint_of_another_store_is_reported(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "one") as one, diskstream.open(tmp_path / "other") as other:
        fill(one, range(1, 10))
        fill(other, range(1, 3))
        fill(other, range(1, 3), "y")
        query = Query(other.path, Query(one.path).latest(), streams="x,y")
        with pytest.raises(DataLossError, match="deleted or replaced"):
            query.batch()


def test_the_checkpoint_of_another_store_with_smaller_ids_is_noticed(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "one") as one, diskstream.open(tmp_path / "other") as other:
        fill(one, range(1, 10))
        fill(other, range(1, 100))
        query = Query(other.path, Query(one.path).latest())
        with pytest.raises(DataLossError, match="another one is in its place"):
            query.batch()


def test_a_copy_of_the_store_is_the_same_to_a_checkpoint(store: Store, tmp_path: Path) -> None:
    fill(store, range(1, 10))
    offset = Query(store.path).latest()
    store.close()
    shutil.copytree(store.path, tmp_path / "moved")
    with diskstream.open(tmp_path / "moved") as moved:
        fill(moved, range(10, 12))
    assert Query(tmp_path / "moved", offset).numbers() == [10, 11]


def test_a_checkpoint_from_before_streams_were_told_apart_goes_on(store: Store) -> None:
    fill(store, range(1, 10))
    query = Query(store.path, {"x": "9-0"})
    assert query.batch() == []
    fill(store, range(10, 12))
    assert query.numbers() == [10, 11]
    assert query.batch() == []


def test_bounds_of_a_stream_that_is_not_read_are_refused(store: Store) -> None:
    fill(store, range(1, 10))
    with pytest.raises(ArgumentError, match="there are bounds for b'other', which is none of the streams"):
        Query(store.path, startingids='{"other": "5-0"}')
    with pytest.raises(ArgumentError, match="there are bounds for b'other', which is none of the streams"):
        Query(store.path, streampattern="x*", startingids='{"other": "5-0"}')
    Query(store.path, streampattern="o*", startingids='{"other": "5-0"}')  # it may come


def test_a_checkpoint_with_streams_that_are_not_named_any_more_is_refused(store: Store) -> None:
    fill(store, range(1, 10))
    fill(store, range(1, 10), "y")
    offset = Query(store.path, streams="x,y").latest()
    for other in ({"streams": "x"}, {"streampattern": "x*"}):
        with pytest.raises(ArgumentError, match="read the stream y too"):
            Query(store.path, offset, **other).latest()


def test_an_archive_whose_lease_goes_while_it_writes_has_archived_nothing(
    store: Store,
    tmp_path: Path,
    no_spark: Any,  # noqa: F811  # the fixture
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It counted what it had not come to as archived, and an operator may trim up to there."""
    for name in ("a", "b"):
        fill(store, range(1, 1000), name)
    store.close()
    real = PartWriter.write

    def write(writer: PartWriter, part: Any) -> None:
        real(writer, part)
        for lease in (store.path / "leases").iterdir():
            leases.release(lease)  # as who makes the next one does, once its time is over

    monkeypatch.setattr(PartWriter, "write", write)
    place = tmp_path / "archive"
    with pytest.raises(DiskstreamError, match="the lease has run out or was released"):
        run(no_spark, ArchiveSettings(store=str(store.path), archive=str(place), quiet=True))
    assert latest(Place(str(place))).streams == {}
