"""Columns of a typed archive that are chosen, or have names that mean something else: the same as of its store."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark.sql import types as st

import diskstream
from diskstream.errors import ArgumentError
from diskstream.spark.jobs import archive, archive_plan
from diskstream.spark.jobs.archive import ArchiveSettings
from diskstream.spark.source import DiskstreamSource
from tests.spark.archives import fill, no_spark

__all__ = ["no_spark"]

ID = st.StructField("id", st.StringType())
FIELD = st.StructType([st.StructField("name", st.BinaryType()), st.StructField("value", st.BinaryType())])


def read(path: Path, schema: st.StructType, **options: str) -> list[dict[str, Any]]:
    reader: Any = DiskstreamSource({"path": str(path), **options}).reader(schema)
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def archived(no_spark: Any, folder: Path, columns: tuple[tuple[str, str], ...]) -> Path:
    given = ArchiveSettings(str(folder / "store"), str(folder / "archive"), layout="typed", columns=columns)
    archive.run(no_spark, given)
    return folder / "archive"


@pytest.mark.parametrize("chosen", ["n", "bad"])
def test_what_did_not_parse_is_told_of_the_columns_that_are_read(no_spark: Any, tmp_path: Path, chosen: str) -> None:
    """It was told of all that the archive has, so that rows counted as corrupt that are not."""
    rows = [{"n": "x", "bad": "1"}, {"n": "1", "bad": "y"}, {"n": "x", "bad": "y"}, {"n": "1", "bad": "1"}]
    fill(tmp_path / "store", "s", [(f"{number}-0", row) for number, row in enumerate(rows, 1)])
    root = archived(no_spark, tmp_path, (("n", "int64"), ("bad", "int64")))
    columns = [st.StructField(chosen, st.LongType()), st.StructField("_corrupt", st.ArrayType(FIELD))]
    found = read(root, st.StructType([ID, *columns]))
    assert found == read(tmp_path / "store", st.StructType([ID, *columns]))
    assert found == read(root, st.StructType([ID, *columns]), batchRows="1")
    assert sum(row["_corrupt"] is not None for row in found) == 2


@pytest.mark.parametrize("name", ["Date", "HOUR", "Stream"])
def test_a_column_that_is_called_as_a_folder_but_for_its_case_is_refused(
    no_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Who read the files by folders was shown the day of the ID for the entry's own."""
    fill(tmp_path / "store", "s", [("1-0", {name: "mine"})])
    with pytest.raises(ArgumentError, match=rf"a field as column '{name}'.*whatever case"):
        archived(no_spark, tmp_path, ((name, "string"),))
    with monkeypatch.context() as before:
        before.setattr(archive_plan, "_FOLDERS", frozenset())
        archived(no_spark, tmp_path, ((name, "string"),))
    fill(tmp_path / "store", "s", [("2-0", {name: "too"})])
    root = archived(no_spark, tmp_path, ((name, "string"),))  # one that has it goes on
    found = read(root, st.StructType([st.StructField(name, st.StringType())]))
    assert [row[name] for row in found] == ["mine", "too"]


def test_without_a_schema_a_field_whose_name_has_the_prefix_is_that_field(no_spark: Any, tmp_path: Path) -> None:
    """Its column stood for the field without it: what the archive has was refused, or the other field shown twice."""
    fill(tmp_path / "store", "s", [("1-0", {"x": "1", "field:x": "2"})])
    root = archived(no_spark, tmp_path, (("x", "int64"), ("field:x", "int64")))
    made = DiskstreamSource({"path": str(root)}).schema()
    assert made.names == ["stream", "id_ms", "id_seq", "ts", "x", "field:field:x", "_corrupt"]
    [row] = read(root, made)
    assert (row["x"], row["field:field:x"]) == (1, 2)
    assert [row] == read(tmp_path / "store", made)


@pytest.mark.parametrize(
    ("column", "why"),
    [
        (("n", "flaot"), "no such type of a column: flaot"),
        (("n", "decimal(5,6)"), "more places than digits"),
        (("\udcff", "string"), "no UTF-8"),
    ],
)
def test_columns_that_no_file_can_have_make_no_archive_of_streams_without_entries(
    no_spark: Any, tmp_path: Path, column: tuple[str, str], why: str
) -> None:
    """No task met them, so a version was committed with them: then nothing could be archived there, nor read."""
    fill(tmp_path / "store", "s", [("1-0", {"n": "1"})])
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s").trim(maxlen=0)
    for session in (None, no_spark):  # a dry run tells it too
        with pytest.raises(ArgumentError, match=why):
            archived(session, tmp_path, (column,))
    assert not (tmp_path / "archive").exists()
    fill(tmp_path / "store", "s", [("2-0", {"n": "1.5"})])
    root = archived(no_spark, tmp_path, (("n", "float"),))
    assert [row["n"] for row in read(root, st.StructType([st.StructField("n", st.FloatType())]))] == [1.5]


def test_an_archive_that_was_made_with_a_type_that_there_is_not_says_so(
    no_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As earlier versions could make one. It was a StopIteration, which says nothing."""
    fill(tmp_path / "store", "s", [("1-0", {"n": "1"})])
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s").trim(maxlen=0)
    monkeypatch.setattr(archive_plan, "_check_types", lambda columns: None)
    root = archived(no_spark, tmp_path, (("n", "flaot"),))
    with pytest.raises(ArgumentError, match="a column of no known type: flaot"):
        DiskstreamSource({"path": str(root)}).schema()
