"""docs/export.md: its commands and its program run as they are written, and its tables are those of the code."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import diskstream
from diskstream.cli import main
from diskstream.exporting import COMPRESSIONS, MAX_COLUMNS
from diskstream.exporting.manifest import NAME

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")


def test_the_commands_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with diskstream.open("data") as store:
        store.stream("readings").add_many([{"value": f"{number}.5"} for number in range(50)])
    commands = re.findall(r"^\$ diskstream (.*)$", PAGE, flags=re.MULTILINE)
    assert len(commands) == 10
    for command in commands:
        words: list[str] = []
        for word in shlex.split(command):  # a pattern stands for the files that it names, as in a shell
            words += sorted(map(str, Path().glob(word))) if "*" in word else [word]
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 0, (command, done.output)
    with diskstream.open("data", read_only=True) as store:
        wanted = [(entry.id, entry.pairs) for entry in store.stream("readings").range()]
        for copy in ("again", "copy", "table", "whole"):
            assert [(entry.id, entry.pairs) for entry in store.stream(copy).range()] == wanted


def test_the_program_of_the_page_prints_what_it_says(tmp_path: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    (output,) = re.findall(r"```text\n(.*?)```", PAGE, flags=re.DOTALL)
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == output


def test_the_tables_of_the_page_are_those_of_the_code() -> None:
    assert f"| columns of a table | {MAX_COLUMNS:,} |" in PAGE
    for name, kinds in COMPRESSIONS.items():
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |") and "as above" not in line)
        if row.split("|")[2].strip() == "the same" or "kept" not in row:
            listed = re.findall(r"`(\w+)`|nothing", row.split("|")[4])
            assert [kind or "none" for kind in listed] == list(kinds), name


def test_the_page_of_the_format_names_what_a_manifest_holds(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "format" / "export.md").read_text(encoding="utf-8")
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s").add({"n": 1})
    words = ["export", "s", "-d", str(tmp_path / "store"), "-o", str(tmp_path / "out"), "--rows-per-file", "1"]
    assert CliRunner().invoke(main, words).exit_code == 0
    members = set(re.findall(r'"(\w+)": ', (tmp_path / "out" / NAME).read_text(encoding="ascii")))
    given = {"streams", "format", "start", "end", "columns", "duplicates", "compression", "rows_per_file"}
    assert NAME in page
    assert all(f"`{member}`" in page for member in members - given)


def test_the_program_in_tools_is_the_same(tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s").add({"n": 1}, id="1-0")
    program = [sys.executable, str(ROOT / "tools" / "export.py"), "s", "--dir", str(tmp_path / "store")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(program, capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == '{"id": "1-0", "fields": {"n": "1"}}\n'
