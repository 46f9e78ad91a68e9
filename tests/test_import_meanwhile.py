"""What others do while an import is under way: to the file, and to the stream."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import diskstream
from diskstream.cli import main

ROWS = 20_000


def rows(path: Path) -> Path:
    path.write_text("id,v\n" + "".join(f"{1_000 + at}-1,{at:0100}\n" for at in range(ROWS)))
    return path


def imported(
    patch: pytest.MonkeyPatch,
    directory: Path,
    meanwhile: Callable[[Callable[..., Any], diskstream.Stream], object],
    *words: str,
    code: int,
) -> tuple[str, list[bytes]]:
    """What was told, and the values that are there. `meanwhile` is done before the second batch."""
    real, batches = diskstream.Stream.add_many, [0]

    def add_many(self: diskstream.Stream, *given: Any, **named: Any) -> Any:
        batches[0] += 1
        if batches[0] == 2:
            meanwhile(real, self)
        return real(self, *given, **named)

    patch.setattr(diskstream.Stream, "add_many", add_many)
    result = CliRunner().invoke(main, ["import", "-d", str(directory / "s"), "-s", "k", *words])
    assert result.exit_code == code, (result.output, result.exception)
    with diskstream.open(directory / "s", read_only=True) as store:
        return " ".join(result.output.split()), [entry[b"v"] for entry in store.stream("k")]


def test_a_file_that_becomes_shorter_is_not_a_whole_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows up to there were all, the last of them cut in two, and the status was 0."""
    file = rows(tmp_path / "one.csv")
    cut = file.stat().st_size // 2 + 13
    told, values = imported(monkeypatch, tmp_path, lambda *_: os.truncate(file, cut), str(file), code=1)
    assert "has become shorter while it was read" in told
    assert f"{len(values):,} rows before it were imported" in told
    assert values == [b"%0100d" % at for at in range(len(values))]


def test_one_that_grows_is_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = rows(tmp_path / "one.csv")

    def grow(*_: object) -> None:
        with file.open("a") as end:
            end.write("9000000-1,last\n")

    _, values = imported(monkeypatch, tmp_path, grow, str(file), code=0)
    assert (len(values), values[-1]) == (ROWS + 1, b"last")


def test_a_stream_that_others_append_to_says_so_and_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was told in the words of XADD, of no row and no stream."""
    file = rows(tmp_path / "one.csv")
    told, values = imported(
        monkeypatch, tmp_path, lambda add, stream: add(stream, [{"v": "theirs"}]), str(file), "--id", "id", code=1
    )
    assert "somebody else has appended to 'k' meanwhile" in told
    assert "500 rows before it were imported" in told
    assert (len(values), values[-1]) == (501, b"theirs")
