"""Files of an archive that are not what they were: told as damage, whatever the fault, and never taken for good."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq

import diskstream
from diskstream.errors import ArchiveError
from diskstream.spark.jobs import archive
from diskstream.spark.jobs.archive import ArchiveSettings
from diskstream.spark.jobs.compact import CompactTask, merge_files
from diskstream.spark.jobs.manifest import ArchivedFile, Shape, latest
from diskstream.spark.jobs.part_reading import read_part, verify_part
from diskstream.spark.jobs.place import Place
from diskstream.spark.jobs.reconcile import ReconcileSettings, run
from tests.spark.archives import BASE, days, fill, kept, no_spark, parts, stored

__all__ = ["no_spark"]

COLUMNS = (("n", "int64"), ("day", "string"))
Archive = tuple[Place, ArchivedFile, Shape]


@pytest.fixture(params=["fields", "typed"])
def archived(request: pytest.FixtureRequest, no_spark: Any, tmp_path: Path) -> Archive:
    fill(tmp_path / "store", "s", days(1, 20))
    root = tmp_path / "archive"
    columns = COLUMNS if request.param == "typed" else ()
    archive.run(no_spark, ArchiveSettings(str(tmp_path / "store"), str(root), layout=request.param, columns=columns))
    made = latest(Place(root))
    (file,) = made.files
    return Place(root), file, made.shape


def read(of: Archive) -> list[dict[str, Any]]:
    place, file, shape = of
    return [row for batch in read_part(place, file.path, shape) for row in batch.to_pylist()]


def test_a_flipped_bit_of_a_footer_is_told_or_changes_nothing(archived: Archive) -> None:
    """A footer has no checksum. Columns with other names passed, and others ended a job with a KeyError."""
    place, file, shape = archived
    path = Path(place.full(file.path))
    sound, rows = path.read_bytes(), read(archived)
    footer = len(sound) - 8 - int.from_bytes(sound[-8:-4], "little")
    told = 0
    for at in range(footer, len(sound)):
        path.write_bytes(sound[:at] + bytes([sound[at] ^ 1 << at % 8]) + sound[at + 1 :])
        try:
            verify_part(place, file, shape)
        except ArchiveError as error:
            told += 1
            assert str(path) in str(error)
        else:
            assert read(archived) == rows
    assert told > 100


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.rename_columns(["id_ms", "id_seq", "ts", *(f"{name}_" for name in table.schema.names[3:])]),
        lambda table: table.select(table.schema.names[:-1]),
        lambda table: table.set_column(1, "id_seq", table["id_seq"].cast(pa.int32())),
        lambda table: table.append_column("more", table["id_seq"]),
        lambda table: table.select([1, 0, *range(2, table.num_columns)]),
    ],
    ids=["renamed", "one less", "of another type", "one more", "another order"],
)
def test_a_file_of_other_columns_is_damaged(archived: Archive, change: Any) -> None:
    place, file, _ = archived
    path = place.full(file.path)
    pq.write_table(change(pq.ParquetFile(path).read()), path)
    with pytest.raises(ArchiveError, match=r"is damaged: its columns are .*, not id_ms int64, id_seq int64, ts .*copy"):
        read(archived)


def test_a_file_of_another_layout_is_damaged(archived: Archive) -> None:
    place, file, shape = archived
    other = Shape("typed", COLUMNS) if shape.layout == "fields" else Shape()
    with pytest.raises(ArchiveError, match="its columns are"):
        read((place, file, other))
    with pytest.raises(ArchiveError, match="manifest is damaged: it has a column of no known type"):
        read((place, file, Shape("typed", (("n", "colour"),))))


@pytest.mark.parametrize("wrong", [BASE * 1000 + 1, 0, None])
def test_times_that_are_not_those_of_the_ids_are_damage(archived: Archive, wrong: int | None) -> None:
    """No digest has them, and it is by them that engines choose rows."""
    place, file, _ = archived
    path = place.full(file.path)
    table = pq.ParquetFile(path).read()
    times = [wrong, *table["ts"].cast(pa.int64()).to_pylist()[1:]]
    changed = pa.array(times, pa.int64()).cast(table.schema.field("ts").type)
    pq.write_table(table.set_column(2, table.schema.field("ts"), changed), path)
    with pytest.raises(ArchiveError, match=f"the row of ID {BASE}-… has the time"):
        read(archived)


def test_one_damaged_file_is_one_finding(no_spark: Any, tmp_path: Path) -> None:
    """It ended the comparison of all streams, with the error of a dictionary."""
    for stream in ("s", "t"):
        fill(tmp_path / "store", stream, days(1, 20))
    root = tmp_path / "archive"
    archive.run(no_spark, ArchiveSettings(str(tmp_path / "store"), str(root)))
    path = root / latest(Place(root)).files[0].path
    table = pq.ParquetFile(path).read()
    pq.write_table(table.rename_columns(["jd_ms", *table.schema.names[1:]]), path)
    found = run(no_spark, ReconcileSettings(str(tmp_path / "store"), str(root))).findings
    assert {(each.stream, each.kind) for each in found} == {(b"s", "damaged"), (b"s", "missing")}


# --- IDs that are negative in a file ----------------------------------------------------------------------------------

HALF = 1 << 63
FAR = [(f"{BASE}-0", {"n": "1"}), (f"{BASE}-{HALF - 1}", {"n": "2"}), (f"{BASE}-{HALF}", {"n": "3"})]


def declared(place: Place, file: ArchivedFile) -> bool:
    return bool(pq.ParquetFile(place.full(file.path)).metadata.row_group(0).sorting_columns)


def test_an_order_is_declared_where_the_numbers_in_the_file_have_it(no_spark: Any, tmp_path: Path) -> None:
    """Parts from 2^63 on are negative there, and stand behind the others: engines may trust what is declared."""
    root, given = tmp_path / "archive", ArchiveSettings(str(tmp_path / "store"), str(tmp_path / "archive"))
    fill(tmp_path / "store", "s", FAR[:2])
    archive.run(no_spark, given)
    fill(tmp_path / "store", "s", FAR[2:])
    archive.run(no_spark, given)
    made = latest(Place(root))
    assert [declared(Place(root), each) for each in made.files] == [True, False]
    assert kept(root, "s") == stored(tmp_path / "store", "s")
    (whole,) = merge_files(CompactTask(str(root), made.files, made.shape, "f" * 16, True))
    assert not declared(Place(root), whole)


def test_a_file_that_has_declared_its_order_ends_before_ids_that_are_not_in_it(
    no_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diskstream.spark.jobs.parts._GROUP_ROWS", 1)
    monkeypatch.setattr(archive, "_BATCH_ROWS", 1)
    root = tmp_path / "archive"
    with diskstream.open(tmp_path / "store", node_max_entries=2) as store:
        ids = [entry_id for entry_id, _ in FAR]
        store.stream("s").add_many([fields for _, fields in FAR], ids=ids)
        store.seal()
    archive.run(no_spark, ArchiveSettings(str(tmp_path / "store"), str(root)))
    made = latest(Place(root))
    assert [(each.rows, declared(Place(root), each)) for each in made.files] == [(2, True), (1, False)]
    assert kept(root, "s") == stored(tmp_path / "store", "s")
    monkeypatch.setattr("diskstream.spark.jobs.part_reading._READ_ROWS", 1)
    merged = merge_files(CompactTask(str(root), made.files, made.shape, "f" * 16, True))
    assert [(each.rows, declared(Place(root), each)) for each in merged] == [(2, True), (1, False)]
    assert len(parts(root)) == 4


# --- names that files have themselves ---------------------------------------------------------------------------------


def test_a_field_called_fields_is_archived_as_any_other(no_spark: Any, tmp_path: Path) -> None:
    fill(tmp_path / "store", "s", [(f"{BASE}-{n}", {"fields": str(n)}) for n in range(10)])
    given = ArchiveSettings(str(tmp_path / "store"), str(tmp_path / "archive"), layout="typed")
    archive.run(no_spark, replace(given, columns=(("fields", "int64"),)))
    made = latest(Place(tmp_path / "archive"))
    found = [row["fields"] for each in made.files for row in read((Place(tmp_path / "archive"), each, made.shape))]
    assert found == list(range(10))


def test_a_name_of_what_is_inside_a_column_is_refused(no_spark: Any, tmp_path: Path) -> None:
    fill(tmp_path / "store", "s", days(1, 1))
    given = ArchiveSettings(str(tmp_path / "store"), str(tmp_path / "archive"), layout="typed")
    with pytest.raises(Exception, match="cannot have a field as column"):
        archive.run(no_spark, replace(given, columns=(("_corrupt.list.element.name", "int64"),)))
