"""What is promised of all verbs at once, held against each of them: none is forgotten, since the tree is walked."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from diskstream.cli import main
from tests.every_verb import ELSEWHERE, WORDS, fill, leaves, options_of, state, words_for
from tests.terminal import shown_on_a_terminal

VERBS = dict(leaves())

# They take something away for good. An export replaces a file by --force alone, and a restore a key of a Redis.
TAKING = {
    "backup prune",
    "cold sweep",
    "consumer rm",
    "del",
    "group ack",
    "group destroy",
    "rename",
    "repair",
    "retention apply",
    "retention set",
    "rm",
    "trim",
}
ASKING_A_REDIS = {"archive", "restore"}

COLOURS = re.compile(rb"\x1b\[(?:\d+;)*(?:3[0-7]|4[0-7]|9[0-7]|38|48)(?:;\d+)*m")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    fill(tmp_path)
    return tmp_path


def test_each_verb_is_called_here_or_elsewhere() -> None:
    assert {title for title in VERBS if not title.startswith("spark ")} == WORDS.keys() | ELSEWHERE


# --- what takes away --------------------------------------------------------------------------------------------------


def test_those_that_take_away_are_known() -> None:
    assert {title for title, verb in VERBS.items() if "--force" in options_of(verb)} == (
        TAKING | ASKING_A_REDIS | {"export"}
    )
    for title in TAKING | ASKING_A_REDIS:
        assert "--dry-run" in options_of(VERBS[title]), title


@pytest.mark.parametrize("title", sorted(TAKING))
def test_each_asks_and_does_nothing_where_nobody_answers_or_no_is_said(title: str, place: Path) -> None:
    before = state(place)
    for answer, said in (("", "there was no answer, so nothing was done"), ("n\n", "nothing was done")):
        result = CliRunner().invoke(main, words_for(title, place), input=answer)
        assert result.exit_code == 1, result.output
        assert said in result.stderr
        assert "[y/N]" in result.stderr
        assert result.stdout == ""
        assert state(place) == before
    assert "--force does it without asking" in CliRunner().invoke(main, words_for(title, place), input="").stderr


@pytest.mark.parametrize("title", sorted(TAKING))
def test_each_can_be_tried_without_being_asked(title: str, place: Path) -> None:
    before = state(place)
    result = CliRunner().invoke(main, [*words_for(title, place), "--dry-run"], input="")
    assert result.exit_code == 0, result.output
    assert result.stdout
    assert "[y/N]" not in result.stderr
    assert state(place) == before


@pytest.mark.parametrize("title", sorted(TAKING - {"repair"}))
def test_each_does_it_where_it_is_told_not_to_ask(title: str, place: Path) -> None:
    before = state(place)
    result = CliRunner().invoke(main, [*words_for(title, place), "--force"], input="")
    assert result.exit_code == 0, result.output
    assert state(place) != before


# --- what is printed --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("title", sorted(WORDS))
def test_with_json_each_line_of_each_verb_is_an_object(title: str, place: Path) -> None:
    """The bare verb, or the same without being asked."""
    force = ["--force"] if title in TAKING else []
    result = CliRunner().invoke(main, [*words_for(title, place), *force, "--json"])
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines
    for line in lines:
        assert isinstance(json.loads(line), dict), line


@pytest.mark.parametrize("title", sorted(title for title in WORDS if WORDS[title].split()[:1] == ["s"]))
def test_json_calls_a_stream_a_group_and_a_consumer_the_same_everywhere(title: str, place: Path) -> None:
    """A group was `group` to some verbs, and `name` to those that list, make and destroy them; so with the others."""
    force = ["--force"] if title in TAKING else []
    (first, *_) = CliRunner().invoke(main, [*words_for(title, place), *force, "--json"]).stdout.splitlines()
    facts = json.loads(first)
    if title not in {"rename", "inspect"}:  # the new name, and a directory's
        assert "name" not in facts
    if title in {"group info", "group ls", "group destroy", "consumer ls", "consumer rm"}:
        assert (facts["stream"], facts["group"]) == ("s", "g")
    if title in {"consumer ls", "consumer rm"}:
        assert facts["consumer"] == "c"


def environment(**extra: str) -> dict[str, str]:
    """Where nobody has said yet whether there are to be colours."""
    kept = {
        name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE")
    }
    return {**kept, "TERM": "xterm-256color", "COLUMNS": "200", **extra}


def on_a_terminal(words: list[str], **extra: str) -> bytes:
    """What a verb shows on standard output and error, both a terminal."""
    return shown_on_a_terminal([sys.executable, "-m", "diskstream", *words], environment(**extra))[0]


@pytest.mark.parametrize("title", sorted(WORDS))
def test_in_a_pipe_no_verb_prints_an_escape(title: str, place: Path) -> None:
    force = ["--force"] if title in TAKING else []
    command = [sys.executable, "-m", "diskstream", *words_for(title, place), *force]
    done = subprocess.run(command, capture_output=True, check=False, env=environment(), timeout=60)
    assert done.returncode == 0, done.stderr
    assert b"\x1b" not in done.stdout + done.stderr
    assert done.stdout + done.stderr


@pytest.mark.parametrize(
    "words", [["range", "s"], ["tail", "s", "other"], ["len", "nothing"], ["top", "--once", "-i", "50ms"]]
)
def test_colours_are_for_a_terminal_and_not_where_they_are_not_wanted(words: list[str], place: Path) -> None:
    named = [*words, "--dir", str(place / "store")]
    plain = on_a_terminal(named, NO_COLOR="1")
    assert plain
    assert not COLOURS.search(plain)
    if words[0] != "top":  # which has none
        assert COLOURS.search(on_a_terminal(named))


@pytest.mark.parametrize("title", ["seal", "verify", "cold fetch", "backup create"])
def test_bars_are_without_colours_too_where_none_are_wanted(title: str, place: Path) -> None:
    shown = on_a_terminal(words_for(title, place), NO_COLOR="1")
    assert not COLOURS.search(shown)
