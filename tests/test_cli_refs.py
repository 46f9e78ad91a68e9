"""`del` and `trim` with an eye on groups, `group ack`, and IDs that are none: each says whose usage was wrong."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import diskstream
from diskstream.cli import main

NO_ID = "'bad' is no ID, such as 1714521600000-0 or 1714521600000"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A stream of four entries: two acknowledged by its only group, one pending, one not given yet."""
    with diskstream.open(tmp_path / "store") as store:
        jobs = store.stream("jobs")
        jobs.add_many([{"n": n} for n in range(4)], ids=[f"{1000 * n}-0" for n in range(1, 5)])
        group = jobs.create_group("g", "0")
        group.consumer("c").read(count=3)
        group.ack("1000-0", "2000-0")
    return tmp_path / "store"


def run(path: Path, *words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, [*words, "--dir", str(path)])
    assert result.exit_code == code, result.output
    return result


def pending(path: Path) -> list[str]:
    with diskstream.open(path, read_only=True) as store:
        return [str(row.id) for row in store.stream("jobs").group("g", create=False).pending_range()]


def test_del_and_trim_spare_what_is_not_acknowledged(path: Path) -> None:
    assert run(path, "del", "jobs", "1000-0", "3000-0", "--ref", "acked", "--dry-run").stdout == (
        "would delete at most 2 entries\n"
    )
    done = run(path, "del", "jobs", "1000-0", "3000-0", "--ref", "acked", "--force")
    assert done.stdout == "1\n"
    assert done.stderr == "1 entry spared: not acknowledged yet by every group\n"
    assert run(path, "trim", "jobs", "--maxlen", "0", "--ref", "ACKED", "--force").stdout == "1\n"
    assert pending(path) == ["3000-0"]


@pytest.mark.parametrize("words", [["del", "jobs", "3000-0"], ["trim", "jobs", "--maxlen", "1"]])
def test_del_and_trim_end_what_is_pending_of_what_goes_where_that_is_asked(path: Path, words: list[str]) -> None:
    run(path, *words, "--force", "--ref", "delref")
    assert pending(path) == []


def test_ack_ends_what_is_pending_and_keeps_the_entries(path: Path) -> None:
    assert run(path, "group", "ack", "jobs", "g", "3000-0", "--dry-run").stdout == "would acknowledge 1 pending entry\n"
    assert pending(path) == ["3000-0"]
    assert run(path, "group", "ack", "jobs", "g", "3000-0", "1000-0", "--force").stdout == "1\n"
    assert pending(path) == []
    assert run(path, "group", "ack", "jobs", "g", "3000-0", "--json").stdout == (
        '{"stream": "jobs", "group": "g", "acknowledged": 0, "dry_run": false}\n'
    )
    assert run(path, "len", "jobs").stdout == "4\n"


@pytest.mark.parametrize("verb", [["create", "jobs", "new", "--start"], ["set-id", "jobs", "g"]])
@pytest.mark.parametrize(
    ("place", "given"), [("1970-01-01T00:00:03Z", ["3000-0", "4000-0"]), ("3000-0", ["4000-0"]), ("$", [])]
)
def test_a_group_is_put_where_a_time_begins(path: Path, verb: list[str], place: str, given: list[str]) -> None:
    run(path, "group", *verb, place)
    with diskstream.open(path) as store:
        taken = store.stream("jobs").group(verb[2], create=False).consumer("d").read()
    assert [str(each.id) for each in taken] == given


def test_the_beginning_of_all_time_is_the_beginning_of_the_stream(path: Path) -> None:
    assert run(path, "group", "set-id", "jobs", "g", "1970-01-01").stdout == "0-0\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["add", "jobs", "a=1", "--id", "bad"], NO_ID),
        (["del", "jobs", "bad"], NO_ID),
        (["group", "ack", "jobs", "g", "bad"], NO_ID),
        (["group", "claim", "jobs", "g", "c", "bad"], NO_ID),
        (["group", "create", "jobs", "h", "--start", "bad"], "'bad' is neither an ID nor a time"),
        (["group", "create", "jobs", "h", "--start", "-"], "'-' is neither an ID nor a time"),
        (["group", "set-id", "jobs", "g", "bad"], "'bad' is neither an ID nor a time"),
        (["add", "jobs", "größe"], "größe is not NAME=VALUE"),
    ],
)
def test_wrong_usage_is_told_with_the_usage_of_the_verb(path: Path, words: list[str], said: str) -> None:
    verb = " ".join(words[:2] if words[0] == "group" else words[:1])
    failed = run(path, *words, code=2).stderr
    assert failed.startswith(f"Usage: main {verb} ")
    assert said in failed


def test_wrong_usage_makes_no_store(tmp_path: Path) -> None:
    run(tmp_path / "new", "add", "jobs", "a=1", "--id", "bad", code=2)
    assert not (tmp_path / "new").exists()


def test_where_no_stream_has_a_rule_that_is_said(path: Path) -> None:
    for words in (["show"], ["apply", "--force"]):
        assert run(path, "retention", *words).stderr == "no stream has a rule, so everything is kept\n"
    assert run(path, "retention", "show", "--json").output == ""


@pytest.mark.parametrize("given", ["0", "0ms", "0s"])
def test_how_long_something_is_idle_is_said_in_ms_or_with_a_unit(path: Path, given: str) -> None:
    assert "3000-0" in run(path, "group", "pending", "jobs", "g", "--idle", given).stdout
    assert "3000-0" not in run(path, "group", "pending", "jobs", "g", "--idle", "7d").stdout
    assert "3000-0" not in run(path, "group", "pending", "jobs", "g", "--idle", "999999999").stdout
    assert run(path, "group", "claim", "jobs", "g", "d", "--min-idle", given, "--justid").stdout == "3000-0\n"


@pytest.mark.parametrize("given", ["-1", "1h30", "soon", "9223372036854775808"])
def test_what_is_no_length_of_time_is_wrong_usage(path: Path, given: str) -> None:
    assert "--idle" in run(path, "group", "pending", "jobs", "g", "--idle", given, code=2).stderr


@pytest.mark.parametrize(
    ("option", "said"), [("--dir", "ls --dir STORE"), ("-d", "ls -d STORE"), ("--json", "ls --json")]
)
def test_an_option_before_the_verb_is_told_where_it_stands(option: str, said: str) -> None:
    failed = CliRunner().invoke(main, [option, "ls"])
    assert failed.exit_code == 2
    assert f"{option} stands behind the verb: diskstream {said}" in failed.stderr
