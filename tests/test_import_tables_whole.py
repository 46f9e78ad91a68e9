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
