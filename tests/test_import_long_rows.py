"""Rows as long as entries make them: what is exported can be imported, what is no entry is a bad row."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import diskstream
from diskstream._native import MAX_ENTRY_BYTES
from diskstream.cli import main
from diskstream.exporting import ExportRequest, export_file
from diskstream.ingest.rows import BYTES_A_BYTE, MAX_ROW_BYTES

MIB = 1 << 20
Pairs = list[tuple[bytes, bytes]]


def run(directory: Path, *words: str) -> Result:
    return CliRunner().invoke(main, [*words, "--dir", str(directory)])


@pytest.mark.parametrize(
    ("name", "words", "pairs"),
    [
        ("x.jsonl", ["--format", "entries"], [(b"n", b"\xff" * 3 * MIB)]),
        ("x.jsonl", ["--format", "entries"], [(b"n", b""), (b"n", b"\0" * (3 * MIB // 2))]),
        ("x.csv", ["--id", "id"], [(b"n", b'"\n' + b"x" * 17 * MIB)]),
    ],
)
def test_an_entry_whose_row_is_far_longer_comes_back(tmp_path: Path, name: str, words: list[str], pairs: Pairs) -> None:
    """A row had 16 MiB, but an entry may have 32, each byte of which is up to twelve in a row."""
    with diskstream.open(tmp_path / "store") as store:
        store.stream("from").add(pairs, "5-0")
    file = str(tmp_path / name)
    assert run(tmp_path / "store", "export", "from", "-o", file).exit_code == 0
    done = run(tmp_path / "store", "import", file, "-s", "to", *words)
    assert done.exit_code == 0, done.output
    with diskstream.open(tmp_path / "store") as store:
        assert [(str(entry.id), entry.pairs) for entry in store.stream("to").range()] == [("5-0", pairs)]


@pytest.mark.parametrize(
    ("form", "pairs"),
    [
        ("jsonl", [(b"\xff" * 4096, b"\0" * 1000)]),
        ("jsonl", [(b"", b"")] * 65_536),
        ("jsonl", [(b"%d" % at, b"") for at in range(65_536)]),
        ("jsonl", [(b"a", b""), (b"a", b"\x7f" * 50_000 + "€😀".encode() * 9)]),
        ("csv", [(b"%d" % at, b'"' * 9) for at in range(1000)]),
    ],
)
def test_a_row_has_as_much_room_as_an_export_needs_for_an_entry(tmp_path: Path, form: str, pairs: Pairs) -> None:
    """Shown of small entries: so much for each byte, and what is around them all."""
    name = b"\xff" * 4096
    with diskstream.open(tmp_path / "store") as store:
        store.stream(name).add(pairs, f"{2**64 - 1}-{2**64 - 1}")
        store.stream("other").add({"1": ""})
        export_file(store, ExportRequest([name, b"other"], form), tmp_path / "x")
    longest = max(len(line) for line in (tmp_path / "x").read_bytes().splitlines() if b"18446744073709551615" in line)
    kind = "entries" if form == "jsonl" else "csv"
    size = sum(len(part) for pair in pairs for part in pair)
    assert longest <= MAX_ROW_BYTES[kind] - BYTES_A_BYTE[kind] * (MAX_ENTRY_BYTES - size)


def test_a_row_that_is_read_but_is_no_entry_is_a_bad_row_like_others(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_bytes(b"id,v\n1-0,a\n2-0," + b"x" * MAX_ENTRY_BYTES + b"\n3-0,b\n")
    words = ["import", str(file), "-s", "s", "--id", "id"]
    stopped = run(tmp_path / "store", *words)
    assert stopped.exit_code == 1
    assert f"{file}:3: " in stopped.stderr
    assert "over the limit of 33554432" in stopped.stderr
    assert run(tmp_path / "store", *words, "--on-error", "skip").exit_code == 0
    with diskstream.open(tmp_path / "store") as store:
        assert [str(entry.id) for entry in store.stream("s").range()] == ["1-0", "3-0"]


def test_a_row_of_more_fields_than_an_entry_may_have_is_a_bad_row_like_others(tmp_path: Path) -> None:
    """The import ended at it, said neither file nor line, and could not leave it out."""
    file = tmp_path / "x.jsonl"
    wide = ",".join(f'"c{at}":"1"' for at in range(65_537))
    file.write_text('{"v":"a"}\n{' + wide + '}\n{"v":"b"}\n')
    words = ["import", str(file), "-s", "s"]
    stopped = run(tmp_path / "store", *words)
    assert stopped.exit_code == 1
    assert f"{file}:2: " in stopped.stderr
    assert "over the limit of 65536" in stopped.stderr
    assert run(tmp_path / "store", *words, "--on-error", "skip").exit_code == 0
    with diskstream.open(tmp_path / "store") as store:
        assert [entry[b"v"] for entry in store.stream("s").range()] == [b"a", b"b"]


def test_rows_under_names_that_are_too_long_are_bad_rows_too(tmp_path: Path) -> None:
    """The names are in no row: neither file nor line was said, and nothing could leave them out."""
    file = tmp_path / "x.csv"
    file.write_bytes(b"v," + b"n" * MAX_ENTRY_BYTES + b"\na,1\nb,2\n")
    words = ["import", str(file), "-s", "s"]
    assert f"{file}:2: " in run(tmp_path / "store", *words).stderr
    skipped = run(tmp_path / "store", *words, "--on-error", "skip")
    assert skipped.exit_code == 0
    assert "2 bad rows skipped" in skipped.stderr


def test_an_entry_of_the_greatest_size_there_is_has_room_beside_its_id(tmp_path: Path) -> None:
    """The ID is a column of the row and no field of the entry."""
    with diskstream.open(tmp_path / "store") as store:
        size = MAX_ENTRY_BYTES
        while not store.stream("from").exists():
            size -= 1
            try:
                store.stream("from").add({"v": b"x" * size}, "5-0")
            except diskstream.LimitError:
                assert size > MAX_ENTRY_BYTES - 100
    file = str(tmp_path / "x.csv")
    assert run(tmp_path / "store", "export", "from", "-o", file).exit_code == 0
    assert run(tmp_path / "store", "import", file, "-s", "to", "--id", "id").exit_code == 0
