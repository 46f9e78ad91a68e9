"""The streaming read, without Spark: a reader that is asked by hand what Spark asks."""

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

import diskstream
from diskstream import ArgumentError, DataLossError, EntryID, NoSuchStreamError, ReadOnlyError, Store

types = pytest.importorskip("pyspark.sql.types")
streaming = pytest.importorskip("pyspark.sql.streaming.datasource")

from diskstream.spark import offsets
from diskstream.spark.acknowledge import Follower
from diskstream.spark.kept_stores import STORES
from diskstream.spark.options import ReadOptions
from diskstream.spark.stream_reader import EntriesStreamReader

SCHEMA = types.StructType([types.StructField("stream", types.StringType()), types.StructField("n", types.LongType())])
Offset = dict[str, str]
Rows = list[tuple[str, int]]


class Query:
    """What a micro-batch query does with a reader, step by step; `offset` is its checkpoint."""

    def __init__(self, at: Path, offset: Offset | None = None, **options: Any) -> None:
        names = {"streams": "x"} if "streampattern" not in options and "streams" not in options else {}
        said = {"path": str(at), "startingids": "earliest", **names, **options}
        parsed = ReadOptions.parse({name: str(value) for name, value in said.items() if value is not None})
        self.reader = EntriesStreamReader(parsed.check(), SCHEMA)
        self.offset = offset if offset is not None else self.reader.initialOffset()

    def latest(self) -> Offset:
        return self.reader.latestOffset(self.offset, self.reader.getDefaultReadLimit())

    def read(self, start: Offset, end: Offset) -> Rows:
        found: Rows = []
        for partition in self.reader.partitions(start, end):
            for batch in self.reader.read(partition):
                found.extend(zip(batch["stream"].to_pylist(), batch["n"].to_pylist(), strict=True))
        return found

    def batch(self) -> Rows:
        """The next micro-batch; none where the offset stays."""
        end = self.latest()
        assert json.loads(json.dumps(end)) == end
        if end == self.offset:
            return []
        start, self.offset = self.offset, end
        return self.read(start, end)

    def numbers(self) -> list[int]:
        return [number for _, number in self.batch()]


@pytest.fixture(autouse=True)
def _tasks_keep_no_store() -> Iterator[None]:
    STORES.forget()
    yield
    STORES.forget()


def at(offset: Offset) -> Offset:
    """The positions of an offset."""
    return {name: each for name, each in offset.items() if name[0] != "%"}


def fill(store: Store, numbers: range, name: str | bytes = "x") -> None:
    """Entries whose IDs are their numbers, from 1 on."""
    for number in numbers:
        store.stream(name).add({"n": number}, f"{number}-0")


# --- where it begins --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "first"),
    [
        ({"startingids": "earliest"}, [1, 2, 3, 4, 5, 6]),
        ({"startingids": "latest"}, [6]),
        ({"startingids": None}, [6]),
        ({"startingids": "4-0"}, [4, 5, 6]),
        ({"startingids": '{"x": "5-0"}'}, [5, 6]),
        ({"startingids": None, "startingtimestamp": 3}, [3, 4, 5, 6]),
        ({"startingids": None, "startingtimestamp": 0}, [1, 2, 3, 4, 5, 6]),
        ({"startingids": "6-0"}, [6]),
        ({"startingids": None, "startingtimestamp": 6}, [6]),
    ],
)
def test_a_query_begins_where_it_is_told(store: Store, options: dict[str, Any], first: list[int]) -> None:
    fill(store, range(1, 6))
    query = Query(store.path, **options)
    fill(store, range(6, 7))
    assert query.numbers() == first


def test_the_first_offset_is_decided_once(store: Store) -> None:
    """Spark asks twice: what is added in between must not be passed over."""
    fill(store, range(1, 4))
    query = Query(store.path, startingids="latest")
    fill(store, range(4, 6))
    assert at(query.reader.initialOffset()) == {"x": "3-0"}
    assert query.numbers() == [4, 5]


def test_a_stream_that_is_named_and_missing_is_refused_at_the_start(store: Store) -> None:
    with pytest.raises(NoSuchStreamError, match="x"):
        Query(store.path)


@pytest.mark.parametrize("option", [{"endingids": "5-0"}, {"endingtimestamp": "5"}])
def test_a_streaming_read_has_no_end(store: Store, option: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="has no end"):
        Query(store.path, **option)


@pytest.mark.parametrize("options", [{"startingtimestamp": 50, "startingids": None}, {"startingids": "51-0"}])
def test_a_start_that_one_stream_has_not_reached_loses_nothing(store: Store, options: dict[str, Any]) -> None:
    """Another stream goes on meanwhile, so that a batch is made that this one has no part in."""
    fill(store, range(1, 4), "slow")
    fill(store, range(1, 4), "fast")
    query = Query(store.path, streams="slow,fast", **options)
    fill(store, range(60, 62), "fast")
    assert query.batch() == [("fast", 60), ("fast", 61)]
    fill(store, range(70, 71), "slow")
    assert query.batch() == [("slow", 70)]


def test_a_time_before_all_that_is_left_begins_with_what_is_left(store: Store) -> None:
    fill(store, range(1, 10))
    store.stream("x").trim(minid="5-0")
    assert Query(store.path, startingids=None, startingtimestamp=2).numbers() == [5, 6, 7, 8, 9]


# --- where a batch ends -----------------------------------------------------------------------------------------------


def test_the_end_is_never_behind_the_start(store: Store) -> None:
    fill(store, range(1, 4))
    query = Query(store.path, {"x": "100-0"})
    assert at(query.latest()) == {"x": "100-0"}


def test_asking_for_the_end_reads_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark asks a hundred times a second."""
    fill(store, range(1, 100))
    query = Query(store.path, streampattern="*", streams=None)
    query.latest()
    for name in ("streams", "lease"):
        monkeypatch.setattr(Store, name, lambda *_: pytest.fail("looked at the folder again"))
    for name in ("splits", "scan", "range", "count_from"):
        monkeypatch.setattr(diskstream.Stream, name, lambda *_: pytest.fail("looked into the stream"))
    for _ in range(100):
        assert at(query.latest()) == {"x": "99-0"}


def test_batches_are_what_came_in_between(store: Store) -> None:
    fill(store, range(1, 4))
    query = Query(store.path)
    assert (query.numbers(), query.numbers()) == ([1, 2, 3], [])
    fill(store, range(4, 7))
    store.seal()
    assert (query.numbers(), query.numbers()) == ([4, 5, 6], [])


def test_a_batch_that_comes_again_is_the_same(store: Store) -> None:
    fill(store, range(1, 4))
    query = Query(store.path)
    start = query.offset
    assert query.numbers() == [1, 2, 3]
    fill(store, range(4, 100))
    store.seal()
    assert Query(store.path, start).read(start, query.offset) == [("x", number) for number in (1, 2, 3)]


def test_a_restart_goes_on_whatever_the_options_say_of_the_start(store: Store) -> None:
    fill(store, range(1, 6))
    assert Query(store.path, {"x": "2-0"}, startingids="latest").numbers() == [3, 4, 5]


def test_deleted_entries_are_passed_over(store: Store) -> None:
    fill(store, range(1, 8))
    query = Query(store.path, maxentriespertrigger=2)
    store.stream("x").delete("1-0", "2-0", "3-0", "7-0")
    assert [number for _ in range(5) for number in query.numbers()] == [4, 5, 6]


def test_an_empty_stream_makes_no_batch(store: Store) -> None:
    fill(store, range(1, 2))
    store.stream("x").delete("1-0")
    query = Query(store.path)
    query.batch()
    assert query.latest() == query.offset


def test_without_the_tail_only_what_is_sealed_is_read(store: Store) -> None:
    fill(store, range(1, 4))
    query = Query(store.path, includetail="false")
    assert query.numbers() == []
    store.seal()
    fill(store, range(4, 6))
    assert query.numbers() == [1, 2, 3]


# --- limits -----------------------------------------------------------------------------------------------------------


def test_a_limit_of_entries_is_kept_and_all_of_them_come(store: Store) -> None:
    fill(store, range(1, 24))
    query = Query(store.path, maxentriespertrigger=5)
    assert [len(query.numbers()) for _ in range(6)] == [5, 5, 5, 5, 3, 0]


def test_a_limit_is_shared_out_by_backlog(store: Store) -> None:
    fill(store, range(1, 81), "long")
    fill(store, range(1, 21), "short")
    query = Query(store.path, streams="long,short", maxentriespertrigger=10)
    names = [name for name, _ in query.batch()]
    assert (names.count("long"), names.count("short")) == (8, 2)


def test_a_short_backlog_does_not_wait_until_a_long_one_ends(store: Store) -> None:
    fill(store, range(1, 101), "long")
    fill(store, range(1, 3), "short")
    query = Query(store.path, streams="long,short", maxentriespertrigger=2)
    first = [name for _ in range(3) for name, _ in query.batch()]
    assert first.count("short") == 2


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_whatever_the_limit_each_entry_comes_once_and_in_order(store: Store, limit: int) -> None:
    sizes = {"a": 1, "b": 13, "c": 40, "d": 2}
    for name, size in sizes.items():
        fill(store, range(1, size + 1), name)
    query = Query(store.path, streampattern="*", streams=None, maxentriespertrigger=limit)
    found: Rows = []
    while batch := query.batch():
        assert len(batch) <= limit
        found += batch
    for name, size in sizes.items():
        assert [number for each, number in found if each == name] == list(range(1, size + 1))


def test_a_limit_of_bytes_is_kept_about(store: Store) -> None:
    store.stream("x").add_many([{"n": number, "pad": "." * 1000} for number in range(200)])
    query = Query(store.path, maxbytespertrigger="20k")
    sizes = []
    while numbers := query.numbers():
        sizes.append(len(numbers))
    assert sum(sizes) == 200
    assert 10 <= max(sizes) <= 40


def test_one_entry_above_the_limit_of_bytes_still_comes(store: Store) -> None:
    store.stream("x").add_many([{"n": number, "pad": "." * 5000} for number in range(3)])
    query = Query(store.path, maxbytespertrigger=100)
    assert [query.numbers() for _ in range(4)] == [[0], [1], [2], []]


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


def test_too_few_entries_wait_for_more_or_for_the_longest_delay(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    fill(store, range(1, 4))
    query = Query(store.path, minentriespertrigger=5, maxtriggerdelay="10s")
    assert query.numbers() == []
    clock.now += 9
    assert query.numbers() == []
    clock.now += 1
    assert query.numbers() == [1, 2, 3]
    fill(store, range(4, 6))
    assert query.numbers() == []  # the delay begins anew
    fill(store, range(6, 10))
    assert query.numbers() == [4, 5, 6, 7, 8, 9]


def test_too_few_entries_may_be_limited_too(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch)
    fill(store, range(1, 13))
    query = Query(store.path, minentriespertrigger=4, maxentriespertrigger=5)
    assert [query.numbers() for _ in range(3)] == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10], []]


# --- AvailableNow -----------------------------------------------------------------------------------------------------


def test_available_now_reads_what_was_there_and_the_next_query_the_rest(store: Store) -> None:
    fill(store, range(1, 8), "a")
    options: dict[str, Any] = {
        "streampattern": "*",
        "streams": None,
        "maxentriespertrigger": 3,
        "minentriespertrigger": 100,
    }
    query = Query(store.path, **options)
    query.reader.prepareForTriggerAvailableNow()
    fill(store, range(8, 20), "a")
    fill(store, range(1, 5), "later")
    query.reader._listed = (0.0, [])
    found = [query.numbers() for _ in range(5)]
    assert found[:3] == [[1, 2, 3], [4, 5, 6], [7]]
    assert found[3:] == [[], []]
    again = Query(store.path, query.offset, **options)
    again.reader.prepareForTriggerAvailableNow()
    rest = [row for _ in range(10) for row in again.batch()]
    assert sorted(rest) == [*(("a", n) for n in range(8, 20)), *(("later", n) for n in range(1, 5))]


# --- streams that come and go -----------------------------------------------------------------------------------------


def test_a_new_stream_is_read_from_its_beginning(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    fill(store, range(1, 3), "s1")
    query = Query(store.path, streampattern="s*", streams=None, startingids="latest")
    fill(store, range(1, 4), "s2")
    fill(store, range(1, 4), "other")
    clock.now += 2
    assert query.batch() == [("s2", 1), ("s2", 2), ("s2", 3)]


def test_a_pattern_may_find_nothing_yet(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Query(store.path, streampattern="s*", streams=None, startingids="latest")
    assert (query.offset, query.batch()) == ({}, [])
    fill(store, range(1, 3), "s")
    assert query.batch() == [("s", 1), ("s", 2)]


@pytest.mark.parametrize("name", [b"a%b", b"%25", b"%group", b"\xff\xfe", "ü,{}\"'".encode(), b"a\nb", b"\xed\xb2\x80"])
def test_any_name_of_a_stream_goes_to_an_offset_and_back(store: Store, name: bytes) -> None:
    fill(store, range(1, 4), name)
    query = Query(store.path, streampattern="*", streams=None, group="g", maxentriespertrigger=2)
    assert [query.numbers() for _ in range(3)] == [[1, 2], [3], []]
    Follower().acknowledge(query.offset)
    assert store.stream(name).group("g", start="0", entries_read=0).info().lag == 0


def test_what_was_trimmed_unread_is_reported(store: Store) -> None:
    fill(store, range(1, 10))
    query = Query(store.path, {"x": "2-0"})
    store.stream("x").trim(minid="5-0")
    with pytest.raises(DataLossError, match=r"stream x.* 4-0 were trimmed away") as caught:
        query.batch()
    assert "failOnDataLoss=false" in str(caught.value)


def test_what_was_trimmed_unread_is_passed_over_when_told_so(store: Store) -> None:
    fill(store, range(1, 10))
    query = Query(store.path, {"x": "2-0"}, failondataloss="false")
    store.stream("x").trim(minid="5-0")
    assert query.numbers() == [5, 6, 7, 8, 9]


def test_what_was_trimmed_after_it_was_read_is_no_loss(store: Store) -> None:
    fill(store, range(1, 10))
    query = Query(store.path)
    query.batch()
    store.stream("x").trim(maxlen=0)
    fill(store, range(10, 12))
    assert query.numbers() == [10, 11]


def test_what_is_trimmed_between_plan_and_task_is_reported(store: Store) -> None:
    fill(store, range(1, 10))
    query = Query(store.path)
    partitions = query.reader.partitions(query.offset, query.latest())
    store.stream("x").trim(minid="5-0")
    with pytest.raises(DataLossError, match="trimmed away"):
        for partition in partitions:
            list(query.reader.read(partition))


@pytest.mark.parametrize("again", [0, 2], ids=["deleted", "deleted and made anew"])
def test_a_stream_that_is_gone_is_reported(store: Store, again: int) -> None:
    fill(store, range(1, 10))
    query = Query(store.path, {"x": "5-0"})
    end = query.latest()
    store.delete("x")
    fill(store, range(1, again + 1))
    with pytest.raises(DataLossError, match="deleted or replaced"):
        query.read(query.offset, end)
    assert Query(store.path, query.offset, failondataloss="false").read(query.offset, end) == []


def test_a_new_stream_that_is_gone_before_it_is_read_is_reported(store: Store) -> None:
    fill(store, range(1, 3), "s1")
    fill(store, range(1, 3), "s2")
    query = Query(store.path, {"s1": "2-0"}, streampattern="*", streams=None)
    end = query.latest()
    store.delete("s2")
    with pytest.raises(DataLossError, match=r"s2.* it is gone"):
        query.read(query.offset, end)


# --- offsets ----------------------------------------------------------------------------------------------------------

IDS = some.builds(EntryID, some.integers(0, 2**64 - 1), some.integers(0, 2**64 - 1))


@given(some.dictionaries(some.binary(min_size=1), IDS), some.text(), some.text())
def test_offsets_come_back_from_json_as_they_were(positions: dict[bytes, EntryID], path: str, group: str) -> None:
    offset = json.loads(json.dumps(offsets.encode(positions, path, group)))
    assert offsets.decode(offset) == positions
    assert offsets.followed(offset) == ((path, group) if group else None)


def test_an_offset_can_be_read_by_a_person() -> None:
    offset = offsets.encode({b"sensors": EntryID(5, 1), b"100%\xff": EntryID(0, 0)}, "/data", "workers")
    assert offset == {"sensors": "5-1", "100%25%FF": "0-0", "%group": '["/data", "workers"]'}


# --- groups that follow -----------------------------------------------------------------------------------------------


def end_of(store: Store, at: str, name: str = "x") -> Offset:
    return {name: at, "%group": json.dumps([str(store.path), "g"])}


def delivered(store: Store) -> tuple[str, int | None]:
    info = store.stream("x").group("g", start="0", entries_read=0).info()
    return str(info.last_delivered_id), info.lag


def test_a_group_is_made_and_follows_and_never_goes_back(store: Store) -> None:
    fill(store, range(1, 10))
    Follower().acknowledge(end_of(store, "4-0"))
    assert delivered(store) == ("4-0", 5)
    Follower().acknowledge(end_of(store, "9-0"))
    Follower().acknowledge(end_of(store, "4-0"))
    assert delivered(store) == ("9-0", 0)


def test_a_group_of_other_consumers_is_shared(store: Store) -> None:
    fill(store, range(1, 10))
    consumer = store.stream("x").group("g", start="0").consumer("c")
    assert len(list(consumer.read(count=3))) == 3
    Follower().acknowledge(end_of(store, "6-0"))
    assert [str(each.id) for each in consumer.read(count=1)] == ["7-0"]


def test_a_stream_that_is_gone_has_no_group_and_is_not_made_again(store: Store) -> None:
    fill(store, range(1, 10))
    store.delete("x")
    Follower().acknowledge(end_of(store, "9-0"))
    assert not store.exists("x")


def test_a_group_of_a_store_that_cannot_be_written_to_does_not_move(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a reader of a read-only mount, that is no error: it has no group to move."""
    fill(store, range(1, 10))

    def refuse(path: str, **_: object) -> Store:
        raise ReadOnlyError(path)

    with monkeypatch.context() as patched:
        patched.setattr(diskstream, "open", refuse)
        Follower().acknowledge(end_of(store, "2-0"))
    assert store.stream("x").groups() == []


def test_progress_of_other_sources_is_passed_over(store: Store, tmp_path: Path) -> None:
    fill(store, range(1, 10))
    gone = tmp_path / "gone"
    diskstream.open(gone).close()
    shutil.rmtree(gone)
    elsewhere = json.dumps({"x": "1-0", "%group": json.dumps([str(gone), "g"])})
    Follower().acknowledge_progress(
        [None, "5", "not json", '{"topic": {"0": 1}}', elsewhere, json.dumps(end_of(store, "9-0"))]
    )
    assert delivered(store) == ("9-0", 0)


def test_a_query_without_a_group_moves_none(store: Store) -> None:
    fill(store, range(1, 10))
    query = Query(store.path)
    query.batch()
    query.reader.commit(query.offset)
    assert store.stream("x").groups() == []
