"""Fields and columns that are called as IDs and times are: what is data stays data, there and back."""

import datetime as dt
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import diskstream
from diskstream.cli import main

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

DAYS = [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 2)]  # noqa: DTZ001  # without a zone, as most files
NUMBERS = [1, 2]


def run(*words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, list(words))
    assert result.exit_code == code, result.output
    return result


def arrow(table: Any, path: Path) -> Path:
    with pa.OSFile(str(path.with_suffix(".arrow")), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return path.with_suffix(".arrow")


def parquet(table: Any, path: Path) -> Path:
    pq.write_table(table, path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def imported(table: Any, path: Path, write: Callable[[Any, Path], Path]) -> list[tuple[str, dict[bytes, bytes]]]:
    run("import", str(write(table, path / "table")), "--dir", str(path / "store"), "--stream", "s")
    with diskstream.open(path / "store") as store:
        return [(str(entry.id), dict(entry.pairs)) for entry in store.stream("s").range()]


@pytest.mark.parametrize("write", [arrow, parquet])
@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        ({"ts": pa.array(DAYS, pa.timestamp("us"))}, b"2020-01-02T00:00:00.000000"),
        ({"ts": ["now", "then"]}, b"then"),
        ({"stream": ["a river", "a brook"]}, b"a brook"),  # no export has it without IDs: it was lost
        ({"id": NUMBERS}, b"2"),
        ({"id_ms": NUMBERS}, b"2"),
        ({"id_seq": NUMBERS}, b"2"),
    ],
    ids=lambda given: "".join(given) if isinstance(given, dict) else "",
)
def test_a_column_that_is_no_id_is_a_field_whatever_it_is_called(
    tmp_path: Path, write: Callable[[Any, Path], Path], columns: dict[str, Any], wanted: bytes
) -> None:
    (name,) = columns
    entries = imported(pa.table({**columns, "v": ["x", "y"]}), tmp_path, write)
    assert entries[1][1] == {name.encode(): wanted, b"v": b"y"}


@pytest.mark.parametrize("write", [arrow, parquet])
def test_beside_ids_in_two_columns_the_others_are_fields(tmp_path: Path, write: Callable[[Any, Path], Path]) -> None:
    table = pa.table({"id": ["5-0", "6-0"], "id_ms": NUMBERS, "id_seq": NUMBERS, "ts": pa.array(DAYS)})
    ids, fields = zip(*imported(table, tmp_path, write), strict=True)
    assert ids == ("1-1", "2-2")
    assert fields[0] == {b"id": b"5-0", b"ts": b"2020-01-01T00:00:00.000000"}


def test_the_time_of_an_id_said_once_more_is_no_field(tmp_path: Path) -> None:
    times = pa.array([1000, 2000], pa.timestamp("us"))
    table = pa.table({"id_ms": NUMBERS, "id_seq": NUMBERS, "ts": times, "v": ["x", "y"]})
    assert imported(table, tmp_path, parquet) == [("1-1", {b"v": b"x"}), ("2-2", {b"v": b"y"})]


@pytest.mark.parametrize("write", [arrow, parquet])
@pytest.mark.parametrize("odd", [0, 15_000])
def test_what_is_a_field_in_one_row_is_one_in_all(tmp_path: Path, write: Callable[[Any, Path], Path], odd: int) -> None:
    """Of some thousand rows at a time it was asked whether `ts` says the time of their IDs: there it was left out."""
    numbers = list(range(20_000))
    times = [number + (number == odd) for number in numbers]
    columns = {"id_ms": numbers, "id_seq": [1] * len(numbers), "ts": pa.array(times, pa.timestamp("ms"))}
    entries = imported(pa.table({**columns, "v": ["x"] * len(numbers)}), tmp_path, write)
    assert [sorted(fields) for _, fields in entries] == [[b"ts", b"v"]] * len(numbers)


ODD = [(b"id_ms", b"1"), (b"id_seq", b"2"), (b"id", b"3"), (b"ts", b"4"), (b"stream", b"5"), (b"fields", b"6")]


@pytest.mark.parametrize("form", ["parquet", "arrow", "csv", "jsonl"])
def test_fields_called_as_columns_are_come_back(tmp_path: Path, form: str) -> None:
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s").add(ODD, "5-0")
    columns = ["--columns", ",".join(name.decode() for name, _ in ODD)] if form in ("parquet", "arrow") else []
    file = str(tmp_path / f"out.{form}")
    run("export", "s", "--dir", str(tmp_path / "store"), "-o", file, "--format", form, *columns)
    kept = {"csv": ["--id", "id"], "jsonl": ["--format", "entries"]}.get(form, [])
    run("import", file, "--dir", str(tmp_path / "store"), "--stream", "again", *kept)
    with diskstream.open(tmp_path / "store") as store:
        (entry,) = store.stream("again").range()
        assert str(entry.id) == "5-0"
        assert [pair for pair in entry.pairs if pair != (b"id", b"5-0")] == ODD  # of CSV the ID stays a field, too


@pytest.mark.parametrize("form", ["parquet", "arrow", "csv"])
@pytest.mark.parametrize(
    ("names", "told"),
    [
        ([b"id", b"field:id"], "no column stands for the field 'field:id'"),
        ([b"field:ts"], "no column stands for the field 'field:ts'"),
        ([b"\xff", b"\\xff"], "would both be the column"),
    ],
)
def test_fields_that_would_come_back_as_others_are_no_columns(
    tmp_path: Path, form: str, names: list[bytes], told: str
) -> None:
    """Two columns of one name came back as one field twice, and `field:ts` as `ts`."""
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s").add([(name, b"of " + name) for name in names], "5-0")
    file, where = str(tmp_path / f"out.{form}"), ["--dir", str(tmp_path / "store")]
    columns = ["--columns", os.fsdecode(b",".join(names))]
    if form != "csv":
        assert told in run("export", "s", *where, "-o", file, *columns, code=1).stderr
        assert not Path(file).exists()
        return
    run("export", "s", *where, "-o", file, *columns)
    run("import", file, *where, "--stream", "again", "--id", "id")
    with diskstream.open(tmp_path / "store") as store:
        assert [entry.pairs for entry in store.stream("again")] == [entry.pairs for entry in store.stream("s")]


@pytest.mark.parametrize("form", ["csv", "jsonl", "arrow", "parquet"])
def test_of_which_stream_an_entry_was_becomes_a_field_of_csv_alone(tmp_path: Path, form: str) -> None:
    """A CSV file that others made may have such a column, too, and so may an export of a stream with such a field."""
    with diskstream.open(tmp_path / "store") as store:
        store.stream("p").add({"a": "1"}, "1-0")
        store.stream("q").add({"a": "2"}, "2-0")
    file, where = str(tmp_path / f"out.{form}"), ["--dir", str(tmp_path / "store")]
    run("export", "p", "q", *where, "-o", file)
    kept = {"csv": ["--id", "id"], "jsonl": ["--format", "entries"]}.get(form, [])
    run("import", file, *where, "--stream", "both", *kept)
    with diskstream.open(tmp_path / "store") as store:
        found = [(str(entry.id), dict(entry.pairs)) for entry in store.stream("both").range()]
    of = [{b"stream": b"p"}, {b"stream": b"q"}] if form == "csv" else [{}, {}]
    assert found == [("1-0", {**of[0], b"a": b"1"}), ("2-0", {**of[1], b"a": b"2"})]


def test_a_file_with_the_row_ends_of_old_is_refused_and_not_taken_for_a_header(tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_bytes(b"id,a\r1-0,x\r2-0,y\r")
    told = run("import", str(tmp_path / "old.csv"), "--dir", str(tmp_path / "store"), "--stream", "s", code=1)
    assert "carriage returns" in told.stderr


@pytest.mark.parametrize(("suffix", "program"), [("gz", "gzip -dc"), ("zst", "zstd -dc")])
def test_a_compressed_file_is_refused_with_the_way_to_read_it(tmp_path: Path, suffix: str, program: str) -> None:
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s").add({"n": "1"})
    file = str(tmp_path / f"out.jsonl.{suffix}")
    kind = {"gz": "gzip", "zst": "zstd"}[suffix]
    run("export", "s", "--dir", str(tmp_path / "store"), "-o", file, "--format", "jsonl", "--compression", kind)
    for more in ([], ["--format", "entries"], ["--on-error", "skip"]):
        told = run("import", file, "--dir", str(tmp_path / "store"), "--stream", "again", *more, code=1).stderr
        assert f"is compressed ({kind})" in told
        assert f"{program} {file} | diskstream import -" in told


def test_the_id_that_no_entry_can_have_is_a_bad_row_like_others(tmp_path: Path) -> None:
    rows = ['{"id": "0-0", "fields": {"n": "0"}}', '{"id": "1-0", "fields": {"n": "1"}}']
    (tmp_path / "rows.jsonl").write_text("\n".join(rows) + "\n")
    words = ["import", str(tmp_path / "rows.jsonl"), "--format", "entries", "--dir", str(tmp_path / "store")]
    assert "0-0, which no entry can have" in run(*words, "--stream", "s", code=1).stderr
    run(*words, "--stream", "s", "--on-error", "skip")
    with diskstream.open(tmp_path / "store") as store:
        assert [str(entry.id) for entry in store.stream("s").range()] == ["1-0"]
