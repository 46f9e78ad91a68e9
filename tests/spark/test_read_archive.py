"""An archive under `path`: what a batch read of it gives is what one of its store gave, whatever is asked for."""

import itertools
import json
import pickle
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import types as st

from diskstream import EntryID, batches
from diskstream.errors import ArchiveError, ArgumentError, DiskstreamError, NotAStoreError
from diskstream.spark import archived_entries
from diskstream.spark.archived_entries import ArchivePartition, plan_archive
from diskstream.spark.jobs import archive, compact
from diskstream.spark.jobs.archive import ArchiveSettings
from diskstream.spark.jobs.digest import Digest
from diskstream.spark.jobs.manifest import ArchivedFile, Manifest, Reach, latest
from diskstream.spark.jobs.part_reading import read_part
from diskstream.spark.jobs.place import Place
from diskstream.spark.options import ReadOptions
from diskstream.spark.schemas import default_schema, plan
from diskstream.spark.source import DiskstreamSource
from tests.spark.archives import BASE, DAY, NO_SPARK, days, fill, in_process, no_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["no_spark"]

FIELD = st.StructType([st.StructField("name", st.BinaryType()), st.StructField("value", st.BinaryType())])
PARTS: dict[str, st.DataType] = {
    "stream": st.StringType(), "id": st.StringType(), "id_ms": st.LongType(), "id_seq": st.LongType(),
    "ts": st.TimestampType(),
}  # fmt: skip
BODIES: dict[str, dict[str, st.DataType]] = {
    "ids": {},
    "fields": {"fields": st.ArrayType(FIELD)},
    "map": {"fields": st.MapType(st.BinaryType(), st.BinaryType())},
    "raw": {"entry": st.BinaryType()},
    "typed": {
        "n": st.IntegerType(), "tiny": st.ByteType(), "short": st.ShortType(), "long": st.LongType(),
        "single": st.FloatType(), "double": st.DoubleType(), "price": st.DecimalType(20, 4),
        "flag": st.BooleanType(), "text": st.StringType(), "data": st.BinaryType(), "day": st.DateType(),
        "at": st.TimestampType(), "local": st.TimestampNTZType(), "field:ts": st.StringType(),
        "_corrupt": st.ArrayType(FIELD),
    },
}  # fmt: skip
ENTRIES: list[Any] = [
    [("n", "1"), ("n", "2"), ("", ""), ("tiny", "-128"), ("data", b"\xff\x00")],
    {"n": "x", "long": "9223372036854775807", "single": "0.5", "double": "nan", "ts": "a part's name"},
    {"price": "-1234567890123456.7891", "day": "2024-02-29", "at": "2024-02-29T12:00:00.5+02:00", "flag": "true"},
    {"price": "1.23456", "day": "2023-02-29", "local": "1700000000000", "short": "40000", "text": b"\xff"},
    {"text": "ä" * 300, "flag": "no", "other": "o" * 5000},
]


def schema(layout: str, *names: str) -> st.StructType:
    columns = {**PARTS, **BODIES[layout]}
    return st.StructType([st.StructField(name, columns[name]) for name in names or columns])


def read(path: Path, columns: st.StructType, **given: str) -> pa.Table:
    """As Spark does it: the reader is pickled before its partitions are made, and each of them goes to a task."""
    source = DiskstreamSource({"path": str(path), **given})
    reader = source.reader(columns)
    sent = pickle.dumps(reader)
    partitions = [pickle.loads(pickle.dumps(each)) for each in reader.partitions()]
    batches = [batch for each in partitions for batch in pickle.loads(sent).read(each)]
    return pa.Table.from_batches(batches) if batches else pa.table({})


def same(found: pa.Table, expected: pa.Table) -> bool:
    """Row for row, NaN and all."""
    return found.schema == expected.schema and repr(found.to_pylist()) == repr(expected.to_pylist())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of odd streams, and its archive of several runs; one stream is compacted."""
    folder = tmp_path_factory.mktemp("built")
    store, root = folder / "store", folder / "archive"
    at = itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        for job in (archive, compact):
            patch.setattr(job, "run_tasks", in_process)
        for run in range(3):
            for name in (b"s", b"odd%\xff,1"):
                entries = [(f"{BASE + run * DAY + 1000 * next(at)}-{next(at)}", each) for each in ENTRIES * 3]
                fill(store, name, entries)
            fill(store, "large", [(f"{(1 << 63) + run}-{(1 << 64) - 1}", {"n": str(run)})])
            archive.run(NO_SPARK, ArchiveSettings(str(store), str(root)))
        fill(store, "s", [(f"{BASE + 4 * DAY + number}-0", {"n": str(number)}) for number in range(50)])
        archive.run(NO_SPARK, ArchiveSettings(str(store), str(root)))
        compact.run(NO_SPARK, compact.CompactSettings(str(root), streams=(b"s",)))
    return folder


@pytest.fixture
def both(no_spark: Any, built: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Copies of the store and of the archive, for one test."""
    for name in ("store", "archive"):
        shutil.copytree(built / name, tmp_path / name)
    return tmp_path / "store", tmp_path / "archive"


@pytest.mark.parametrize("layout", BODIES)
@pytest.mark.parametrize("given", [{}, {"duplicateFields": "first", "batchRows": "4"}, {"minPartitions": "5"}])
def test_every_layout_is_what_the_store_gives(both: tuple[Path, Path], layout: str, given: dict[str, str]) -> None:
    store, root = both
    found = read(root, schema(layout), largeIds="wrap", **given)
    assert found.num_rows == 2 * 45 + 3 + 50
    assert same(found, read(store, schema(layout), largeIds="wrap", **given))


def test_a_batch_of_many_columns_has_few_rows(both: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    store, root = both
    monkeypatch.setattr(batches, "BATCH_BYTES", 1 << 10)
    columns = schema("typed")
    most = batches.most_rows(plan(columns, ReadOptions(path="x")).columns)
    assert most < 45
    found = read(root, columns, streams="s")
    assert max(len(chunk) for chunk in found["n"].chunks) == most
    assert same(found, read(store, columns, streams="s"))


def test_columns_may_be_chosen_in_any_order(both: tuple[Path, Path]) -> None:
    store, root = both
    columns = schema("typed", "price", "_corrupt", "field:ts", "id", "n", "ts")
    assert same(read(root, columns), read(store, columns))


@pytest.mark.parametrize(
    "given",
    [
        {"streams": "s"},
        {"streams": '["odd%25%FF,1", "s"]'},
        {"streamPattern": "o*"},
        {"streamPattern": "none*"},
        {"startingIds": str(BASE + DAY)},
        {"startingIds": f"{BASE + 4 * DAY + 7}-0", "endingIds": f"{BASE + 4 * DAY + 9}", "streams": "s"},
        {"startingIds": "latest"},
        {"endingIds": "earliest"},
        {"startingIds": '{"s": "latest", "*": "earliest"}'},
        {"startingTimestamp": str(BASE + DAY), "endingTimestamp": str(BASE + 2 * DAY)},
        {"startingTimestamp": str(1 << 63)},
        {"endingTimestamp": "2024-10-05"},
    ],
    ids=str,
)
def test_every_range_is_what_the_store_gives(both: tuple[Path, Path], given: dict[str, str]) -> None:
    store, root = both
    for layout in ("ids", "typed"):
        columns = schema(layout, "stream", "id", *(["n"] if layout == "typed" else []))
        assert same(read(root, columns, **given), read(store, columns, **given))


def test_without_a_schema_it_has_the_columns_of_any_read(both: tuple[Path, Path]) -> None:
    store, root = both
    for layout in ("fields", "map", "raw"):
        sources = [DiskstreamSource({"path": str(path), "layout": layout}) for path in (store, root)]
        assert sources[0].schema() == sources[1].schema()


@pytest.mark.parametrize(
    ("layout", "given", "says"),
    [
        ("typed", {"mode": "FAILFAST"}, r"entry \d+-\d+: the field n does not parse as int32: b'x'"),
        ("typed", {"duplicateFields": "fail"}, "twice|repeat"),
        ("ids", {}, r"stream large has IDs from 2\^63 on"),
    ],
)
def test_what_ends_a_read_of_the_store_ends_this_one(
    both: tuple[Path, Path], layout: str, given: dict[str, str], says: str
) -> None:
    for path in both:
        with pytest.raises(ArgumentError, match=says):
            read(path, schema(layout, *(["id", "n"] if given else [])), **given)


# --- typed archives ---------------------------------------------------------------------------------------------------


@pytest.fixture
def typed(no_spark: Any, tmp_path: Path) -> Path:
    fill(tmp_path / "store", "s", [(f"{BASE + at}-0", each) for at, each in enumerate(ENTRIES)])
    columns = (("n", "int32"), ("price", "decimal(20,4)"), ("day", "date"))
    settings = ArchiveSettings(str(tmp_path / "store"), str(tmp_path / "a"), layout="typed", columns=columns)
    archive.run(no_spark, settings)
    return tmp_path / "a"


def test_a_typed_archive_has_its_columns(typed: Path, tmp_path: Path) -> None:
    made = DiskstreamSource({"path": str(typed)}).schema()
    assert made.fieldNames() == ["stream", "id_ms", "id_seq", "ts", "n", "price", "day", "_corrupt"]
    assert same(read(typed, made), read(tmp_path / "store", made))
    columns = schema("typed", "day", "id", "n")
    assert same(read(typed, columns), read(tmp_path / "store", columns))
    assert same(read(typed, schema("ids", "id")), read(tmp_path / "store", schema("ids", "id")))


@pytest.mark.parametrize(
    ("columns", "given", "says"),
    [
        (schema("fields"), {}, r"holds typed columns, of which no fields can be made again: read n int32, price dec"),
        (schema("typed", "tiny"), {}, "has no column tiny int8: its columns are n int32, price"),
        (st.StructType([st.StructField("n", st.LongType())]), {}, "has no column n int64: its columns are n int32"),
        (schema("typed", "n"), {"duplicateFields": "first"}, "of a repeated name it has the last value alone"),
        (schema("typed", "n"), {"mode": "FAILFAST"}, rf"entry {BASE + 1}-0: the field n does not parse: b'x'"),
    ],
)
def test_what_a_typed_archive_cannot_give_is_refused(
    typed: Path, columns: st.StructType, given: dict[str, str], says: str
) -> None:
    with pytest.raises(ArgumentError, match=says):
        read(typed, columns, **given)


def test_failfast_looks_at_the_columns_that_are_read(typed: Path) -> None:
    assert read(typed, schema("typed", "id"), mode="FAILFAST").num_rows == len(ENTRIES)
    with pytest.raises(ArgumentError, match="the field day does not parse: b'2023-02-29'"):
        read(typed, schema("typed", "day"), mode="FAILFAST")


# --- what is not as it was --------------------------------------------------------------------------------------------


def flipped(root: Path, number: int) -> tuple[Any, list[str]]:
    """Turns a bit of a value that Parquet does not notice; the file, and the IDs of its rows."""
    place = Place(root)
    base = latest(place)
    file = base.files[number]
    path = Path(place.full(file.path))
    sound = path.read_bytes()
    whole = pa.Table.from_batches(list(read_part(place, file.path, base.shape)))
    for at in range(4, len(sound)):
        path.write_bytes(sound[:at] + bytes([sound[at] ^ 1]) + sound[at + 1 :])
        try:
            now = pa.Table.from_batches(list(read_part(place, file.path, base.shape)))
        except (ArchiveError, ValueError):  # it does notice
            continue
        if now["id_ms"].equals(whole["id_ms"]) and not now.equals(whole):
            return file, [f"{row['id_ms']}-{row['id_seq']}" for row in whole.to_pylist()]
    pytest.fail("no such bit")


def test_damage_that_parquet_does_not_notice_ends_a_read(no_spark: Any, tmp_path: Path) -> None:
    fill(tmp_path / "store", "s", days(3, 20))
    archive.run(no_spark, ArchiveSettings(str(tmp_path / "store"), str(tmp_path / "a")))
    file, inside = flipped(tmp_path / "a", 1)
    with pytest.raises(ArchiveError, match="is damaged: its rows are not those that were written"):
        read(tmp_path / "a", schema("typed", "id", "n"))
    report = tmp_path / "report"
    found = read(tmp_path / "a", schema("typed", "id", "n"), onCorruption="skip", corruptionPath=str(report))
    assert found.num_rows == 40
    assert not set(found["id"].to_pylist()) & set(inside)
    [told] = [json.loads(each.read_text()) for each in report.iterdir()]
    assert (told["stream"], told["first"], told["last"]) == ("s", str(file.first), str(file.last))


def test_ids_alone_are_those_that_were_written_or_none(no_spark: Any, tmp_path: Path) -> None:
    """Of a file's `id_seq` nothing but the digest tells, which is of whole rows."""
    fill(tmp_path / "store", "s", days(3, 20))
    archive.run(no_spark, ArchiveSettings(str(tmp_path / "store"), str(tmp_path / "a")))
    file, inside = flipped(tmp_path / "a", 1)
    for names in (("id",), ("id_seq",), ("stream", "id_ms", "id_seq")):
        with pytest.raises(ArchiveError, match="is damaged: its rows are not those that were written"):
            read(tmp_path / "a", schema("ids", *names), largeIds="wrap")
    assert not set(read(tmp_path / "a", schema("ids", "id"), onCorruption="skip")["id"].to_pylist()) & set(inside)
    # Times show damage of their own, so that counts by time need not read all; but not where a bound cuts the file.
    assert read(tmp_path / "a", schema("ids", "stream", "ts")).num_rows == 60
    with pytest.raises(ArchiveError, match="is damaged"):
        read(tmp_path / "a", schema("ids", "stream", "ts"), startingIds=str(file.first.next()))


def test_times_alone_are_of_the_file_and_of_no_other_under_its_name(no_spark: Any, tmp_path: Path) -> None:
    """As one that was restored under another's name: its times are in themselves as they should be."""
    fill(tmp_path / "store", "s", days(3, 20))
    archive.run(no_spark, ArchiveSettings(str(tmp_path / "store"), str(tmp_path / "a")))
    first, _, last = (tmp_path / "a" / each.path for each in latest(Place(tmp_path / "a")).files)
    last.write_bytes(first.read_bytes())
    with pytest.raises(ArchiveError, match=f"{last.name} is damaged: its rows are not those that were written"):
        read(tmp_path / "a", schema("ids", "stream", "ts"))
    assert read(tmp_path / "a", schema("ids", "ts"), onCorruption="skip").num_rows == 40


@pytest.mark.parametrize("row", [0, 19], ids=["first", "last"])
def test_a_file_is_known_by_its_first_and_by_its_last_time(no_spark: Any, tmp_path: Path, row: int) -> None:
    fill(tmp_path / "store", "s", days(1, 20))
    archive.run(no_spark, ArchiveSettings(str(tmp_path / "store"), str(tmp_path / "a")))
    (file,) = (tmp_path / "a" / each.path for each in latest(Place(tmp_path / "a")).files)
    table = pq.read_table(file, partitioning=None)
    for name in ("id_ms", "ts"):
        column = table.schema.get_field_index(name)
        kind = table.schema.field(column).type
        numbers = table.column(name).cast(pa.int64()).to_pylist()
        numbers[row] += 1 if name == "id_ms" else 1000
        table = table.set_column(column, table.schema.field(column), pa.array(numbers, pa.int64()).cast(kind))
    pq.write_table(table, file)
    with pytest.raises(ArchiveError, match="its rows are not those that were written"):
        read(tmp_path / "a", schema("ids", "stream", "ts"))


def test_a_compaction_disturbs_no_read_until_its_grace_time_is_over(no_spark: Any, tmp_path: Path) -> None:
    for first in range(3):
        fill(tmp_path / "store", "s", [(f"{BASE + first}-0", {"n": str(first)})])
        archive.run(no_spark, ArchiveSettings(str(tmp_path / "store"), str(tmp_path / "a")))
    place = Place(tmp_path / "a")
    old = [each.path for each in latest(place).files]
    reader: Any = DiskstreamSource({"path": str(tmp_path / "a")}).reader(schema("ids", "id"))
    [partition] = reader.partitions()
    compact.run(no_spark, compact.CompactSettings(str(tmp_path / "a")))
    assert sum(batch.num_rows for batch in reader.read(partition)) == 3
    for each in old:
        place.remove(each)
    with pytest.raises(ArchiveError, match=r"was compacted since it was planned, .*: load the DataFrame again"):
        list(reader.read(partition))
    assert read(tmp_path / "a", schema("ids", "id")).num_rows == 3
    place.remove(latest(place).files[0].path)
    with pytest.raises(ArchiveError, match="is missing, though the manifest names it: restore it from a copy"):
        read(tmp_path / "a", schema("ids", "id"))


def test_a_plan_of_many_streams_looks_at_each_file_a_few_times(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It looked at all files for each stream: at 2,000 streams of 50 files each it took ten seconds."""
    looks: Counter[bytes] = Counter()

    class File(ArchivedFile):
        def __getattribute__(self, name: str) -> Any:
            if name == "stream":
                looks[object.__getattribute__(self, name)] += 1
            return super().__getattribute__(name)

    ends = EntryID(1), EntryID(2)
    names = [b"s%d" % number for number in range(100)]
    files = tuple(File("part", name, *ends, 1000, Digest(2), 0, "store") for name in names)
    held = Manifest(1, streams={name: Reach(*ends) for name in names}, files=files)
    monkeypatch.setattr(archived_entries, "there", lambda _: held)
    options = ReadOptions(path=str(tmp_path))
    planned = plan_archive(options, plan(default_schema(options), options))
    assert [each.file for partition in planned for each in partition.slices] == sorted(
        files, key=lambda each: each.stream
    )
    assert max(looks.values()) < 10


def test_it_is_cut_by_files_within_the_limits(both: tuple[Path, Path]) -> None:
    _, root = both

    def planned(**given: str) -> list[ArchivePartition]:
        options: ReadOptions = ReadOptions.parse({"path": str(root), **given})
        return plan_archive(options, plan(schema("ids", "id"), options))

    files = len(latest(Place(root)).files)
    assert len(planned()) == 1
    assert [len(each.slices) for each in planned(maxEntriesPerPartition="1")] == [1] * files
    assert [len(each.slices) for each in planned(minPartitions="99")] == [1] * files
    few = planned(minPartitions="3")
    assert 1 < len(few) <= 3
    assert sum(len(each.slices) for each in few) == files


@pytest.mark.parametrize(
    ("columns", "given", "error", "says"),
    [
        (schema("ids"), {"streams": "none"}, ArchiveError, "has no stream none: nothing of it was archived"),
        (schema("ids"), {"startingIds": '{"none": "5"}'}, ArgumentError, "there are bounds for b'none'"),
        (st.StructType([st.StructField("segment", st.LongType())]), {}, ArgumentError, "has no segments: leave out"),
    ],
)
def test_what_an_archive_has_not_is_refused(
    both: tuple[Path, Path], columns: st.StructType, given: dict[str, str], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        read(both[1], columns, **given)


def test_a_worker_that_does_not_see_it_or_has_another_version_says_so(both: tuple[Path, Path], tmp_path: Path) -> None:
    reader: Any = DiskstreamSource({"path": str(both[1])}).reader(schema("ids", "id"))
    [partition] = reader.partitions()
    both[1].rename(tmp_path / "elsewhere")
    with pytest.raises(NotAStoreError, match="it is not there: driver and workers must see the archive under the same"):
        list(reader.read(partition))
    partition.version = "0.0.7"
    with pytest.raises(DiskstreamError, match=r"the driver has diskstream 0\.0\.7"):
        list(reader.read(partition))


def test_by_spark(spark: "SparkSession", both: tuple[Path, Path]) -> None:
    from diskstream.spark import register

    register(spark)
    store, root = both
    frames = [
        spark.read.format("diskstream").schema("stream string, id string, n int").load(str(path))
        for path in (store, root)
    ]
    rows = [frame.sort("stream", "id").collect() for frame in frames]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 2 * 45 + 3 + 50
