"""The page on compat: its program runs and prints what it says, and its numbers are those of the code."""

from pathlib import Path

from diskstream.compat import aio, aio_waiting, waiting
from tests.test_docs import ROOT, blocks, printed

PAGE = (ROOT / "docs" / "compat.md").read_text(encoding="utf-8")


def test_the_program_prints_what_the_page_says(tmp_path: Path) -> None:
    [program], [output] = blocks(PAGE, "python"), blocks(PAGE, "text")
    assert printed(program, tmp_path) == output


def test_the_numbers_are_those_of_the_code() -> None:
    words = " ".join(PAGE.split())
    assert f"up to {aio._MOST_WAITING:,} of a client may wait" in words
    assert f"each {waiting._SLICE_S * 1000:.0f} ms" in words
    assert waiting._SLICE_S == aio_waiting._LOOK_S
