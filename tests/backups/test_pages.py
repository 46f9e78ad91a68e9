"""docs/backups.md and docs/replay.md run as they are written, and their numbers are those of the code."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import diskstream
from diskstream.backups import making, manifest, sharing
from diskstream.commits import COMPLETE
from diskstream.replaying import conditions, run

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = {name: (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("backups", "replay")}


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGES[page], flags=re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_run(page: str, tmp_path: Path) -> None:
    with diskstream.open(tmp_path / "data") as store:
        for hour in range(4):
            store.stream("orders").add({"amount": 60 * hour}, f"{1_714_521_600_000 + 900 * hour}-0")
    commands = [line for block in blocks(page, "console") for line in block.splitlines()]
    assert len(commands) > 4
    for command in commands:
        words = command.removeprefix("$ diskstream ")
        program = f'{sys.executable} -c "from diskstream.cli import main; main()" {words}'
        done = subprocess.run(program, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (command, done.stderr)
        assert done.stdout, command


@pytest.mark.parametrize("page", PAGES)
def test_the_program_prints_what_it_says(page: str, tmp_path: Path) -> None:
    (program,), (output,) = blocks(page, "python"), blocks(page, "text")
    assert len([line for line in program.splitlines() if line.strip()]) <= 15
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == output


@pytest.mark.parametrize(
    ("page", "words", "number"),
    [
        ("backups", "a backup leaves {} MiB to those", making._LEFT_BYTES >> 20),
        ("backups", "| the newest {}, and what", sharing._LOOKED_INTO),
        ("backups", "kept | {}, and how", manifest._MAX_FAULTS),
        ("replay", "At most {} conditions", conditions.MAX_CONDITIONS),
        ("replay", "of {:,} bytes at most, and is searched", conditions.MAX_PATTERN),
        ("replay", "in the first {:,} bytes of a value", conditions.MAX_SEARCHED_BYTES),
        ("replay", "at most {} repetitions", conditions._MAX_REPETITIONS),
        ("replay", "at most {} or 4 MiB", run.MAX_BATCH),
        ("replay", "numbers up to {:,},", COMPLETE - 1),
    ],
)
def test_the_numbers_are_those_of_the_code(page: str, words: str, number: int) -> None:
    assert words.format(number) in " ".join(PAGES[page].split())
    assert run.MAX_BATCH_BYTES == 4 << 20


@pytest.mark.parametrize("page", ["docs/backups.md", "docs/replay.md", "docs/format/backup.md"])
def test_every_page_that_is_linked_to_exists(page: str) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", (ROOT / page).read_text(encoding="utf-8"))
    assert [link for link in links if not ((ROOT / page).parent / link).exists()] == []
