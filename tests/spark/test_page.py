"""The page on Spark: its programs run as they are written, and it names each option as it is."""

import contextlib
import dataclasses
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from diskstream.spark.merging import MAX_MERGED_ROWS
from diskstream.spark.options import ReadOptions, WriteOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "spark.md").read_text(encoding="utf-8")


def test_the_programs_of_the_page_print_what_it_says(spark: "SparkSession", tmp_path: Path) -> None:
    """One after another, on one store."""
    store = tmp_path / "data"
    parts = re.findall(r"```(python|text)\n(.*?)```", PAGE, flags=re.DOTALL)
    said, names = "", {"spark": spark}
    for language, part in parts:
        if language == "text":
            assert said == part
            continue
        out = io.StringIO()
        program = part.replace('"data"', repr(str(store)))
        with contextlib.redirect_stdout(out):
            exec(compile(program, "docs/spark.md", "exec"), names)
        said = out.getvalue()
    assert [language for language, _ in parts].count("text") == 4


def spelt(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def rows_of_the_page() -> dict[str, list[str]]:
    """The default of each option, by its name; an option may stand in two tables."""
    found: dict[str, list[str]] = {}
    for names, default in re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|\s*([^|]*?)\s*\|[^|]*\|$", PAGE, flags=re.MULTILINE):
        for name in re.findall(r"`(\w+)`", names):
            found.setdefault(name, []).append(default.strip().strip("`"))
    return found


@pytest.mark.parametrize("options", [ReadOptions, WriteOptions])
def test_each_option_stands_on_the_page_with_its_default(options: type[ReadOptions] | type[WriteOptions]) -> None:
    rows = rows_of_the_page()
    for each in dataclasses.fields(options):
        assert spelt(each.name) in rows, f"docs/spark.md does not name {spelt(each.name)}"
        if each.default in ("", None, ()):
            continue
        parsed = [row for row in rows[spelt(each.name)] if row and "(" not in row]
        assert any(each.metadata["parse"](row) == each.default for row in parsed), spelt(each.name)


def test_the_page_names_no_option_that_is_not_there() -> None:
    known = {spelt(each.name) for options in (ReadOptions, WriteOptions) for each in dataclasses.fields(options)}
    tables = re.findall(r"\| option \| default \| \|\n\| --- \| --- \| --- \|\n((?:\|.*\n)+)", PAGE)
    named = {
        name for table in tables for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])
    }
    assert named == known


def test_the_page_says_how_many_rows_the_driver_sorts() -> None:
    assert f"{MAX_MERGED_ROWS:,} at a time" in PAGE
