"""Imports into a stream whose last ID is the greatest there can be, or nearly."""

from pathlib import Path

import pytest
from click.testing import CliRunner

import diskstream
from diskstream.cli import main

MOST = 2**64 - 1


def imported(directory: Path, content: str, *words: str, code: int) -> str:
    (directory / "one.csv").write_text(content)
    arguments = ["import", "-d", str(directory / "s"), "-s", "k", str(directory / "one.csv"), "--batch", "1", *words]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == code, (result.output, result.exception)
    return " ".join(result.output.split())


def stream_up_to(directory: Path, last: str) -> None:
    with diskstream.open(directory / "s") as store:
        store.stream("k").add({"v": "before"}, id=last)


def values(directory: Path) -> list[bytes]:
    with diskstream.open(directory / "s", read_only=True) as store:
        return [entry[b"v"] for entry in store.stream("k")]


@pytest.mark.parametrize("disorder", ["clamp", "sort", "error"])
def test_rows_without_room_behind_it_are_told_with_how_many_had_some(tmp_path: Path, disorder: str) -> None:
    """It was told as wrong usage, and rows were there of which nobody heard."""
    stream_up_to(tmp_path, f"{MOST}-{MOST - 2}")
    words = ("-t", "ms", "--timestamp-format", "epoch-ms", "--disorder", disorder)
    told = imported(tmp_path, "ms,v\n" + f"{MOST},a\n" * 3, *words, code=1)
    assert "no ID above" in told
    assert "2 rows before it were imported" in told
    assert values(tmp_path) == [b"before", b"a", b"a"]


def test_so_are_rows_with_ids_of_the_time_of_the_import(tmp_path: Path) -> None:
    stream_up_to(tmp_path, f"{MOST}-{MOST - 1}")
    told = imported(tmp_path, "v\na\nb\n", code=1)
    assert "1 row before it was imported" in told
    assert values(tmp_path) == [b"before", b"a"]


def test_an_import_that_reached_a_great_id_is_gone_on_with(tmp_path: Path) -> None:
    """No commit can name such an ID as that behind which an import began: this one began elsewhere."""
    content = f"id,v\n5-1,a\n{MOST}-{MOST - 1},b\nbad,c\n{MOST}-{MOST},d\n"
    imported(tmp_path, content, "--id", "id", code=1)
    imported(tmp_path, content, "--id", "id", "--on-error", "skip", "--check", code=0)
    assert values(tmp_path) == [b"a", b"b", b"d"]
