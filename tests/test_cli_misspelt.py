"""What is misspelt on the command line is told, and does nothing: no backup, no file of a format nobody asked for."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import diskstream
from diskstream.cli import main


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s").add({"n": 1})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner(env={"DISKSTREAM_DIR": "store"}).invoke(main, list(words))


@pytest.mark.parametrize(
    ("word", "meant"), [("lits", "ls"), ("verfiy", "verify"), ("creat", "create"), ("prun", "prune")]
)
def test_a_misspelt_verb_of_backup_makes_no_backup(here: Path, word: str, meant: str) -> None:
    """`diskstream backup lits` made a backup in a directory of that name, and ended with 0."""
    done = run("backup", word)
    assert done.exit_code == 2
    assert f"{meant!r} was meant?" in done.output
    assert f"backup create {word}" in done.output
    for words in (("-d", "store", word), ("--json", word), ("--dir=store", word)):
        assert f"{meant!r} was meant?" in run("backup", *words).output, words
    assert not (here / word).exists()
    assert run("backup", "create", word).exit_code == 0
    assert run("backup", word).exit_code == 0  # it is there now, and so a place for one more


def test_a_verb_of_backup_behind_its_options_makes_none_either(here: Path) -> None:
    done = run("backup", "-d", "store", "ls")
    assert done.exit_code == 2
    assert "diskstream backup ls ..." in done.output
    assert not (here / "ls").exists()


def test_a_place_that_resembles_no_verb_needs_no_create(here: Path) -> None:
    assert run("backup", "-d", "store", "kept").exit_code == 0
    for place in ("kept", "./lits", str(here / "verfiy")):
        assert run("backup", place).exit_code == 0, place


@pytest.mark.parametrize(("word", "meant"), [("archvie", "archive"), ("exprt", "export"), ("vrify", "verify")])
def test_a_misspelt_verb_is_told_with_the_right_one(word: str, meant: str) -> None:
    done = run(word)
    assert done.exit_code == 2
    assert f"No such command {word!r}. Did you mean {meant!r}?" in done.output
    assert "Did you mean" not in run("zzz").output


@pytest.mark.parametrize(("name", "ending"), [("x.parqet", ".parqet"), ("x.foo", ".foo"), ("x.csvv.gz", ".csvv")])
def test_an_ending_of_no_format_is_refused(here: Path, name: str, ending: str) -> None:
    """`-o x.parqet` wrote JSON lines, and ended with 0."""
    done = run("export", "s", "-o", name)
    assert done.exit_code == 2
    assert f"{ending} is the ending of no format" in done.output
    assert ".parquet" in done.output
    assert not (here / name).exists()
    assert run("export", "s", "-o", name, "--format", "jsonl").exit_code == 0


def test_endings_that_say_something_and_names_without_one_are_taken() -> None:
    for name in ("x", "x.gz", "x.json", "x.csv.gz", "x.2026.parquet", "x.feather", "X.CSV"):
        assert run("export", "s", "-o", name).exit_code == 0, name
    assert run("export", "s", "-o", "parts.2026", "--rows-per-file", "5").exit_code == 0


@pytest.mark.parametrize("url", ["http://x", "nonsense://x", "redis://127.0.0.1:1/orders"])
def test_what_is_no_address_of_a_redis_is_wrong_usage(url: str) -> None:
    done = run("restore", "--to", url, "--dir", "store", "--stream", "s")
    assert done.exit_code == 2
    assert "redis" in done.output.lower()
