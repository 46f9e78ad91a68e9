"""Sorting where the temporary file fails: what failed is said, and what was imported is gone on with."""

import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from click.testing import CliRunner

import diskstream
from diskstream.cli import main
from diskstream.ingest import SortingError, sorting
from diskstream.ingest.rows import Pairs

ROWS = 8_000
COMMAND = ["-s", "k", "-t", "t", "--timestamp-format", "epoch-ms", "--sort-memory", "1"]


def refuse(*_: Any, **__: Any) -> Any:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def full(**_: Any) -> BinaryIO:
    return Path("/dev/full").open("w+b")


def rows(count: int) -> Iterator[tuple[int, Pairs]]:
    return ((count - at, [(b"v", b"x" * 200)]) for at in range(count))


def imported(directory: Path, *, code: int) -> str:
    file = directory / "one.csv"
    if not file.exists():
        file.write_text("t,v\n" + "".join(f"{2_000_000_000 - at},{'x' * 200}\n" for at in range(ROWS)))
    result = CliRunner().invoke(main, ["import", "-d", str(directory / "s"), *COMMAND, str(file)])
    assert result.exit_code == code, (result.output, result.exception)
    return " ".join(result.output.split())


def length(directory: Path) -> int:
    with diskstream.open(directory / "s", read_only=True) as store:
        return len(store.stream("k"))


def test_what_fits_into_memory_needs_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    assert [ms for ms, _ in sorting.sorted_by_time(rows(10), memory_bytes=1 << 20)] == list(range(1, 11))


@pytest.mark.parametrize(("names", "runs"), [("their own", 10), ("shared", 0), ("now more, now fewer", 10)])
def test_names_take_memory_where_each_row_has_its_own_as_in_json_lines(
    monkeypatch: pytest.MonkeyPatch, names: str, runs: int
) -> None:
    """Values alone were counted: of JSON lines with long names all rows were held."""
    written: list[int] = []
    write = sorting._write_run

    def count(file: Any, held: list[tuple[int, Pairs]]) -> tuple[int, int]:
        written.append(len(held))
        return write(file, held)

    monkeypatch.setattr(sorting, "_write_run", count)
    name = b"n" * 100_000
    given = [(at, [(name if names == "shared" else bytes(bytearray(name)), b"")]) for at in range(120, 0, -1)]
    if names == "now more, now fewer":
        given = [(at, pairs + [(b"m", b"")] * (at % 2)) for at, pairs in given]
    assert [ms for ms, _ in sorting.sorted_by_time(given, memory_bytes=1 << 20)] == list(range(1, 121))
    assert len(written) == runs


@pytest.mark.parametrize("make", [refuse, full])
def test_a_file_that_cannot_be_made_or_written_is_told_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Any
) -> None:
    """It was told as `No space left on device`, of nothing."""
    monkeypatch.setattr(tempfile, "TemporaryFile", make)
    with pytest.raises(SortingError, match="sorted in a temporary file"):
        list(sorting.sorted_by_time(rows(1_000), memory_bytes=1_000))
    told = imported(tmp_path, code=1)
    assert "sorted in a temporary file" in told
    assert "nothing was imported" in told
    assert "TMPDIR" in told


def test_one_that_cannot_be_read_again_leaves_what_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, left = os.preadv, [20]

    def preadv(*given: Any) -> int:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(*given)

    with monkeypatch.context() as patched:
        patched.setattr(os, "preadv", preadv)
        told = imported(tmp_path, code=1)
    before = length(tmp_path)
    assert 0 < before < ROWS
    assert f"{before:,} rows before it were imported" in told
    assert "run the same again, which goes on" in told
    imported(tmp_path, code=0)
    assert length(tmp_path) == ROWS
