"""`diskstream retention`: what an operator sees of rules, sets, and has done."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import diskstream
from diskstream import RetentionRule
from diskstream.cli import main

Run = Callable[..., Result]
DAY_MS = 86_400_000


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A store whose stream `jobs` has a hundred entries of 1970, and `other` ten of today; nobody has it open."""
    path = tmp_path / "store"
    with diskstream.open(path) as store:
        store.stream("jobs").add_many([{"n": n} for n in range(100)], ids=[(n + 1, 0) for n in range(100)])
        store.stream("other").add_many([{"n": n} for n in range(10)])
    return path


@pytest.fixture
def run(directory: Path) -> Run:
    """Runs a verb on that store."""

    def run_verb(*words: str, code: int = 0, given: str | None = None) -> Result:
        environment = {"DISKSTREAM_DIR": str(directory)}
        result = CliRunner().invoke(main, ["retention", *words], input=given, env=environment)
        assert result.exit_code == code, result.output
        return result

    return run_verb


def objects(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def kept(directory: Path, stream: str = "jobs") -> tuple[int, RetentionRule | None]:
    """How many entries there are, and by which rule."""
    with diskstream.open(directory, read_only=True) as store:
        return len(store.stream(stream)), store.stream(stream).retention


def test_set_takes_quantities_as_people_write_them(run: Run, directory: Path) -> None:
    run("set", "jobs", "--max-age", "36500d", "--max-bytes", "10GiB", "--max-entries", "1000000", "--ref", "acked")
    rule = RetentionRule(max_age_ms=36500 * DAY_MS, max_bytes=10 << 30, max_entries=10**6, ref="ACKED")
    assert kept(directory) == (100, rule)
    for text, size in [("1", 1), ("1500", 1500), ("1.5kB", 1500), ("2 MiB", 2 << 20), ("1tb", 10**12)]:
        run("set", "other", "--max-bytes", text, "--force")
        rule = RetentionRule(max_bytes=size)
        assert kept(directory, "other")[1] == rule
    for text, ms in [("250ms", 250), ("90s", 90_000), ("1.5h", 5_400_000), ("2min", 120_000), ("2w", 14 * DAY_MS)]:
        run("set", "other", "--max-age", text, "--force")
        assert kept(directory, "other")[1] == RetentionRule(max_age_ms=ms)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--ref", "ACKED"],
        ["--max-age", "7"],  # of what?
        ["--max-age", "7 fortnights"],
        ["--max-age", "0s"],
        ["--max-age", "0.5ms"],
        ["--max-age", "-7d"],
        ["--max-age", "1e3d"],
        ["--max-age", "9999999999999999999d"],
        ["--max-bytes", "0"],
        ["--max-bytes", "ten"],
        ["--max-entries", "0"],
        ["--max-entries", "5.5"],
        ["--max-entries", "5", "--ref", "NONE"],
        ["--max-entries", "5", "--on-trim"],  # to where?
        ["--to", "file:///mnt/cold"],
    ],
)
def test_what_makes_no_sense_is_wrong_usage(run: Run, directory: Path, words: list[str]) -> None:
    run("set", "jobs", *words, code=2)
    assert kept(directory) == (100, None)


def test_what_the_library_refuses_is_told_without_secrets(run: Run, directory: Path) -> None:
    result = run("set", "jobs", "--max-entries", "5", "--to", "s3://key:hush@bucket", code=2)
    assert "hush" not in result.output
    assert "holds no user and no password" in result.stderr
    run("set", "nobody", "--max-entries", "5", code=1)
    run("set", "jobs", "--max-entries", str(2**63), code=2)
    told = run("set", "jobs", "--max-entries", "5", "--ref", "ACKED", "--to", "file:///cold", code=2)
    assert "those moved to cold storage stay readable" in told.stderr
    assert kept(directory) == (100, None)


def test_set_says_what_would_go_and_asks(run: Run, directory: Path) -> None:
    said = run("set", "jobs", "--max-entries", "30", "--dry-run").stdout
    assert "70 entries" in said
    assert kept(directory) == (100, None)
    refused = run("set", "jobs", "--max-entries", "30", code=1, given="n\n")
    assert "Remove 70 entries of the 100 of stream jobs?" in refused.stderr
    run("set", "jobs", "--max-entries", "30", code=1, given="")
    assert kept(directory) == (100, None)
    run("set", "jobs", "--max-entries", "30", given="y\n")
    assert kept(directory) == (100, RetentionRule(max_entries=30)), "nobody who would apply it has it open"
    run("set", "jobs", "--max-entries", "100", given="")
    assert kept(directory)[1] == RetentionRule(max_entries=100), "where nothing goes nobody is asked"
    (facts,) = objects(run("set", "jobs", "--max-entries", "99", "--force", "--json"))
    assert (facts["stream"], facts["beyond"], facts["set"]) == ("jobs", 1, True)
    assert facts["retention"]["max_entries"] == 99


def test_ids_that_are_no_times_are_told_before_an_age_removes_them(run: Run) -> None:
    assert "100 entries" in run("set", "jobs", "--max-age", "7d", code=1, given="n\n").stderr


def test_show_lists_the_rules_and_what_is_beyond_them(run: Run) -> None:
    assert run("show").stdout == ""
    assert "everything is kept" in run("show", "jobs").stdout
    run("set", "jobs", "--max-entries", "30", "--ref", "DELREF", "--force")
    (line,) = run("show").stdout.splitlines()[1:]
    assert [line.split()[0], "30 entries" in line, "DELREF" in line, "70 entries" in line] == ["jobs", True, True, True]
    (facts,) = objects(run("show", "--json"))
    assert facts["stream"], facts["beyond"] == ("jobs", 70)
    assert objects(run("show", "other", "--json")) == [{"stream": "other", "retention": None, "beyond": None}]
    run("show", "nobody", code=1)


def test_apply_does_all_of_it_or_says_what_it_would_do(run: Run, directory: Path) -> None:
    assert run("apply").stdout == ""
    assert "no rule" in run("apply", "jobs").stderr
    run("set", "jobs", "--max-entries", "30", "--force")
    assert "would go: 70 entries" in run("apply", "--dry-run").stdout
    run("apply", code=1, given="n\n")
    run("apply", "jobs", code=1, given="")
    assert kept(directory)[0] == 100
    (facts,) = objects(run("apply", "--json", "--force"))
    assert facts == {"stream": "jobs", "removed": 70, "references": 0, "moved": [], "dry_run": False}
    assert kept(directory)[0] == 30
    assert objects(run("apply", "jobs", "--json"))[0]["removed"] == 0, "where nothing goes nobody is asked"
    run("apply", "nobody", code=1)


def test_clear_keeps_everything_again(run: Run, directory: Path) -> None:
    run("set", "jobs", "--max-entries", "30", "--force")
    assert run("clear", "jobs").stdout == "jobs: everything is kept\n"
    assert objects(run("clear", "jobs", "--json")) == [{"stream": "jobs", "cleared": False}]
    assert kept(directory) == (100, None)
    run("clear", "nobody", code=1)


def test_a_rule_that_cannot_be_read_is_told_and_the_others_are_applied(run: Run, directory: Path) -> None:
    run("set", "other", "--max-entries", "3", "--force")
    with diskstream.open(directory) as store:
        log = store._log(b"jobs", create=False)
        assert log is not None
        with log.locked():
            log.retry(lambda: log.native.change([("setting", b"retention", b'{"max_cost":1}')], 1), held=True)
    result = run("apply", "--force", "--json", code=1)
    assert "upgrade" in result.stderr
    refused, applied = objects(result)
    assert (refused["stream"], applied["stream"]) == ("jobs", "other")
    assert "max_cost" in refused["error"]
    assert "upgrade" in run("show", code=1).stderr
    info = CliRunner().invoke(main, ["info", "jobs", "--json"], env={"DISKSTREAM_DIR": str(directory)})
    assert "upgrade" in json.loads(info.stdout)["retention_error"]


def test_a_rule_may_be_that_trims_move(run: Run, directory: Path, tmp_path: Path) -> None:
    place = f"file://{tmp_path / 'cold'}"
    assert "keeps at most what no trim has passed" in run("set", "jobs", "--on-trim", "--to", place).stdout
    assert kept(directory) == (100, RetentionRule(to=place, on_trim=True))
    with diskstream.open(directory) as store:
        assert store.stream("jobs").trim(maxlen=1) == 0
    assert "what no trim has passed" in run("show").stdout
    (facts,) = objects(run("show", "--json"))
    assert facts["retention"] == {**facts["retention"], "on_trim": True, "to": place, "max_entries": None}
    assert kept(directory)[0] == 100


def test_a_trim_says_that_it_moves_where_the_rule_says_so(run: Run, directory: Path, tmp_path: Path) -> None:
    """It was told, and asked, how many entries would be dropped, and then dropped none."""
    run("set", "jobs", "--on-trim", "--to", f"file://{tmp_path / 'cold'}")

    def trim(*words: str, given: str | None = None, code: int = 0) -> Result:
        result = CliRunner().invoke(main, ["trim", "jobs", *words, "--dir", str(directory)], input=given)
        assert result.exit_code == code, result.output
        return result

    for words in (("--maxlen", "10"), ("--minid", "91"), ("--maxlen", "10", "--approximate")):
        would = trim(*words, "--dry-run").stdout
        assert "would drop none" in would
        assert "wholly among the oldest 90 of 100 entries moved to cold storage" in would
        (told,) = objects(trim(*words, "--dry-run", "--json"))
        assert told == {"stream": "jobs", "trimmed": 0, "dry_run": True}
        asked = trim(*words, given="n\n", code=1).stderr
        assert "Drop" not in asked
        assert "oldest 90 of 100 entries of stream jobs moved to cold storage" in asked
        assert trim(*words, "--force").stdout == "0\n"
    assert "would drop 0 of 100" in trim("--maxlen", "100", "--dry-run").stdout
    assert kept(directory)[0] == 100


def test_what_a_rule_moves_is_said_in_words(run: Run, directory: Path, tmp_path: Path) -> None:
    """A rule that moves was set with "beyond it now: 0 entries"; what it moved was printed as Python has it."""
    with diskstream.open(directory, segment_bytes=8192, seal="manual") as store:
        for number in range(1000, 1400):
            store.stream("jobs").add({"n": number, "pad": "." * 50}, f"{number}-0")
        store.stream("jobs").seal()
    rule = ("jobs", "--max-entries", "50", "--max-age", "1d", "--to", f"file://{tmp_path / 'cold'}")
    planned = run("set", *rule, "--dry-run").stdout
    assert " segments to cold storage" in planned
    assert "to cold storage" in run("set", *rule).stdout
    assert objects(run("set", *rule, "--json"))[0]["beyond"] is None
    would = run("apply", "jobs", "--dry-run").stdout.strip().partition("would go: ")[2]
    assert would in planned
    done = run("apply", "jobs").stdout.strip()
    assert done.endswith(f"gone: {would}")
    assert "{" not in done
    assert " 0 segments" in run("apply", "jobs").stdout  # the newest stays
