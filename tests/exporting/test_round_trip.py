"""What is exported and imported again is what it was: IDs, names, values, order, every byte."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import diskstream
from diskstream.cli import main
from diskstream.exporting import COMPRESSIONS, ExportRequest, export_file
from diskstream.ingest import ID_FIELD, Loader, LoadOptions, Source
from tests.exporting.stored import Row, fill, many_rows, rows_of, table_of

LOSSLESS = [(kind, packed) for kind in ("arrow", "parquet") for packed in COMPRESSIONS[kind]]
# One that Arrow's names can hold, and that the rows of a table share.
NAMES = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), min_size=1, max_size=4, unique=True)

many = settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])


@many
@given(rows=many_rows(), how=st.sampled_from(LOSSLESS))
def test_arrow_and_parquet_keep_everything(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row], how: tuple[str, str]
) -> None:
    folder = tmp_path_factory.mktemp("trip")
    with diskstream.open(folder / "store", fsync="os") as store:
        fill(store.stream("from"), rows)
        if rows:
            file = folder / f"x.{how[0]}"
            report = export_file(store, ExportRequest([b"from"], how[0], compression=how[1]), file)
            assert (report.entries, report.missing, report.files) == (len(rows), 0, 1)
            assert report.size_bytes == file.stat().st_size
            for batch in table_of(file).to_batches():
                store.stream("to").add_arrow(batch, ids="columns")
        assert rows_of(store.stream("to")) == rows


@many
@given(rows=many_rows())
def test_json_lines_keep_everything(tmp_path_factory: pytest.TempPathFactory, rows: list[Row]) -> None:
    folder = tmp_path_factory.mktemp("trip")
    with diskstream.open(folder / "store", fsync="os") as store:
        store.stream("from").create_group("g", mkstream=True)  # makes the stream, also without entries
        fill(store.stream("from"), rows)
        export_file(store, ExportRequest([b"from"], "jsonl"), folder / "x.jsonl")
        loader = Loader(store.stream("to"), LoadOptions(id_field=ID_FIELD, check=True))
        assert loader.load([Source(str(folder / "x.jsonl"), "entries")]).rows == len(rows)
        assert rows_of(store.stream("to")) == rows


@st.composite
def even_rows(draw: st.DrawFn) -> list[Row]:
    """Rows that all have the same fields, in the same order: what a table can hold."""
    names = draw(st.lists(st.one_of(st.binary(max_size=6), st.just(b"id")), min_size=1, max_size=4, unique=True))
    values = st.one_of(
        st.binary(max_size=30), st.sampled_from([b"", b'"', b"\n", b"\r", b'a"\r\n"b,', b"\xef\xbb\xbf"])
    )
    pairs = st.tuples(*[values for _ in names]).map(lambda some: list(zip(names, some, strict=True)))
    return draw(many_rows(pairs))


@many
@given(rows=even_rows())
def test_csv_keeps_every_byte_of_rows_that_have_the_same_fields(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row]
) -> None:
    folder = tmp_path_factory.mktemp("trip")
    with diskstream.open(folder / "store", fsync="os") as store:
        store.stream("from").create_group("g", mkstream=True)
        fill(store.stream("from"), rows)
        export_file(store, ExportRequest([b"from"], "csv"), folder / "x.csv")
        Loader(store.stream("to"), LoadOptions(id_field=b"id")).load([Source(str(folder / "x.csv"))])
        assert rows_of(store.stream("to")) == rows


@many
@given(names=NAMES, rows=st.data())
def test_named_columns_of_arrow_are_fields_again(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], rows: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("trip")
    chosen = [name.encode() for name in names if not name.startswith("field:")] or [b"plain"]
    some = st.lists(st.sampled_from(chosen), unique=True, min_size=1)
    pairs = some.map(lambda each: [(name, b"v" + name) for name in chosen if name in each])
    wanted = rows.draw(many_rows(pairs))
    with diskstream.open(folder / "store", fsync="os") as store:
        store.stream("from").create_group("g", mkstream=True)
        fill(store.stream("from"), wanted)
        columns = [diskstream.exporting.Column(name) for name in chosen]
        export_file(store, ExportRequest([b"from"], "arrow", columns=columns), folder / "x.arrow")
        for batch in table_of(folder / "x.arrow").to_batches():
            store.stream("to").add_arrow(batch, ids="columns")
        assert rows_of(store.stream("to")) == wanted


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("x.jsonl", ["--format", "entries"]),
        ("x.csv", ["--id", "id"]),
        ("x.ndjson", ["--format", "entries"]),
        ("x.arrow", []),
        ("x.parquet", []),
    ],
)
def test_the_commands_do_it_too(tmp_path: Path, name: str, words: list[str]) -> None:
    environment = {"DISKSTREAM_DIR": str(tmp_path / "store")}
    with diskstream.open(tmp_path / "store") as store:
        fill(store.stream("from"), [(diskstream.EntryID(5, number), [(b"n", b"%d" % number)]) for number in range(9)])
        wanted = rows_of(store.stream("from"))
    for verb in (["export", "from", "-o", str(tmp_path / name)], ["import", str(tmp_path / name), "-s", "to", *words]):
        done = CliRunner().invoke(main, verb, env=environment)
        assert done.exit_code == 0, done.output
    with diskstream.open(tmp_path / "store") as store:
        assert rows_of(store.stream("to")) == wanted


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"id": "1-x", "fields": {"a": "1"}}', "where its ID should be"),
        ('{"id": 7, "fields": {"a": "1"}, "n": [}', "is not JSON"),
        ('{"id": "7-0", "fields": {"a": null}}', "are strings"),
        ('{"id": "7-0", "fields": {}}', "needs at least one"),
        ('{"id": "7-0", "pairs": [["a"]]}', "are strings"),
        ('{"fields": {"a": "1"}}', "is no entry"),
        ("[1]", "is no entry"),
        ('{"id": "2-0", "fields": {"a": "1"}}', "not above 3-0"),
    ],
)
def test_lines_that_are_no_entries_are_named(tmp_path: Path, line: str, reason: str) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text('{"id": "3-0", "fields": {"a": "1"}}\n\n' + line + "\n", encoding="utf-8")
    words = ["import", str(file), "-s", "s", "--format", "entries", "-d", str(tmp_path / "store")]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 1
    assert f"{file}:3: " in done.stderr
    assert reason in done.stderr
    assert "nothing was imported" in done.stderr


@pytest.mark.parametrize("words", [["--id", "a", "-t", "a"], ["--format", "entries", "--id", "a"]])
def test_an_entry_has_one_id(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "x.csv").write_text("a\n1-1\n", encoding="utf-8")
    done = CliRunner().invoke(
        main, ["import", str(tmp_path / "x.csv"), "-s", "s", "-d", str(tmp_path / "store"), *words]
    )
    assert done.exit_code == 2


def test_a_pipe_of_arrow_can_be_kept_and_imported(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "store") as store:
        fill(store.stream("from"), [(diskstream.EntryID(5, number), [(b"n", b"%d" % number)]) for number in range(9)])
        wanted = rows_of(store.stream("from"))
    environment = {"DISKSTREAM_DIR": str(tmp_path / "store")}
    piped = CliRunner().invoke(main, ["export", "from", "--format", "arrow"], env=environment)
    (tmp_path / "x.bin").write_bytes(piped.stdout_bytes)
    words = ["import", str(tmp_path / "x.bin"), "--format", "arrow", "-s", "to", "--json"]
    done = CliRunner().invoke(main, words, env=environment)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["rows"] == 9
    with diskstream.open(tmp_path / "store") as store:
        assert rows_of(store.stream("to")) == wanted


def test_a_table_that_came_from_elsewhere_gets_ids_of_now(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, None, 3], "b": ["x", "y", None]}), tmp_path / "x.parquet")
    done = CliRunner().invoke(main, ["import", str(tmp_path / "x.parquet"), "-s", "s", "-d", str(tmp_path / "store")])
    assert done.exit_code == 0, done.output
    with diskstream.open(tmp_path / "store") as store:
        pairs = [entry.pairs for entry in store.stream("s").range()]
        assert pairs == [[(b"a", b"1"), (b"b", b"x")], [(b"b", b"y")], [(b"a", b"3")]]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("x.parquet", b"PAR1 and no more", "cannot be read"),
        ("x.arrow", b"", "cannot be read"),
        ("x.arrow", b"ARROW1\0\0" + bytes(100), "cannot be read"),
        ("x.arrow", b"\xff" * 300, "cannot be read"),
    ],
)
def test_a_file_that_is_no_table_is_told_of(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    (tmp_path / name).write_bytes(content)
    done = CliRunner().invoke(main, ["import", str(tmp_path / name), "-s", "s", "-d", str(tmp_path / "store")])
    assert done.exit_code == 1
    assert reason in done.stderr
    assert "nothing was imported" in done.stderr


def test_rows_of_a_table_that_cannot_be_entries_are_told_of(tmp_path: Path) -> None:
    def refused(table: pa.Table, reason: str) -> None:
        pq.write_table(table, tmp_path / "x.parquet")
        done = CliRunner().invoke(
            main, ["import", str(tmp_path / "x.parquet"), "-s", "s", "-d", str(tmp_path / "store")]
        )
        assert done.exit_code == 1
        assert reason in done.stderr

    refused(pa.table({"a": pa.array([None], pa.string())}), "cannot be an entry")
    refused(pa.table({"a": [[1, 2]]}), "no field can be made")
    refused(pa.table({"id": ["2-0", "1-0"], "a": ["x", "y"]}), "not above that of the row before it")


@pytest.mark.parametrize(
    "words", [["-t", "a"], ["--id", "a"], ["--on-error", "skip"], ["--check"], ["--file-field", "f"]]
)
def test_options_about_rows_do_not_go_with_tables(tmp_path: Path, words: list[str]) -> None:
    pq.write_table(pa.table({"a": ["1"]}), tmp_path / "x.parquet")
    whole = ["import", str(tmp_path / "x.parquet"), "-s", "s", "-d", str(tmp_path / "store"), *words]
    assert CliRunner().invoke(main, whole).exit_code == 2
    (tmp_path / "y.csv").write_text("a\n1\n", encoding="utf-8")
    assert CliRunner().invoke(main, [*whole[:6], str(tmp_path / "y.csv")]).exit_code == 2
