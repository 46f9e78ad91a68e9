"""Arrow streams that are cut off or joined, and IDs that are none: refused, and not imported as something else."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import diskstream
from diskstream.cli import main


def stream(batches: int, rows: int = 100) -> bytes:
    made = pa.BufferOutputStream()
    with pa.ipc.new_stream(made, pa.schema([("v", pa.string())])) as writer:
        for number in range(batches):
            writer.write_batch(pa.record_batch({"v": [str(number)] * rows}))
    return bytes(made.getvalue().to_pybytes())


def imported(directory: Path, file: Path, *, code: int) -> str:
    result = CliRunner().invoke(main, ["import", "-d", str(directory / "s"), "-s", "k", str(file)])
    assert result.exit_code == code, (result.output, result.exception)
    return " ".join(result.output.split())


def length(directory: Path) -> int:
    with diskstream.open(directory / "s", read_only=True) as store:
        return len(store.stream("k"))


@pytest.mark.parametrize("batches", [0, 3])
def test_a_whole_stream_is_imported(tmp_path: Path, batches: int) -> None:
    (tmp_path / "one.arrow").write_bytes(stream(batches))
    assert f"{100 * batches} rows" in imported(tmp_path, tmp_path / "one.arrow", code=0)


def test_one_that_was_cut_between_two_batches_is_not_a_whole_one(tmp_path: Path) -> None:
    (tmp_path / "one.arrow").write_bytes(stream(3).removesuffix(b"\xff\xff\xff\xff\x00\x00\x00\x00"))
    told = imported(tmp_path, tmp_path / "one.arrow", code=1)
    assert "the mark of its end is not there" in told
    assert "nothing was imported; is it whole?" in told


def test_of_two_that_were_joined_the_second_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "one.arrow").write_bytes(stream(3) + stream(4))
    told = imported(tmp_path, tmp_path / "one.arrow", code=1)
    assert "follow the end of its stream" in told
    assert f"{length(tmp_path)} rows before it were imported" in told


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32()])
@pytest.mark.parametrize("name", ["id_ms", "id_seq"])
def test_a_negative_number_is_no_id(tmp_path: Path, name: str, kind: pa.DataType) -> None:
    """It became one from 2^63 on: behind -1 the stream had room for none."""
    numbers = {"id_ms": pa.array([5, 6], kind), "id_seq": pa.array([0, 0], kind)} | {name: pa.array([5, -1], kind)}
    pq.write_table(pa.table({**numbers, "v": ["a", "b"]}), tmp_path / "one.parquet")
    told = imported(tmp_path, tmp_path / "one.parquet", code=1)
    assert f"the column '{name}' has -1" in told
    assert "nothing was imported" in told


FIRST_ROWS = {
    "no text": pa.record_batch({"v": [[{"a": 1}]]}),
    "no field": pa.record_batch({"v": pa.array(["x", None])}),
    "no year": pa.record_batch({"v": pa.array([1 << 60], pa.timestamp("us"))}),
    "an ID of zero": pa.record_batch({"id": ["0-0"], "v": ["x"]}),
    "IDs that fall": pa.record_batch({"id": ["2-0", "1-0"], "v": ["x", "y"]}),
    "no ID": pa.record_batch({"id": ["one"], "v": ["x"]}),
}


@pytest.mark.parametrize("first", FIRST_ROWS)
def test_where_the_first_rows_cannot_be_entries_no_stream_is_left_behind(tmp_path: Path, first: str) -> None:
    """An empty one was: how far the import came is noted in it before its first rows."""
    with (
        pa.OSFile(str(tmp_path / "one.arrow"), "wb") as file,
        pa.ipc.new_stream(file, FIRST_ROWS[first].schema) as made,
    ):
        made.write_batch(FIRST_ROWS[first])
    assert "nothing was imported" in imported(tmp_path, tmp_path / "one.arrow", code=1)
    with diskstream.open(tmp_path / "s") as store:
        assert store.streams() == []


@pytest.mark.parametrize("name", ["id_ms", "id_seq", "ts", "id", "fields"])
def test_two_columns_of_a_name_that_says_what_a_row_is_are_refused(tmp_path: Path, name: str) -> None:
    """It ended with a KeyError."""
    file = tmp_path / "t.parquet"
    names = ["id_ms", "id_seq", "ts", "v", name] if name.startswith(("id_", "ts")) else [name, "v", name]
    pq.write_table(pa.Table.from_arrays([pa.array([1, 2])] * len(names), names), file)
    assert f"2 columns are called '{name}'" in imported(tmp_path, file, code=1)


def test_the_bytes_of_values_are_those_that_are_stored(tmp_path: Path) -> None:
    """Offsets, names and IDs counted too: of a table it was some times what it was of the same rows as CSV."""
    ids = {"id_ms": pa.array([1, 2], pa.uint64()), "id_seq": pa.array([0, 0], pa.uint64())}
    pair = pa.struct([("value", pa.binary()), ("name", pa.binary())])
    lists = [[{"name": b"n", "value": b"17"}], [{"name": b"n", "value": b"5"}, {"name": b"who", "value": b"ann"}]]
    pq.write_table(pa.table({**ids, "fields": pa.array(lists, pa.list_(pair))}), tmp_path / "lists.parquet")
    columns = {"n": pa.array([17, 5]), "who": pa.array([None, "ann"])}
    pq.write_table(pa.table({**ids, **columns}), tmp_path / "columns.parquet")
    for name in ("lists", "columns"):
        (tmp_path / f"of {name}").mkdir()
        said = imported(tmp_path / f"of {name}", tmp_path / f"{name}.parquet", code=0)
        assert "2 rows with 6 bytes of values" in said
