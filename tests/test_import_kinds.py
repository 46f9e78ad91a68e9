"""Files that are no text: what they are is said, and nothing of them, nor of what is beside them, is imported."""

import bz2
import contextlib
import gzip
import io
import lzma
import os
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import diskstream
from diskstream.cli import main

ROWS = b"".join(b"%d,x\n" % n for n in range(40))
TABLE = pa.table({"n": [1, 2, 3], "v": ["a", "b", "c"]})


def parquet() -> bytes:
    made = io.BytesIO()
    pq.write_table(TABLE, made)
    return made.getvalue()


def arrow(*, is_file: bool) -> bytes:
    made = io.BytesIO()
    with (pa.ipc.new_file if is_file else pa.ipc.new_stream)(made, TABLE.schema) as writer:
        writer.write_table(TABLE)
    return made.getvalue()


def refused(directory: Path, *words: object, stdin: bytes | None = None) -> str:
    words = ("import", "-d", directory / "s", "-s", "k", *words)
    result = CliRunner().invoke(main, list(map(str, words)), input=stdin)
    assert result.exit_code == 1, (result.output, result.exception)
    assert "nothing was imported" in result.output
    if (directory / "s").exists():
        with diskstream.open(directory / "s", read_only=True) as store:
            assert not list(store)
    return " ".join(result.output.split())


@pytest.mark.parametrize("name", ["one.csv", "one.jsonl", "one.log", "one.data"])
@pytest.mark.parametrize(
    ("content", "name_of_it", "program"),
    [
        (gzip.compress(ROWS, mtime=0), "gzip", "gzip -dc"),
        (bz2.compress(ROWS), "bzip2", "bzip2 -dc"),
        (bz2.compress(b""), "bzip2", "bzip2 -dc"),
        (lzma.compress(ROWS, lzma.FORMAT_XZ), "xz", "xz -dc"),
        (lzma.compress(ROWS, lzma.FORMAT_ALONE), "lzma", "xz --format=lzma -dc"),
        (b"\x04\x22\x4d\x18\x64\x40\xa7", "lz4", "lz4 -dc"),
        (b"\x1f\x9d\x90a\xc4", "compress", "gzip -dc"),
        (b"7z\xbc\xaf\x27\x1c\x00\x04", "7z", "7z x -so"),
        (b"PK\x05\x06" + bytes(18), "zip", "unzip -p"),
    ],
)
def test_a_compressed_file_is_one_whatever_its_name_says(
    tmp_path: Path, name: str, content: bytes, name_of_it: str, program: str
) -> None:
    """As CSV the first line of some was a header, of which all else were bad rows; as a log each line was a row."""
    (tmp_path / name).write_bytes(content)
    told = refused(tmp_path, tmp_path / name, "--on-error", "skip")
    assert f"{name}: is compressed ({name_of_it})" in told
    assert program in told


@pytest.mark.parametrize("name", ["one.csv", "one.log"])
@pytest.mark.parametrize(
    ("content", "what", "hint"),
    [
        (parquet(), "a Parquet file", "--format parquet"),
        (arrow(is_file=True), "an Arrow file", "--format arrow"),
        (arrow(is_file=False), "an Arrow stream", "--format arrow"),
    ],
)
def test_a_table_under_another_name_is_no_log(tmp_path: Path, name: str, content: bytes, what: str, hint: str) -> None:
    (tmp_path / name).write_bytes(content)
    for words in ((), ("--format", "lines")):
        told = refused(tmp_path, tmp_path / name, *words)
        assert f"{name}: is {what}" in told
        assert hint in told
    assert f"<stdin>: is {what}" in refused(tmp_path, "-", stdin=content)
    words_that_do = ["import", "-d", str(tmp_path / "s"), "-s", "k", *hint.split(), str(tmp_path / name)]
    assert CliRunner().invoke(main, words_that_do).exit_code == 0


@pytest.mark.parametrize("name", ["one.csv", "one.jsonl", "one.log"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-16-le", "utf-16-be"])
def test_text_of_wide_characters_asks_for_its_encoding(tmp_path: Path, name: str, encoding: str) -> None:
    """Its lines were rows, with a NUL beside each character."""
    content = {"one.csv": "n,v\r\n1,é\r\n", "one.jsonl": '{"n": "1", "v": "é"}\r\n', "one.log": "n\r\né\r\n"}[name]
    file = tmp_path / name
    file.write_bytes(content.encode(encoding))
    told = refused(tmp_path, file)
    assert f"{name}: is UTF-{encoding.split('-')[1]}" in told
    assert f"--encoding {encoding}" in told
    words = ["import", "-d", str(tmp_path / "s"), "-s", "k", "--encoding", encoding, str(file)]
    assert CliRunner().invoke(main, words).exit_code == 0
    with diskstream.open(tmp_path / "s", read_only=True) as store:
        assert "é".encode() in list(store.stream("k"))[-1].pairs[-1][1]


@pytest.mark.parametrize(
    "content", [b"Obj\x01\x04\x14avro.codec", b"SQLite format 3\x00\x10", b"\x7fELF\x02\x01\x00\x00"]
)
def test_other_bytes_are_no_rows_of_a_log(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "one").write_bytes(content)
    assert "one: is " in refused(tmp_path, tmp_path / "one")


def test_whoever_says_that_they_are_lines_has_every_byte(tmp_path: Path) -> None:
    """A log that was cut while it was written begins with NULs."""
    file = tmp_path / "one.log"
    file.write_bytes(bytes(600) + b"first\n")
    assert "--format lines" in refused(tmp_path, file)
    words = ["import", "-d", str(tmp_path / "s"), "-s", "k", "--format", "lines", str(file)]
    assert CliRunner().invoke(main, words).exit_code == 0
    with diskstream.open(tmp_path / "s", read_only=True) as store:
        (entry,) = store.stream("k")
    assert entry[b"line"] == bytes(600) + b"first"


def test_of_several_files_none_is_imported_where_one_is_no_text(tmp_path: Path) -> None:
    """The rows of those before it were there, and the same could not be run again."""
    (tmp_path / "one.csv").write_bytes(b"n,v\n" + ROWS)
    (tmp_path / "two.csv").write_bytes(bz2.compress(ROWS))
    refused(tmp_path, tmp_path / "one.csv", tmp_path / "two.csv")


def test_what_comes_through_a_pipe_a_byte_at_a_time_is_known_as_well(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")

    def write_all() -> None:
        with (tmp_path / "fifo").open("wb", buffering=0) as file, contextlib.suppress(BrokenPipeError):
            for byte in gzip.compress(ROWS):
                file.write(bytes([byte]))

    writer = threading.Thread(target=write_all, daemon=True)
    writer.start()
    assert "is compressed (gzip)" in refused(tmp_path, tmp_path / "fifo")
    writer.join(10)


def test_text_that_begins_as_others_do_is_text(tmp_path: Path) -> None:
    for number, content in enumerate(
        [b"PARIS,b\n1,2\n", b"BZh9,b\n1,2\n", b"ARROW1,b\n1,2\n", b"7z,b\n1,2\n", b"PK,b\n1,2\n"]
    ):
        file = tmp_path / f"{number}.csv"
        file.write_bytes(content)
        result = CliRunner().invoke(main, ["import", "-d", str(tmp_path / "s"), "-s", "k", str(file)])
        assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("encoding", "first"), [("utf-16-be", "\u5d00a"), ("utf-16-le", "\u9d1fa"), ("utf-16-le", "\u8b1f")]
)
def test_characters_of_a_named_encoding_may_be_the_bytes_of_another_mark(
    tmp_path: Path, encoding: str, first: str
) -> None:
    (tmp_path / "one.log").write_bytes(f"{first}\n".encode(encoding))
    words = ["import", "-d", str(tmp_path / "s"), "-s", "k", "--encoding", encoding, str(tmp_path / "one.log")]
    assert CliRunner().invoke(main, words).exit_code == 0


def test_a_value_of_csv_may_hold_a_nul_in_the_first_row_already(tmp_path: Path) -> None:
    """An export of such an entry is taken back."""
    (tmp_path / "one.csv").write_bytes(b"id,v\n5-1,\x00\n")
    words = ["import", "-d", str(tmp_path / "s"), "-s", "k", "--id", "id", str(tmp_path / "one.csv")]
    assert CliRunner().invoke(main, words).exit_code == 0
