"""Reading from Spark, as far as no JVM is needed for it: plans, and what tasks do."""

import json
import os
import pickle
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import diskstream
from diskstream import (
    ArgumentError,
    CorruptionError,
    DataLossError,
    EntryID,
    NewerFormatError,
    NoSuchStreamError,
    NotAStoreError,
    Store,
    leases,
)
from diskstream.copying import UNFINISHED, temporary_name
from tests.streams.layers import Layered, layered, small_store

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark.sql.datasource import InputPartition

from diskstream.spark import planning
from diskstream.spark.options import ReadOptions
from diskstream.spark.partitions import EntriesPartition, Slice, pack, spread
from diskstream.spark.planning import plan_entries
from diskstream.spark.source import EntriesReader
from tests.spark.test_read_options import ddl, options

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA = "stream string, id string"


# --- packing ----------------------------------------------------------------------------------------------------------


def test_slices_are_packed_in_order_within_both_limits() -> None:
    slices = [Slice(b"x", (at, 0), (at, 9), entries, size) for at, (entries, size) in enumerate(
        [(1, 10), (1, 10), (1, 90), (50, 1), (50, 1), (1, 1), (999, 999), (1, 1)])]  # fmt: skip
    packed = pack(slices, 100, 100)
    assert [len(run) for run in packed] == [2, 2, 2, 1, 1]
    assert [each for run in packed for each in run] == slices
    assert pack([], 1, 1) == []


def test_slices_are_spread_in_order_over_runs_of_about_one_size() -> None:
    slices = [Slice(b"x", (at, 0), (at, 9), 1, size) for at, size in enumerate([10] * 16 + [60])]
    runs = spread(slices, 4)
    assert [sum(each.size_bytes for each in run) for run in runs] == [50, 60, 50, 60]
    assert [each for run in runs for each in run] == slices
    assert spread(slices[:2], 4) == [(slices[0],), (slices[1],)]
    assert spread([], 4) == []
    empty = Slice(b"x", (9, 0), (9, 0), 1, 0)
    assert [len(run) for run in spread([slices[0], slices[1], empty], 2)] == [1, 2]
    assert spread([Slice(b"x", (1, 0), (1, 0), 1, 0)], 2) == [(Slice(b"x", (1, 0), (1, 0), 1, 0),)]


# --- planning ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chosen", [{}, {"streamPattern": "*"}, {"streamPattern": "?diskstream*"}])
def test_a_stream_that_a_restore_is_making_is_no_stream_yet(tmp_path: Path, chosen: dict[str, str]) -> None:
    """It was read in part, by a name that nobody gave it, and a query was told that it was lost once it was whole."""
    with diskstream.open(tmp_path / "s") as store:
        for name in (b"whole", UNFINISHED + b"restore-0123456789abcdef", temporary_name()):
            store.stream(name).add({"a": "1"})
    asked = options(path=str(tmp_path / "s"), **chosen)
    with planning.open_for_planning(asked.path) as store:
        names = planning.chosen_streams(store, asked)
    assert names == ([] if "?" in chosen.get("streamPattern", "") else [b"whole"])


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Layered]:
    """A stream `x` in every kind of segment, a small `y`, and `Z,1`."""
    with small_store(tmp_path / "s") as store:
        made = layered(store)
        for name in ("y", "Z,1"):
            for number in range(3):
                store.stream(name).add({"n": number}, (100 + number, 0))
        yield made


def read(given: ReadOptions, schema: str = SCHEMA) -> Iterator["pa.RecordBatch"]:
    """Plans, and reads in copies of the reader, as Spark does: it is pickled before `partitions` runs."""
    reader = EntriesReader(given.check(), ddl(schema))
    sent = pickle.dumps(reader)
    partitions: Sequence[InputPartition] = reader.partitions()
    for partition in partitions:
        yield from pickle.loads(sent).read(pickle.loads(pickle.dumps(partition)))


def ids(given: ReadOptions) -> list[str]:
    """What is read, as `stream id`."""
    rows = [row for batch in read(given) for row in batch.to_pylist()]
    return [f"{row['stream']} {row['id']}" for row in rows]


def live(made: Layered, low: object = "-", high: object = "+") -> list[str]:
    return [f"x {entry.id}" for entry in made.stream.range(str(low), str(high))]


def test_all_streams_are_read_in_order_by_default(made: Layered) -> None:
    others = [f"{name} {100 + number}-0" for name in ("Z,1", "y") for number in range(3)]
    assert sorted(ids(options(path=made.store.path))) == sorted(others + live(made))
    assert ids(options(path=made.store.path, streams="x")) == live(made)
    assert ids(options(path=made.store.path, streams='["y", "Z,1"]')) == others[3:] + others[:3]
    assert ids(options(path=made.store.path, streamPattern="[xZ]*")) == others[:3] + live(made)
    assert ids(options(path=made.store.path, streamPattern="none*")) == []


@pytest.mark.parametrize(
    ("given", "low", "high"),
    [
        ({"startingIds": "earliest", "endingIds": "latest"}, "-", "+"),
        ({"startingIds": "60-3"}, "60-3", "+"),
        ({"startingIds": "60-3", "endingIds": "60-3"}, "60-3", "60-3"),
        ({"endingIds": "100-9"}, "-", "100-9"),
        ({"startingTimestamp": "60", "endingTimestamp": "100"}, "60-0", "99"),
        ({"startingIds": '{"x": "60-3"}', "endingIds": '{"x": "70-0"}'}, "60-3", "70-0"),
        ({"startingIds": '{"x": "60-3", "*": "latest"}'}, "60-3", "+"),
        ({"startingIds": "-", "endingIds": "+"}, "-", "+"),
    ],
)
def test_bounds_are_ids_or_times_or_words(made: Layered, given: dict[str, str], low: str, high: str) -> None:
    assert ids(options(path=made.store.path, streams="x", **given)) == live(made, low, high)


@pytest.mark.parametrize(
    "given",
    [
        {"startingIds": "latest"},
        {"endingIds": "earliest"},
        {"startingIds": "99", "endingIds": "98"},
        {"endingTimestamp": "0"},
        {"startingTimestamp": "9999999999999999999"},
    ],
)
def test_an_empty_range_has_nothing(made: Layered, given: dict[str, str]) -> None:
    assert ids(options(path=made.store.path, **given)) == []


def test_bounds_by_stream_leave_the_others_whole(made: Layered) -> None:
    found = ids(options(path=made.store.path, streams="x,y", startingIds='{"y": "102-0"}'))
    assert found == [*live(made), "y 102-0"]


def test_bounds_of_a_stream_that_is_not_read_are_refused(made: Layered) -> None:
    with pytest.raises(ArgumentError, match="bounds for b'yy', which is none of the streams that are read"):
        plan_entries(options(path=made.store.path, startingIds='{"yy": "5"}'))


def partitions(given: ReadOptions) -> list[EntriesPartition]:
    return plan_entries(given)


@pytest.mark.parametrize("least", [1, 2, 5, 10, 30])
def test_there_are_at_least_as_many_partitions_as_wanted_where_there_is_that_much(made: Layered, least: int) -> None:
    found = partitions(options(path=made.store.path, minPartitions=least))
    assert len(found) >= least
    assert sum(each.entries for one in found for each in one.slices) >= len(made.live) + 6
    assert sorted(ids(options(path=made.store.path, minPartitions=least))) == sorted(
        [*live(made), *(f"{name} {number}-0" for name in ("y", "Z,1") for number in (100, 101, 102))]
    )


def test_small_streams_share_a_partition_and_large_ones_have_several(made: Layered) -> None:
    (one,) = partitions(options(path=made.store.path))
    assert {each.stream for each in one.slices} == {b"x", b"y", b"Z,1"}
    several = partitions(options(path=made.store.path, maxEntriesPerPartition=50))
    assert all(sum(each.entries for each in one.slices) <= 50 for one in several)
    parts = [each for one in several for each in one.slices if each.stream == b"x"]
    assert all(before.range[1] < after.range[0] for before, after in pairwise(parts))


@pytest.mark.parametrize("told_by", ["sched_getaffinity", "cpu_count"])
@pytest.mark.parametrize(("cores", "least", "count"), [(1, 20, 3), (2, 20, 4), (8, 20, 8), (8, 200, 3), (8, 80, 5)])
def test_what_is_much_is_cut_evenly_for_the_cores_that_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int, least: int, count: int, told_by: str
) -> None:
    """No core waits for one that has half a partition left; but nothing is cut that is not worth a task."""
    if told_by == "cpu_count":  # not each system tells which cores are ours
        monkeypatch.delattr(os, "sched_getaffinity")
        monkeypatch.setattr(os, "cpu_count", lambda: cores)
    else:
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    monkeypatch.setattr(planning, "_LEAST_ENTRIES", least)
    with small_store(tmp_path / "s") as store:
        stream = store.stream("x")
        for first in range(100, 500, 20):
            stream.add_many([{"n": str(number)} for number in range(first, first + 20)])
        given = options(path=store.path, maxEntriesPerPartition=150)
        sizes = [sum(each.entries for each in one.slices) for one in partitions(given)]
        assert len(sizes) == count, sizes
        assert max(sizes) - min(sizes) < 400 / count / 3, sizes
        assert ids(given) == [f"x {entry.id}" for entry in stream.range()]
        assert len(partitions(options(path=store.path, maxEntriesPerPartition=150, minPartitions=1))) == 3


def test_without_the_tail_the_active_segment_is_left_out(made: Layered) -> None:
    active = [str(entry.id) for entry in made.stream.range(made.stream.splits()[-1].first)]
    assert 0 < len(active) < 20
    found = ids(options(path=made.store.path, streams="x", includeTail="false"))
    assert found == live(made)[: -len(active)]
    assert ids(options(path=made.store.path, streams="y", includeTail="false")) == []


def test_no_such_path_is_told_as_what_it_may_be(tmp_path: Path) -> None:
    with pytest.raises(NotAStoreError, match="no such directory on the driver; driver and workers must see it"):
        plan_entries(options(path=tmp_path / "none"))
    assert not (tmp_path / "none").exists()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(NotAStoreError, match="other is not a diskstream store"):
        plan_entries(options(path=tmp_path / "other"))


def test_no_such_stream_is_told_before_anything_is_read(made: Layered) -> None:
    with pytest.raises(NoSuchStreamError, match="the store has no stream 'X'"):
        plan_entries(options(path=made.store.path, streams="x,X"))


def test_a_store_of_a_later_version_is_told(made: Layered) -> None:
    made.store.close()
    about = made.store.path / "store.json"
    described = json.loads(about.read_text())
    (version,) = [name for name, value in described.items() if isinstance(value, int) and "format" in name]
    about.write_text(json.dumps({**described, version: 99}))
    with pytest.raises(NewerFormatError, match=r"has format 99, and this version reads up to .*: upgrade"):
        plan_entries(options(path=made.store.path))


# --- leases -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nothing", [{"startingIds": "latest"}, {"streams": "empty"}, {"endingTimestamp": "0"}])
def test_a_read_of_nothing_leaves_no_lease(made: Layered, nothing: dict[str, str]) -> None:
    """Each look whether there is something new left one for an hour, with a copy of the active log."""
    made.store.stream("empty").group("g")
    assert ids(options(path=made.store.path, **nothing)) == []
    assert list((made.store.path / "leases").iterdir()) == []


def test_a_plan_that_fails_leaves_no_lease(made: Layered) -> None:
    made.store.close()
    damage_index(made.store.path)
    with pytest.raises(CorruptionError):
        plan_entries(options(path=made.store.path, minPartitions=3))
    assert list((made.store.path / "leases").iterdir()) == []


def test_a_lease_that_is_gone_is_told_with_the_way_out(made: Layered) -> None:
    reader = EntriesReader(options(path=made.store.path), ddl(SCHEMA))
    (partition,) = reader.partitions()
    assert isinstance(partition, EntriesPartition)
    leases.release(Path(partition.path))
    with pytest.raises(NotAStoreError, match=r"the lease has run out or was removed: driver and workers .* leaseTtl"):
        list(reader.read(partition))
    partition.given = str(made.store.path / "elsewhere")
    with pytest.raises(NotAStoreError, match="it is not there: driver and workers must see the store"):
        list(reader.read(partition))


def damage_index(path: Path) -> None:
    """Makes the footer of a sealed segment rot."""
    segment = sorted((path / "streams" / "x").glob("*.seg"))[1]
    data = bytearray(segment.read_bytes())
    data[-40:] = bytes(byte ^ 0x55 for byte in data[-40:])
    segment.write_bytes(data)


# --- what is gone, without a lease ------------------------------------------------------------------------------------


def trimmed(store: Store) -> None:
    store.stream("x").trim(maxlen=50)


def deleted(store: Store) -> None:
    store.delete("x")


def replaced(store: Store) -> None:
    store.delete("x")
    store.stream("x").add({"n": 1}, "1-0")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (trimmed, r"stream x: entries up to \d+-\d were trimmed away, but \S+ to \S+ was to be read"),
        (deleted, "stream x: it is gone: it was deleted or replaced"),
        (replaced, "stream x: it ends at 1-0: it was deleted or replaced"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("moment", ["between planning and reading", "while it is read"])
def test_what_goes_is_missed_without_a_lease(made: Layered, change: Any, says: str, moment: str) -> None:
    reader = EntriesReader(options(path=made.store.path, streams="x", lease="false", batchRows=10), ddl(SCHEMA))
    (partition,) = reader.partitions()
    if moment == "while it is read":
        batches = reader.read(partition)
        assert next(batches).num_rows
        change(made.store)
    else:
        change(made.store)
        batches = reader.read(partition)
    with pytest.raises(DataLossError, match=says):
        list(batches)


@pytest.mark.parametrize("change", [trimmed, deleted, replaced])
def test_what_is_left_is_read_where_losses_are_allowed(made: Layered, change: Any) -> None:
    given = options(path=made.store.path, streams="x", lease="false", failOnDataLoss="false")
    reader = EntriesReader(given, ddl(SCHEMA))
    (partition,) = reader.partitions()
    change(made.store)
    found = [f"{row['stream']} {row['id']}" for batch in reader.read(partition) for row in batch.to_pylist()]
    assert found == ([] if change is replaced else live(made))


def test_what_went_before_it_was_planned_is_not_missed(made: Layered) -> None:
    """The first segment is partly trimmed: its first ID is one of those that are gone."""
    assert made.stream.trimmed_to() is not None
    assert ids(options(path=made.store.path, streams="x", lease="false")) == live(made)
    made.store.close()
    with diskstream.open(made.store.path, read_only=True) as store:
        assert ids(options(path=store.path, streams="x", lease="false")) == [
            f"x {entry.id}" for entry in store.stream("x")
        ]


# --- batches ----------------------------------------------------------------------------------------------------------


def test_fields_named_as_parts_of_entries_are_columns_beside_them(made: Layered) -> None:
    stream = made.store.stream("odd")
    stream.add({"id_ms": "seven", "stream": "s", "fields": "f", "ts": "1", "segment": 3}, "9-1")
    columns = ["id_ms bigint", "field:id_ms string", "field:ts int", "ts timestamp", "field:fields string"]
    columns += ["segment bigint", "field:segment int", "field:stream binary", "stream string", "_corrupt fields"]
    (batch,) = read(options(path=made.store.path, streams="odd", batchRows=1), ", ".join(columns))
    (row,) = batch.to_pylist()
    assert (row["id_ms"], row["field:id_ms"]) == (9, "seven")
    assert (row["ts"].microsecond, row["field:ts"]) == (9000, 1)
    assert (row["segment"], row["field:segment"]) == (1, 3)
    assert (row["stream"], row["field:stream"], row["field:fields"]) == ("odd", b"s", "f")
    assert row["_corrupt"] is None


LARGE = [EntryID(5, 2**63), EntryID(2**63 - 1, 0), EntryID(2**63, 0), EntryID(2**64 - 1, 2**64 - 1)]


@pytest.fixture
def large(store: Store) -> Store:
    for entry_id in LARGE:
        store.stream("x").add({"n": 1}, entry_id)
    return store


def test_ids_that_a_bigint_cannot_hold_end_a_read(large: Store) -> None:
    with pytest.raises(ArgumentError, match=r"IDs from 2\^63 on .*: choose largeIds=wrap .*, or read the column id"):
        list(read(options(path=large.path), "id_ms bigint"))
    with pytest.raises(ArgumentError, match="stream x has IDs from 2"):
        list(read(options(path=large.path, endingIds="6"), "id_seq bigint"))
    (batch,) = read(options(path=large.path, endingIds="6"), "id_ms bigint")
    assert batch.to_pylist() == [{"id_ms": 5}]


def test_ids_that_a_bigint_cannot_hold_may_wrap(large: Store) -> None:
    (batch,) = read(options(path=large.path, largeIds="wrap"), "id_ms bigint, id_seq bigint")
    assert batch["id_ms"].to_pylist() == [5, 2**63 - 1, -(2**63), -1]
    assert batch["id_seq"].to_pylist() == [-(2**63), 0, 0, -1]


def test_ids_as_text_are_whole(large: Store) -> None:
    (batch,) = read(options(path=large.path), "id string, ts timestamp")
    assert batch["id"].to_pylist() == [str(entry_id) for entry_id in LARGE]
    assert batch["ts"].null_count == 3


def test_a_worker_with_another_version_says_so(tmp_path: Path) -> None:
    with small_store(tmp_path / "s") as store:
        store.stream("x").add({"n": "1"})
    given = options(path=tmp_path / "s")
    (partition,) = plan_entries(given)
    partition.version = "0.0.7"
    with pytest.raises(diskstream.DiskstreamError, match=r"the driver has diskstream 0\.0\.7, this worker"):
        list(EntriesReader(given, ddl("id string")).read(partition))
