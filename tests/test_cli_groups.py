"""`diskstream group` and `diskstream consumer`: what operators see of groups, and what they do to them."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import diskstream
from diskstream.cli import main
from diskstream.cli.duration import duration

Run = Callable[..., Result]
GROUP_VERBS = ("ack", "claim", "create", "destroy", "info", "ls", "pending", "set-id")
CONSUMER_VERBS = ("ls", "rm")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A store whose stream `jobs` has five entries, of which its group `g` gave three to `ann` and one to `bob`."""
    path = tmp_path / "store"
    with diskstream.open(path) as store:
        jobs = store.stream("jobs")
        for number in range(1, 6):
            jobs.add({"job": number}, id=f"{number}-0")
        group = jobs.create_group("g", "0")
        assert len(group.consumer("ann").read(count=3)) == 3
        assert len(group.consumer("bob").read(count=1)) == 1
    return path


@pytest.fixture
def run(directory: Path) -> Run:
    """Runs a verb on that store."""

    def run_verb(*words: str, code: int = 0, given: str | None = None) -> Result:
        result = CliRunner().invoke(main, list(words), input=given, env={"DISKSTREAM_DIR": str(directory)})
        assert result.exit_code == code, result.output
        return result

    return run_verb


def objects(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def cells(result: Result) -> list[list[str]]:
    """The rows of a table below its heading."""
    return [line.split() for line in result.stdout.splitlines()[1:]]


# --- looking ----------------------------------------------------------------------------------------------------------


def test_group_ls_lists_the_groups_of_a_stream_or_of_all(run: Run) -> None:
    run("group", "create", "other", "h", "--mkstream")
    assert cells(run("group", "ls")) == [
        ["jobs", "g", "2", "4", "0", "4-0", "4", "1"],
        ["other", "h", "0", "0", "0", "0-0", "0"],  # what it has read is not known: it was told no count
    ]
    assert [row[:2] for row in cells(run("group", "ls", "other"))] == [["other", "h"]]
    first, second = objects(run("group", "ls", "--json"))
    assert first == {
        "stream": "jobs",
        "group": "g",
        "consumers": 2,
        "pending": 4,
        "last_delivered_id": "4-0",
        "entries_read": 4,
        "lag": 1,
        "refused": 0,
    }
    assert second["stream"] == "other"


def test_a_stream_without_groups_has_nothing_to_list(run: Run) -> None:
    run("add", "plain", "a=1")
    assert run("group", "ls", "plain").stdout == ""
    assert run("group", "ls", "plain", "--json").stdout == ""


def test_a_lag_that_cannot_be_known_is_left_open(run: Run) -> None:
    run("group", "create", "jobs", "mid", "--start", "2-0")
    run("del", "jobs", "3-0", "--force")
    (mid,) = [info for info in objects(run("group", "ls", "jobs", "--json")) if info["group"] == "mid"]
    assert (mid["entries_read"], mid["lag"]) == (None, None)
    assert "lag                unknown" in run("group", "info", "jobs", "mid").stdout


def test_group_info_tells_where_it_is_and_what_is_pending(run: Run) -> None:
    shown = {line[:19].strip(): line[19:].strip() for line in run("group", "info", "jobs", "g").stdout.splitlines()}
    assert (shown["last delivered id"], shown["pending"], shown["lag"]) == ("4-0", "4", "1")
    assert (shown["first pending"], shown["last pending"]) == ("1-0", "4-0")
    (facts,) = objects(run("group", "info", "jobs", "g", "--json"))
    assert (facts["stream"], facts["group"]) == ("jobs", "g")
    assert (facts["first_pending"], facts["last_pending"]) == ("1-0", "4-0")


def test_pending_lists_who_has_what(run: Run) -> None:
    rows = cells(run("group", "pending", "jobs", "g"))
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        ("1-0", "ann", "1"),
        ("2-0", "ann", "1"),
        ("3-0", "ann", "1"),
        ("4-0", "bob", "1"),
    ]
    first = objects(run("group", "pending", "jobs", "g", "--json"))[0]
    assert (first["id"], first["consumer"], first["deliveries"]) == ("1-0", "ann", 1)
    assert first["idle_ms"] >= 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["2", "3"], ["2-0", "3-0"]),
        (["(2-0"], ["3-0", "4-0"]),
        (["-n", "2"], ["1-0", "2-0"]),
        (["-n", "0"], []),
        (["--consumer", "bob"], ["4-0"]),
        (["--consumer", "nobody"], []),
        (["--idle", "3600000"], []),
        (["--idle", "0", "-", "1"], ["1-0"]),
    ],
)
def test_pending_can_be_narrowed(run: Run, words: list[str], expected: list[str]) -> None:
    assert [entry["id"] for entry in objects(run("group", "pending", "jobs", "g", *words, "--json"))] == expected


def test_pending_goes_through_a_list_of_any_length(run: Run, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diskstream.cli.group.pending._AT_ONCE", 2)
    ids = ["1-0", "2-0", "3-0", "4-0"]
    assert [entry["id"] for entry in objects(run("group", "pending", "jobs", "g", "--json"))] == ids
    printed = run("group", "pending", "jobs", "g").stdout
    assert printed.count("consumer") == 1
    assert [line.split()[0] for line in printed.splitlines()] == ["ID", *ids]


def test_pending_shows_what_was_given_back_as_nobodys(run: Run, directory: Path) -> None:
    with diskstream.open(directory) as store:
        store.stream("jobs").group("g").nack("2-0")
    assert cells(run("group", "pending", "jobs", "g", "2", "2")) == [["2-0", "1"]]
    (given_back,) = objects(run("group", "pending", "jobs", "g", "2", "2", "--json"))
    assert (given_back["consumer"], given_back["idle_ms"]) == ("", -1)


def test_the_summary_of_pending_counts_for_each_consumer(run: Run) -> None:
    first, *rest = run("group", "pending", "jobs", "g", "--summary").stdout.splitlines()
    assert first == "4 pending, from 1-0 to 4-0"
    assert [line.split() for line in rest] == [["consumer", "pending"], ["ann", "3"], ["bob", "1"]]
    (facts,) = objects(run("group", "pending", "jobs", "g", "--summary", "--json"))
    holders = [{"consumer": "ann", "pending": 3}, {"consumer": "bob", "pending": 1}]
    assert facts == {"total": 4, "first": "1-0", "last": "4-0", "consumers": holders}
    run("group", "create", "jobs", "idle")
    assert run("group", "pending", "jobs", "idle", "--summary").stdout == "0 pending\n"


def test_consumer_ls_lists_consumers(run: Run, directory: Path) -> None:
    with diskstream.open(directory) as store:
        store.stream("jobs").group("g").create_consumer("cid")
    rows = cells(run("consumer", "ls", "jobs", "g"))
    assert [row[:2] for row in rows] == [["ann", "3"], ["bob", "1"], ["cid", "0"]]
    assert rows[2][-2:] == ["never", "active"]
    ann, _, cid = objects(run("consumer", "ls", "jobs", "g", "--json"))
    assert (ann["stream"], ann["group"], ann["consumer"], ann["pending"]) == ("jobs", "g", "ann", 3)
    assert cid["active_ms"] is cid["inactive_ms"] is None


def test_looking_changes_nothing_and_works_beside_a_writer(run: Run, directory: Path) -> None:
    def log_bytes() -> bytes:
        return b"".join(path.read_bytes() for path in sorted((directory / "streams").rglob("*.log")))

    with diskstream.open(directory) as store:
        group = store.stream("jobs").group("g")
        group.consumer("ann").read(count=1)
        before = log_bytes()
        assert objects(run("group", "info", "jobs", "g", "--json"))[0]["pending"] == 5
        for words in (["group", "ls"], ["group", "pending", "jobs", "g"], ["consumer", "ls", "jobs", "g"]):
            run(*words)
        run("group", "destroy", "jobs", "g", "--dry-run")
        run("consumer", "rm", "jobs", "g", "ann", "--dry-run")
        assert log_bytes() == before
        assert group.pending().total == 5


# --- making and moving ------------------------------------------------------------------------------------------------


def test_create_prints_where_the_group_begins(run: Run) -> None:
    assert run("group", "create", "jobs", "end").stdout == "5-0\n"
    assert run("group", "create", "jobs", "all", "--start", "0").stdout == "0-0\n"
    facts = {"stream": "jobs", "group": "mid", "last_delivered_id": "2-0", "entries_read": 2}
    created = run("group", "create", "jobs", "mid", "--start", "2-0", "--entries-read", "2", "--json")
    assert objects(created) == [facts]


def test_create_makes_a_stream_only_when_told_to(run: Run) -> None:
    failed = run("group", "create", "new", "g", code=1)
    assert failed.stderr.startswith("error: there is no stream new in ")
    assert "hint: --mkstream makes it" in failed.stderr
    assert run("group", "create", "new", "g", "--mkstream").stdout == "0-0\n"
    assert run("len", "new").stdout == "0\n"


def test_a_group_that_is_there_already_is_left_alone(run: Run) -> None:
    failed = run("group", "create", "jobs", "g", "--start", "0", code=1)
    assert "error: stream jobs has a group g already" in failed.stderr
    assert "hint: diskstream group set-id moves it" in failed.stderr
    assert objects(run("group", "info", "jobs", "g", "--json"))[0]["last_delivered_id"] == "4-0"


def test_set_id_moves_a_group(run: Run) -> None:
    assert run("group", "set-id", "jobs", "g", "$").stdout == "5-0\n"
    assert run("group", "set-id", "jobs", "g", "-").stdout == "0-0\n"
    (facts,) = objects(run("group", "set-id", "jobs", "g", "3-0", "--entries-read", "3", "--json"))
    assert facts == {"stream": "jobs", "group": "g", "last_delivered_id": "3-0", "entries_read": 3}
    (info,) = objects(run("group", "info", "jobs", "g", "--json"))
    assert (info["lag"], info["pending"]) == (2, 4)


# --- claiming ---------------------------------------------------------------------------------------------------------


def owners(run: Run) -> dict[str, str]:
    return {entry["id"]: entry["consumer"] for entry in objects(run("group", "pending", "jobs", "g", "--json"))}


def test_claim_takes_the_entries_with_these_ids_and_prints_them(run: Run) -> None:
    assert run("group", "claim", "jobs", "g", "cid", "2-0", "4", "5-0").stdout == "2-0  job=2\n4-0  job=4\n"
    assert owners(run) == {"1-0": "ann", "2-0": "cid", "3-0": "ann", "4-0": "cid"}
    (facts,) = objects(run("group", "claim", "jobs", "g", "ann", "2-0", "--json"))
    assert facts.pop("idle_ms") >= 0
    assert facts == {"id": "2-0", "fields": {"job": "2"}, "deliveries": 2}


def test_claim_takes_what_is_idle(run: Run) -> None:
    assert run("group", "claim", "jobs", "g", "cid", "--min-idle", "3600000").stdout == ""
    assert run("group", "claim", "jobs", "g", "cid", "1-0", "--min-idle", "3600000").stdout == ""
    assert set(owners(run).values()) == {"ann", "bob"}
    assert run("group", "claim", "jobs", "g", "cid", "--min-idle", "0", "-n", "3").stdout.count("\n") == 3
    assert owners(run) == {"1-0": "cid", "2-0": "cid", "3-0": "cid", "4-0": "bob"}


def test_claim_goes_through_a_list_of_any_length(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diskstream.cli.group.claim._AT_ONCE", 1)
    assert len(objects(run("group", "claim", "jobs", "g", "cid", "--min-idle", "0", "--json"))) == 4
    assert set(owners(run).values()) == {"cid"}


@pytest.mark.parametrize("which", [["3-0"], ["--min-idle", "0"]])
def test_claiming_ids_alone_is_no_delivery(run: Run, which: list[str]) -> None:
    printed = run("group", "claim", "jobs", "g", "cid", *which, "--justid").stdout.splitlines()
    assert "3-0" in printed
    (entry,) = objects(run("group", "pending", "jobs", "g", "3", "3", "--json"))
    assert (entry["consumer"], entry["deliveries"]) == ("cid", 1)
    assert {"id": "3-0"} in objects(run("group", "claim", "jobs", "g", "cid", *which, "--justid", "--json"))


def test_what_is_gone_from_the_stream_goes_from_the_list_when_claimed(run: Run) -> None:
    run("del", "jobs", "2-0", "--force")
    claimed = run("group", "claim", "jobs", "g", "cid", "--min-idle", "0", "--json")
    assert [entry["id"] for entry in objects(claimed)] == ["1-0", "3-0", "4-0"]
    assert claimed.stderr == "1 pending entry is gone from the stream: it was taken off the list\n"
    assert "2-0" not in owners(run)


# --- taking away ------------------------------------------------------------------------------------------------------

DESTROY = ["group", "destroy", "jobs", "g"]
REMOVE = ["consumer", "rm", "jobs", "g", "ann"]
GROUP_OF_THEM = "group g of stream jobs"


@pytest.mark.parametrize(
    ("words", "question"),
    [
        (DESTROY, f"Destroy {GROUP_OF_THEM} (2 consumers, 4 pending entries)? [y/N]: "),
        (REMOVE, f"Remove consumer ann of {GROUP_OF_THEM} (3 pending entries)? [y/N]: "),
    ],
)
def test_taking_away_is_asked_about(run: Run, words: list[str], question: str) -> None:
    before = owners(run)
    refused = run(*words, given="n\n", code=1)
    assert question in refused.stderr
    assert refused.stderr.endswith("error: nothing was done\n")
    unanswered = run(*words, code=1)
    assert "error: there was no answer, so nothing was done" in unanswered.stderr
    assert "hint: --force does it without asking" in unanswered.stderr
    assert refused.stdout == unanswered.stdout == ""
    assert owners(run) == before
    agreed = run(*words, given="y\n")
    assert question in agreed.stderr
    assert agreed.stdout.startswith(("destroyed group g", "removed consumer ann"))


def test_destroy_removes_the_group_and_keeps_the_entries(run: Run) -> None:
    extent = "2 consumers, 4 pending entries"
    assert run(*DESTROY, "--dry-run").stdout == f"would destroy {GROUP_OF_THEM}: {extent}\n"
    facts = {"stream": "jobs", "group": "g", "consumers": 2, "pending": 4}
    assert objects(run(*DESTROY, "--dry-run", "--force", "--json")) == [{**facts, "destroyed": False}]
    assert objects(run(*DESTROY, "--force", "--json")) == [{**facts, "destroyed": True}]
    assert run("group", "ls").stdout == ""
    assert run("len", "jobs").stdout == "5\n"


def test_rm_removes_the_consumer_with_what_it_has(run: Run) -> None:
    what = f"consumer ann of {GROUP_OF_THEM}: 3 pending entries\n"
    assert run(*REMOVE, "--dry-run").stdout == f"would remove {what}"
    assert len(owners(run)) == 4
    assert run(*REMOVE, "--force").stdout == f"removed {what}"
    assert owners(run) == {"4-0": "bob"}
    (facts,) = objects(run("consumer", "rm", "jobs", "g", "bob", "--force", "--json"))
    assert facts == {"stream": "jobs", "group": "g", "consumer": "bob", "pending": 1, "removed": True}


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "shown"),
    [(b"[red]x", "[red]x"), (b"a b", '"a b"'), (b"\x1b[31m\xff", '"\\x1b[31m\\xff"'), (b"", '""')],
)
def test_names_are_shown_so_that_they_do_no_harm(run: Run, directory: Path, name: bytes, shown: str) -> None:
    argument = os.fsdecode(name)
    with diskstream.open(directory) as store:
        store.stream("jobs").create_group(name, "0").consumer(name).read(count=1)
    assert any(f" {shown} " in line for line in run("group", "ls").stdout.splitlines())
    words = ("jobs", argument)
    shown_by_all = [
        run("group", "info", *words).stdout,
        run("group", "pending", *words).stdout,
        run("group", "pending", *words, "--summary").stdout,
        run("consumer", "ls", *words).stdout,
        run("group", "destroy", *words, "--dry-run").stdout,
        run("consumer", "rm", *words, argument, given="n\n", code=1).stderr,
        run("consumer", "rm", *words, argument, "--force").stdout,
    ]
    for printed in shown_by_all:
        assert shown in printed
        assert "\x1b" not in printed
    (info,) = objects(run("group", "info", *words, "--json"))
    assert info["group"].encode("utf-8", "surrogateescape") == name


# --- what goes wrong --------------------------------------------------------------------------------------------------

ON_A_GROUP = [
    ["group", "info", "STREAM", "GROUP"],
    ["group", "destroy", "STREAM", "GROUP", "--force"],
    ["group", "destroy", "STREAM", "GROUP", "--dry-run"],
    ["group", "set-id", "STREAM", "GROUP", "0"],
    ["group", "pending", "STREAM", "GROUP"],
    ["group", "pending", "STREAM", "GROUP", "--summary", "--json"],
    ["group", "claim", "STREAM", "GROUP", "ann", "1-0"],
    ["consumer", "ls", "STREAM", "GROUP"],
    ["consumer", "rm", "STREAM", "GROUP", "ann", "--force"],
]


@pytest.mark.parametrize("words", [["group", "ls", "STREAM"], *ON_A_GROUP])
def test_a_stream_that_is_not_there_is_an_error_with_a_hint(run: Run, words: list[str]) -> None:
    result = run(*({"STREAM": "jabs", "GROUP": "g"}.get(word, word) for word in words), code=1)
    assert result.stderr.startswith("error: there is no stream jabs in ")
    assert "hint: diskstream ls lists the streams" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("words", ON_A_GROUP)
def test_a_group_that_is_not_there_is_an_error_with_a_hint(run: Run, words: list[str]) -> None:
    result = run(*({"STREAM": "jobs", "GROUP": "h"}.get(word, word) for word in words), code=1)
    assert result.stderr.startswith("error: there is no group h of stream jobs in ")
    assert "hint: diskstream group ls jobs lists the groups" in result.stderr
    assert result.stdout == ""
    assert len(cells(run("group", "ls"))) == 1


def test_a_consumer_that_is_not_there_is_an_error_with_a_hint(run: Run) -> None:
    for consent in ("--force", "--dry-run"):
        result = run("consumer", "rm", "jobs", "g", "anne", consent, code=1)
        assert f"error: there is no consumer anne of {GROUP_OF_THEM} in " in result.stderr
        assert "hint: diskstream consumer ls jobs g lists the consumers" in result.stderr


def test_a_store_that_is_not_there_is_an_error_and_is_not_made(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    for verb in (["group", "ls"], ["group", "create", "s", "g", "--mkstream"], ["consumer", "ls", "s", "g"]):
        result = CliRunner().invoke(main, [*verb, "--dir", str(missing)])
        assert result.exit_code == 1, result.output
        assert result.stderr.startswith("error: ")
    assert not missing.exists()


def test_what_the_library_refuses_is_an_error(run: Run) -> None:
    assert run("group", "create", "jobs", "x" * 65_536, code=1).stderr.startswith("error: ")


@pytest.mark.parametrize(
    "words",
    [
        ["group", "create", "jobs", "h", "--start", "one"],
        ["group", "set-id", "jobs", "g", "one"],
        ["group", "pending", "jobs", "g", "one"],
        ["group", "claim", "jobs", "g", "ann", "one"],
        ["group"],
        ["consumer"],
        ["group", "nonsense"],
        ["group", "info", "jobs"],
        ["group", "create", "jobs"],
        ["group", "create", "jobs", "h", "--entries-read", "-2"],
        ["group", "set-id", "jobs", "g"],
        ["group", "claim", "jobs", "g", "ann"],
        ["group", "claim", "jobs", "g", "ann", "1-0", "-n", "1"],
        ["group", "claim", "jobs", "g", "ann", "--min-idle", "-1"],
        ["group", "pending", "jobs", "g", "--summary", "1"],
        ["group", "pending", "jobs", "g", "--summary", "--consumer", "ann"],
        ["group", "pending", "jobs", "g", "--idle", "soon"],
        ["group", "pending", "jobs", "g", "--idle", str(2**63)],
        ["group", "claim", "jobs", "g", "ann", "--min-idle", str(2**63)],
        ["group", "create", "jobs", "h", "--entries-read", str(2**63)],
        ["consumer", "ls", "jobs"],
        ["consumer", "rm", "jobs", "g"],
    ],
)
def test_wrong_usage_has_status_2(run: Run, words: list[str]) -> None:
    result = run(*words, code=2)
    assert result.stderr
    assert result.stdout == ""


def test_every_verb_has_help(run: Run) -> None:
    for thing, verbs in (("group", GROUP_VERBS), ("consumer", CONSUMER_VERBS)):
        assert f"\n  {thing} " in run("--help").stdout
        listed = run(thing, "--help").stdout
        for verb in verbs:
            assert f"\n  {verb} " in listed
            assert "Usage:" in run(thing, verb, "--help").stdout
        assert "..." not in listed.partition("Commands:")[2]


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (0, "0 ms"),
        (1999, "1999 ms"),
        (2000, "2.0 s"),
        (119_000, "119.0 s"),
        (150_000, "2.5 min"),
        (7_200_000, "2.0 h"),
        (172_800_000, "2.0 d"),
        (10**12, "11,574.1 d"),
    ],
)
def test_durations_have_the_unit_that_suits_them(ms: int, shown: str) -> None:
    assert duration(ms) == shown


def test_columns_of_what_is_pending_are_as_wide_as_they_must(run: Run, directory: Path) -> None:
    name = "a-consumer-with-a-name-of-its-own"
    with diskstream.open(directory) as store:
        jobs = store.stream("wide")
        jobs.add_many([{"n": n} for n in range(2)], ids=["1-0", f"{2**63}-{2**63}"])
        jobs.group("g", start="0").consumer(name).read()
    head, *rows = run("group", "pending", "wide", "g").stdout.splitlines()
    assert head.split() == ["ID", "consumer", "idle", "deliveries"]
    assert {row.index(name) for row in rows} == {head.index("consumer")}
    assert {len(row) for row in rows} == {len(head)}
