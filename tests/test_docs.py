"""The README runs as it is written, and its numbers are those of the code."""

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

import diskstream
from diskstream import _native
from diskstream.cli import main
from diskstream.engine import names

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_fifteen_lines_run(tmp_path: Path) -> None:
    (program,) = blocks("python")
    assert len([line for line in program.splitlines() if line.strip()]) <= 15
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert "b'Castilla'" in lines[0]
    assert "b'Norem'" in lines[1]
    assert lines[-1] == "3 3 True"


def test_the_commands_of_the_readme_run(tmp_path: Path) -> None:
    readings = tmp_path / "readings.csv"
    readings.write_text("timestamp,value\n2014-04-01 00:00:00,19.8\n2014-04-01 00:05:00,19.9\n", encoding="utf-8")
    commands = re.findall(r"^\$ diskstream (.*)$", README, flags=re.MULTILINE)
    assert len(commands) == 8
    for command in commands:
        program = [sys.executable, "-c", "from diskstream.cli import main; main()", *command.split()]
        done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (command, done.stderr)
    assert callable(main)


def test_the_readme_lists_every_verb() -> None:
    table = re.findall(
        r"^\| (`[a-z].*?) \| ", README.partition("## The command")[2].partition("\n## ")[0], flags=re.MULTILINE
    )
    listed = set()
    for cell in table:
        first, *others = re.findall(r"`([^`]+)`", cell)
        thing = first.rpartition(" ")[0]
        listed |= {first, *(f"{thing} {verb}".strip() for verb in others)}
    verbs = set()
    context = click.Context(main)
    for name in main.list_commands(context):
        verb = main.get_command(context, name)
        verbs |= {f"{name} {each}" for each in verb.commands} if isinstance(verb, click.Group) else {name}
    assert listed == verbs


def test_the_make_targets_of_the_readme_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    named = set(re.findall(r"^\$ make ([a-z]+)", README, flags=re.MULTILINE))
    assert named == {"demo", "test"}
    assert named <= targets


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("| an entry (names, lengths and values) | 32 MiB |", _native.MAX_ENTRY_BYTES == 32 << 20),
        ("| entries of one `add_many` | 64 MiB together |", 63 << 20 < _native.MAX_BATCH_BYTES <= 64 << 20),
        ("| name of a stream | 4,096 bytes, any bytes |", names.MAX_NAME_BYTES == 4096),
        ("| a segment | 64 MiB of frames,", diskstream.Options().segment_bytes == 64 << 20),
    ],
)
def test_the_limits_of_the_readme_are_those_of_the_code(words: str, number: bool) -> None:
    assert words in README
    assert number


def test_every_page_that_the_readme_links_to_exists() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
