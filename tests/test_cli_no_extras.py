"""The command where only what every installation has is there: no redis-py, no Arrow, no Spark."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.every_verb import WORDS, fill, leaves, words_for

EXTRAS = ["hiredis", "matplotlib", "pandas", "pyarrow", "pyspark", "redis"]

# What they take the others want to find.
TAKING = {"group destroy", "rename", "rm"}

# Each line of the input is the words of one call; each call's exit status and messages are printed.
BARE = f"""
import sys
for extra in {EXTRAS}:
    sys.modules[extra] = None
from click.testing import CliRunner
from diskstream.cli import main
for line in sys.stdin:
    words = line.rstrip("\\n").split("\\t")
    done = CliRunner().invoke(main, words, input="y\\n")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        print("raised", repr(done.exception), *words, sep="\\t")
    else:
        print(done.exit_code, " ".join(done.stderr.split()), *words, sep="\\t")
"""


def called_bare(*calls: list[str]) -> list[list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", BARE],
        input="".join("\t".join(words) + "\n" for words in calls),
        capture_output=True,
        text=True,
        check=True,
    )
    return [line.split("\t") for line in done.stdout.splitlines()]


def test_the_help_of_the_command_and_of_each_verb_needs_no_extra() -> None:
    verbs = [[*title.split(), "--help"] for title, _ in leaves()]
    answers = called_bare(["--help"], *verbs)
    assert len(answers) == len(verbs) + 1
    assert [answer for answer in answers if answer[0] != "0"] == []


def test_verbs_do_their_work_or_name_the_extra_that_they_need(tmp_path: Path) -> None:
    fill(tmp_path)
    titles = [title for title in WORDS if title not in TAKING and not title.startswith("spark")]
    answers = called_bare(*[words_for(title, tmp_path) for title in titles])
    assert len(answers) == len(titles)
    assert [answer for answer in answers if answer[0] != "0" and "pip install" not in answer[1]] == []


@pytest.mark.parametrize(
    "words",
    [
        ["archive", "--from", "redis://127.0.0.1:1", "--key", "s", "--to", "@"],
        ["restore", "--to", "redis://127.0.0.1:1", "--dir", "@/store"],
        ["replay", "s", "--to", "redis://127.0.0.1:1?key=s", "--dir", "@/store"],
        ["cold", "sweep", "--at", "s3://bucket/place", "--older-than", "0s", "--dir", "@/store"],
        ["export", "s", "-o", "@/s.parquet", "--dir", "@/store"],
    ],
    ids=lambda words: words[0],
)
def test_what_needs_an_extra_says_how_it_is_installed(tmp_path: Path, words: list[str]) -> None:
    fill(tmp_path)
    [answer] = called_bare([word.replace("@", str(tmp_path)) for word in words])
    assert answer[0] == "1"
    assert "pip install 'diskstream[archive]'" in answer[1]


def test_a_package_that_cannot_be_loaded_is_not_said_to_be_missing(tmp_path: Path) -> None:
    """As where there is no memory for it, or no descriptor: who was told to install it had it."""
    fill(tmp_path)
    (tmp_path / "ill").mkdir()
    for package in ("pyarrow", "redis"):
        (tmp_path / "ill" / f"{package}.py").write_text("raise ImportError('lib.so: cannot map it')", encoding="utf-8")
    program = "import sys; sys.path.insert(0, sys.argv.pop(1)); from diskstream.cli import main; main()"
    archive = f"archive --from redis://localhost:1 --key s --to {tmp_path / 'a'}".split()
    for words in (words_for("export", tmp_path), archive):
        command = [sys.executable, "-c", program, str(tmp_path / "ill"), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode in (1, 2)
        assert "which cannot be loaded: lib.so: cannot map it" in " ".join(done.stderr.split())
