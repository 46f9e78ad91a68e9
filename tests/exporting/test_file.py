"""Exports into one file, or a pipe: whole or not at all, and what is said of what cannot be."""

import errno
import fcntl
import gc
import json
import os
import stat
import subprocess
import sys
import threading
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import diskstream
from diskstream.cli import main
from diskstream.errors import ChangedError
from diskstream.exporting import (
    MAX_COLUMNS,
    ExportRequest,
    export_directory,
    export_file,
    parse_columns,
    placing,
    single,
)
from tests.exporting.stored import numbered, rows_in, table_of


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two streams: `s` with 3,000 entries in every kind of segment, `odd` with fields of all sorts."""
    made = tmp_path_factory.mktemp("file") / "store"
    numbered(made, 3000)
    with diskstream.open(made) as store:
        odd = store.stream("odd")
        odd.add({"a": "1", "b": "x"}, id="1-0")
        odd.add({"b": "", "c": b"\xff"}, id="1-1")
        odd.add([("a", "2"), ("a", "3")], id="2-0")
        odd.add({"a": "not a number"}, id="9-0")
    return made


def export(path: Path, *words: str, code: int = 0) -> Result:
    done = CliRunner().invoke(main, ["export", *words, "-d", str(path)])
    assert done.exit_code == code, done.output
    return done


def test_a_csv_has_a_column_for_each_field_that_there_is(path: Path, tmp_path: Path) -> None:
    export(path, "odd", "-o", str(tmp_path / "x.csv"), "--duplicates", "last")
    assert (tmp_path / "x.csv").read_bytes().splitlines() == [
        b'"id","a","b","c"',
        b'"1-0","1","x",',
        b'"1-1",,"","\xff"',
        b'"2-0","3",,',
        b'"9-0","not a number",,',
    ]


def test_a_name_that_is_there_twice_has_no_place_in_a_table(path: Path, tmp_path: Path) -> None:
    done = export(path, "odd", "-o", str(tmp_path / "x.csv"), code=1)
    assert "twice" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_columns_have_types_in_tables(path: Path, tmp_path: Path) -> None:
    words = ["odd", "--end", "2", "--columns", "a:int64,b", "--duplicates", "first"]
    export(path, *words, "-o", str(tmp_path / "x.parquet"))
    assert table_of(tmp_path / "x.parquet").to_pydict() == {
        "id_ms": [1, 1, 2],
        "id_seq": [0, 1, 0],
        "a": [1, None, 2],
        "b": [b"x", b"", None],
    }
    done = export(path, "odd", "--start", "9", "--columns", "a:int64", "-o", str(tmp_path / "y.arrow"), code=1)
    assert "entry 9-0: the field a does not parse as int64" in done.stderr
    assert not (tmp_path / "y.arrow").exists()


@pytest.mark.parametrize(
    ("kind", "fits", "does_not"),
    [
        ("decimal(5,2)", "1.230", "1.239"),
        ("double", "1e-300", "1e400"),
        ("double", "-0.0", "1e-400"),
        ("float", "1e38", "1e39"),
        ("timestamp", "2026-01-01T00:00:00.123456000", "2026-01-01T00:00:00.1234567"),
    ],
)
def test_a_value_that_would_be_rounded_or_cut_is_none_of_its_column(
    tmp_path: Path, kind: str, fits: str, does_not: str
) -> None:
    with diskstream.open(tmp_path / "store") as store:
        store.stream("x").add_many([{"v": fits}, {"v": does_not}], ids=["1-0", "2-0"])
    words = ["x", "--columns", f"v:{kind}", "-o", str(tmp_path / "x.parquet")]
    done = export(tmp_path / "store", *words, code=1)
    assert f"entry 2-0: the field v does not parse as {kind} without being rounded or cut: b'{does_not}'" in done.stderr
    assert not (tmp_path / "x.parquet").exists()
    export(tmp_path / "store", *words, "--end", "1")
    assert table_of(tmp_path / "x.parquet").num_rows == 1


@pytest.mark.parametrize("to_parts", [False, True])
def test_a_column_that_no_entry_has_is_told(path: Path, tmp_path: Path, *, to_parts: bool) -> None:
    words = ["odd", "--columns", "a,temprature,c", "--duplicates", "last", "-o", str(tmp_path / "x.parquet")]
    done = export(path, *words, *(["--rows-per-file", "2"] if to_parts else []), "--json")
    assert "no entry has these fields, so their columns are empty: temprature" in done.stderr
    assert json.loads(done.stdout)["empty_columns"] == ["temprature"]


@pytest.mark.parametrize("to_parts", [False, True])
def test_a_field_of_json_lines_that_no_entry_has_is_told(path: Path, tmp_path: Path, *, to_parts: bool) -> None:
    """Each entry came out without fields, or without that one, and nothing was said."""
    words = ["odd", "--columns", "a,temprature", "--format", "jsonl", "-o", str(tmp_path / "x.jsonl")]
    done = export(path, *words, *(["--rows-per-file", "2"] if to_parts else []), "--json")
    assert "no entry has these fields: temprature" in done.stderr
    assert json.loads(done.stdout)["empty_columns"] == ["temprature"]


@pytest.mark.parametrize(
    ("words", "kept_by"),
    [(["--format", "jsonl", "--columns", "a"], "jsonl"), (["--format", "parquet"], "parquet without --columns")],
)
def test_which_of_two_values_counts_is_for_columns_only(path: Path, words: list[str], kept_by: str) -> None:
    done = export(path, "odd", *words, "--duplicates", "last", code=2)
    assert f"--duplicates is for columns: {kept_by} keeps each value of a name" in done.stderr


def test_names_of_columns_may_have_what_types_have() -> None:
    parsed = parse_columns(b"a:b:int8,c:none,d:decimal(10,2),e:decimal(3, 1)")
    assert parsed == ((b"a:b", "int8"), (b"c:none", "binary"), (b"d", "decimal(10,2)"), (b"e", "decimal(3,1)"))


@pytest.mark.parametrize("kind", ["decimal(39,1)", "decimal(0,0)", "decimal(5,6)"])
@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_a_decimal_that_there_is_not_is_wrong_usage(path: Path, tmp_path: Path, kind: str, form: str) -> None:
    """pyarrow's ValueError ended it with a traceback, or the file "could not be written"."""
    done = export(path, "odd", "--columns", f"a:{kind}", "-o", str(tmp_path / f"x.{form}"), code=2)
    assert f"no column is a {kind}: a decimal has 1 to 38 digits" in " ".join(done.stderr.split())
    assert list(tmp_path.iterdir()) == []


def test_a_range_of_ids_or_of_time(path: Path, tmp_path: Path) -> None:
    export(path, "s", "--start", "(2-0", "--end", "5", "-o", str(tmp_path / "x.jsonl"))
    assert [entry_id for entry_id, _ in rows_in(tmp_path / "x.jsonl")] == ["3-0", "4-0", "5-0"]
    export(path, "s", "--end", "1970-01-01T00:00:00.004Z", "-o", str(tmp_path / "x.jsonl"), "--force")
    assert [entry_id for entry_id, _ in rows_in(tmp_path / "x.jsonl")] == ["1-0", "2-0", "3-0", "4-0"]
    export(path, "s", "--since", "1h", "-o", str(tmp_path / "none.arrow"))
    assert table_of(tmp_path / "none.arrow").num_rows == 0


def test_a_pipe_gets_what_a_file_would(path: Path, tmp_path: Path) -> None:
    export(path, "s", "-o", str(tmp_path / "x.jsonl"))
    assert export(path, "s").stdout_bytes == (tmp_path / "x.jsonl").read_bytes()
    told = export(path, "s", "--json")
    assert told.stdout_bytes == (tmp_path / "x.jsonl").read_bytes()
    facts = json.loads(told.stderr)
    assert (facts["entries"], facts["size_bytes"], facts["files"]) == (3000, len(told.stdout_bytes), 0)
    stream = pa.ipc.open_stream(export(path, "s", "--format", "arrow").stdout_bytes)
    assert stream.read_all().num_rows == 3000
    assert export(path, "odd", "--columns", "b", "--format", "csv").stdout_bytes.splitlines()[:2] == [
        b'"id","b"',
        b'"1-0","x"',
    ]


@pytest.mark.parametrize("packed", ["gzip", "zstd"])
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_text_is_compressed_into_files_parts_and_pipes_alike(
    path: Path, tmp_path: Path, kind: str, packed: str
) -> None:
    plain = export(path, "s", "--format", kind).stdout_bytes
    suffix = {"gzip": "gz", "zstd": "zst"}[packed]
    export(path, "s", "-o", str(tmp_path / f"x.{kind}.{suffix}"))
    export(path, "s", "-o", str(tmp_path / "out"), "--format", kind, "--compression", packed, "--rows-per-file", "9999")
    piped = export(path, "s", "--format", kind, "--compression", packed).stdout_bytes
    written = [tmp_path / f"x.{kind}.{suffix}", tmp_path / "out" / f"part-00000000.{kind}.{suffix}"]
    for content in (piped, *(each.read_bytes() for each in written)):
        assert len(content) < len(plain) / 2
        assert pa.CompressedInputStream(pa.BufferReader(content), packed).read() == plain


def test_what_was_cut_off_by_an_error_does_not_unpack_as_if_it_were_whole(path: Path) -> None:
    """The compressor wrote its end as it was collected, and `gzip -t` liked that."""
    program = "from diskstream.cli import main; main()"
    words = ["export", "odd", "--columns", "a", "--format", "csv", "--compression", "gzip", "-d", str(path)]
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, check=False)
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 1)
    packed = zlib.decompressobj(31)
    packed.decompress(done.stdout)
    assert not packed.eof


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_compressor_says_nothing_of_a_file_that_was_given_up(
    path: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fails(*_words: object) -> None:
        raise ChangedError("the stream 's'", "it was removed")

    monkeypatch.setattr(single, "check_same", fails)
    export(path, "s", "--format", kind, "--compression", "gzip", "-o", str(tmp_path / "x"), code=1)
    gc.collect()
    assert capfd.readouterr().err == ""
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_has_enough_ends_it_quietly(path: Path) -> None:
    program = "from diskstream.cli import main; main()"
    words = [sys.executable, "-c", program, "export", "s", "-d", str(path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) in (0, 1)


def test_a_file_that_is_there_is_only_replaced_when_told(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_text("precious", encoding="utf-8")
    assert "--force" in export(path, "s", "-o", str(file), code=1).stderr
    assert file.read_text(encoding="utf-8") == "precious"
    export(path, "s", "-o", str(file), "--force")
    assert len(file.read_bytes().splitlines()) == 3001
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("is_there", [True, False])
def test_of_a_link_the_file_that_it_leads_to_is_replaced(path: Path, tmp_path: Path, is_there: bool) -> None:
    """The link became the file, and what it had led to stayed as it was."""
    (tmp_path / "disk").mkdir()
    link, file = tmp_path / "x.csv", tmp_path / "disk" / "latest"
    link.symlink_to(Path("disk", "latest"))
    if is_there:
        file.write_text("of yesterday", encoding="utf-8")
    assert "--force" in export(path, "s", "-o", str(link), code=1).stderr
    export(path, "s", "-o", str(link), "--force")
    assert link.is_symlink()
    assert len(file.read_bytes().splitlines()) == 3001
    assert [each.name for each in file.parent.iterdir()] == ["latest"]


@pytest.mark.parametrize("words", [[], ["--force"]])
def test_a_device_or_pipe_is_not_replaced_by_a_file(path: Path, tmp_path: Path, words: list[str]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "is no file" in export(path, "s", "-o", str(pipe), *words, code=1).stderr
    assert pipe.is_fifo()
    assert "is a directory" in export(path, "s", "-o", str(tmp_path), *words, code=1).stderr
    assert "No such file or directory" in export(path, "s", "-o", str(tmp_path / "no" / "x"), *words, code=1).stderr
    assert list(tmp_path.iterdir()) == [pipe]


@pytest.mark.parametrize("words", [["--format", "jsonl", "--force"], ["--format", "jsonl", "--rows-per-file", "10"]])
@pytest.mark.parametrize("within", ["store.json", "x", "streams/s/00000001.log", "link/store.json"])
def test_nothing_is_written_into_the_store_itself(tmp_path: Path, words: list[str], within: str) -> None:
    numbered(tmp_path / "store", 10)
    (tmp_path / "store" / "link").symlink_to(tmp_path / "store")
    before = {each: each.read_bytes() for each in (tmp_path / "store").rglob("*") if each.is_file()}
    done = export(tmp_path / "store", "s", "-o", str(tmp_path / "store" / within), *words, code=1)
    assert "is within the store" in done.stderr
    assert {each: each.read_bytes() for each in (tmp_path / "store").rglob("*") if each.is_file()} == before


def test_what_fails_half_way_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    numbered(tmp_path / "store", 3000)
    (tmp_path / "x.csv").write_text("precious", encoding="utf-8")
    sealed = min((tmp_path / "store" / "streams" / "s").glob("*.seg"))
    content = bytearray(sealed.read_bytes())
    content[len(content) // 3] ^= 0xFF
    sealed.write_bytes(content)
    done = export(tmp_path / "store", "s", "-o", str(tmp_path / "x.csv"), "--force", code=1)
    assert f"error: {sealed}" in done.stderr
    assert (tmp_path / "x.csv").read_text(encoding="utf-8") == "precious"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["store", "x.csv"]


def test_what_a_killed_export_left_is_taken_over_and_one_at_work_is_not(path: Path, tmp_path: Path) -> None:
    left = tmp_path / ".x.jsonl.partial"
    left.write_bytes(b"half of a li" * 10_000_000)
    with left.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert "another export is writing" in export(path, "s", "-o", str(tmp_path / "x.jsonl"), code=1).stderr
    export(path, "s", "-o", str(tmp_path / "x.jsonl"))
    assert [each.name for each in tmp_path.iterdir()] == ["x.jsonl"]
    assert len(list(rows_in(tmp_path / "x.jsonl"))) == 3000


@pytest.mark.parametrize("kind", ["csv", "jsonl", "arrow", "parquet"])
def test_one_that_is_interrupted_leaves_no_file_and_says_nothing_more(
    path: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer of Parquet ended its file when it was collected, and complained of the sink that was closed by then."""
    said: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)

    def interrupt(entries: int, size_bytes: int) -> None:
        raise KeyboardInterrupt

    with diskstream.open(path, read_only=True) as store, pytest.raises(KeyboardInterrupt):
        export_file(store, ExportRequest([b"s"], format=kind), tmp_path / f"x.{kind}", progress=interrupt)
    gc.collect()
    assert said == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "arrow", "parquet"])
def test_a_full_disk_is_said_to_be_one(path: Path, kind: str, unbuffered: str) -> None:
    """What was in the buffer still was tried again at the interpreter's end: status 120, and a traceback."""
    program = "import sys; from diskstream.cli import main; main(sys.argv[1:])"
    with Path("/dev/full").open("wb") as full:
        words = [sys.executable, "-c", program, "export", "s", "--format", kind, "-d", str(path)]
        environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, check=False, env=environment)
    assert done.returncode == 1
    assert b"No space left on device" in done.stderr
    assert b"Traceback" not in done.stderr


def test_more_fields_than_a_table_may_have(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "store", fsync="os") as store:
        store.stream("wide").add_many([{f"f{number}-{part}": 1 for part in range(20)} for number in range(60)])
        with pytest.raises(diskstream.ArgumentError, match=f"more than {MAX_COLUMNS:,} different fields"):
            export_file(store, ExportRequest([b"wide"], "csv"), tmp_path / "x.csv")
        export_file(store, ExportRequest([b"wide"], "parquet"), tmp_path / "x.parquet")
        assert table_of(tmp_path / "x.parquet").num_rows == 60


@pytest.mark.parametrize(
    "given",
    [
        {"format": "xml"},
        {"streams": []},
        {"streams": [b"a", b"a"]},
        {"compression": "lz4"},
        {"columns": parse_columns(b"a,a")},
        {"columns": parse_columns(b"a:int8")},
        {"duplicates": "some"},
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_written(given: dict[str, Any]) -> None:
    with pytest.raises(diskstream.ArgumentError):
        ExportRequest(**{"streams": [b"a"], "format": "csv", **given})


@pytest.mark.parametrize(
    "words",
    [
        ["s", "--start", "1", "--since", "1h"],
        ["s", "--since", "soon"],
        ["s", "--start", "yesterday"],
        ["s", "--rows-per-file", "5"],
        ["s", "-o", "x", "--rows-per-file", "5", "--force"],
        ["s", "--format", "xml"],
        [],
    ],
)
def test_wrong_usage(path: Path, words: list[str]) -> None:
    export(path, *words, code=2)


def test_a_stream_that_is_not_there(path: Path, tmp_path: Path) -> None:
    done = export(path, "s", "nothing", "-o", str(tmp_path / "x"), code=1)
    assert "there is no stream nothing" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_json_lines_are_what_range_prints(path: Path, tmp_path: Path) -> None:
    for name in ("s", "odd"):
        printed = CliRunner().invoke(main, ["range", name, "--json", "-d", str(path)])
        assert export(path, name).stdout_bytes == printed.stdout_bytes
    tailed = CliRunner().invoke(main, ["tail", "odd", "--json", "-d", str(path)])
    assert export(path, "odd", "s").stdout_bytes.splitlines()[:4] == tailed.stdout_bytes.splitlines()


def test_without_pyarrow_it_says_what_to_install(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for kind in ("csv", "jsonl", "arrow", "parquet"):
        for words in (["-o", str(tmp_path / "x")], ["-o", str(tmp_path / "out"), "--rows-per-file", "5"], []):
            done = export(path, "s", "--format", kind, *words, code=1)
            assert "pip install 'diskstream[archive]'" in done.stderr
    done = CliRunner().invoke(main, ["import", __file__, "--format", "arrow", "-s", "s", "-d", str(tmp_path / "new")])
    assert "pip install 'diskstream[archive]'" in done.stderr


def test_a_flush_that_fails_while_it_is_written_is_no_success(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system tells of it once, to whoever asks first."""
    failed = threading.Event()

    def failing(descriptor: int) -> None:
        failed.set()
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(placing, "_FLUSH_EVERY_S", 0.0)
    monkeypatch.setattr(os, "fdatasync", failing)

    def write(sink: Any) -> None:
        sink.write(b"all of it")
        assert failed.wait(30)

    with pytest.raises(diskstream.StorageError, match="Input/output error"):
        placing.create_whole(tmp_path / "x", write, replace=False)
    assert list(tmp_path.iterdir()) == []


def fails_for_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.fsync

    def failing(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        whole(descriptor)

    monkeypatch.setattr(os, "fsync", failing)


def test_a_name_that_could_not_be_made_durable_is_not_in_the_way_of_the_next_attempt(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file stayed, though nothing is left of one that failed, and the next export refused to replace it."""
    with monkeypatch.context() as patch:
        fails_for_folders(patch)
        assert "could not flush" in export(path, "s", "-o", str(tmp_path / "x.jsonl"), code=1).stderr
    assert list(tmp_path.iterdir()) == []
    export(path, "s", "-o", str(tmp_path / "x.jsonl"))


def test_whatever_look_or_flush_of_an_export_fails_the_error_is_ours(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was a plain `OSError`."""
    whole = Path.stat

    def failing(place: Path, **named: Any) -> os.stat_result:
        if place.name.startswith(("x.", "part-")):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(place))
        return whole(place, **named)

    request = ExportRequest((b"s",), "jsonl")
    with diskstream.open(path, read_only=True) as store:
        with monkeypatch.context() as patch:
            patch.setattr(Path, "stat", failing)
            with pytest.raises(diskstream.StorageError, match="could not look at"):
                export_file(store, request, tmp_path / "x.jsonl")
            with pytest.raises(diskstream.StorageError, match="could not look at"):
                export_directory(store, request, tmp_path / "parts", rows_per_file=1000)
        with monkeypatch.context() as patch:
            fails_for_folders(patch)
            with pytest.raises(diskstream.StorageError, match="could not flush"):
                export_directory(store, request, tmp_path / "others", rows_per_file=1000)
        assert export_directory(store, request, tmp_path / "parts", rows_per_file=1000).entries == 3000


@pytest.mark.parametrize("words", [[], ["--rows-per-file", "2"]], ids=["a file", "parts"])
def test_where_it_goes_may_have_a_name_that_is_no_utf8(path: Path, tmp_path: Path, words: list[str]) -> None:
    """It ended in a traceback."""
    place = tmp_path / os.fsdecode(b"n\xff")
    done = export(path, "odd", "--format", "jsonl", "-o", str(place), *words, "--json")
    (part, *_) = [place] if place.is_file() else sorted(place.glob("part-*"))
    assert part.read_bytes().startswith(b'{"id": ')
    assert json.loads(done.stdout)["output"] == str(place)
