"""`count`, `rename`, `rm`, and what `trim` and `del` ask before they do it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import diskstream
from diskstream.cli import main

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a verb on a store whose stream `s` has five entries and a group, and `t` two entries."""
    with diskstream.open(tmp_path / "store") as store:
        store.stream("s").add_many([{"n": n} for n in range(1, 6)], ids=[f"{n}-0" for n in range(1, 6)])
        store.stream("s").create_group("g", "0")
        store.stream("t").add_many([{"t": 1}, {"t": 2}])

    def run_verb(*words: str, code: int = 0, given: str | None = None) -> Result:
        result = CliRunner().invoke(main, list(words), input=given, env={"DISKSTREAM_DIR": str(tmp_path / "store")})
        assert result.exit_code == code, result.output
        return result

    return run_verb


def streams(run: Run) -> dict[str, int]:
    return {each["stream"]: each["length"] for each in map(json.loads, run("ls", "--json").stdout.splitlines())}


# --- count ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], 5),
        (["2"], 4),
        (["2", "4"], 3),
        (["(2-0", "(4-0"], 1),
        (["-", "1970-01-01T00:00:00.003Z"], 3),
        (["9"], 0),
        (["2026-01-31"], 0),
    ],
)
def test_count_counts_a_range_of_ids_or_of_time(run: Run, words: list[str], expected: int) -> None:
    assert run("count", "s", *words).stdout == f"{expected}\n"
    assert json.loads(run("count", "s", *words, "--json").stdout)["count"] == expected


@pytest.mark.parametrize("words", [["nonsense"], ["1", "2-x"], ["2026-13-01"], ["(0-0x"], ["-", "(0-0"]])
def test_count_refuses_what_is_neither_an_id_nor_a_time(run: Run, words: list[str]) -> None:
    run("count", "s", *words, code=2)


# --- asking -----------------------------------------------------------------------------------------------------------

TAKING = [
    (["trim", "s", "--maxlen", "2"], "3", {"s": 2, "t": 2}),
    (["trim", "s", "--minid", "5"], "4", {"s": 1, "t": 2}),
    (["trim", "s", "--maxlen", "2", "--approximate"], "at most 3", {"s": 5, "t": 2}),
    (["del", "s", "1-0", "1-0", "2-0", "77-0"], "2", {"s": 3, "t": 2}),
    (["rm", "s"], "5", {"t": 2}),
    (["rm", "s", "t"], "5", {}),
    (["rename", "s", "t", "--replace"], "2", {"t": 5}),
]
taking = pytest.mark.parametrize(
    ("words", "extent", "after"), TAKING, ids=lambda given: " ".join(given) if isinstance(given, list) else ""
)


@taking
def test_what_is_taken_away_is_shown_asked_about_and_then_taken(
    run: Run, words: list[str], extent: str, after: dict[str, int]
) -> None:
    tried = run(*words, "--dry-run").stdout
    assert extent in tried
    assert "would" in tried
    refused = run(*words, given="n\n", code=1)
    assert extent in refused.stderr
    assert "nothing was done" in refused.stderr
    assert "--force does it without asking" in run(*words, given="", code=1).stderr
    assert streams(run) == {"s": 5, "t": 2}
    run(*words, given="y\ny\n")
    assert streams(run) == after


@taking
def test_forced_it_does_not_ask_and_says_in_json_what_it_did(
    run: Run, words: list[str], extent: str, after: dict[str, int]
) -> None:
    for line in run(*words, "--force", "--json").stdout.splitlines():
        assert json.loads(line)["stream"] in ("s", "t")
    assert streams(run) == after


def test_where_there_is_nothing_to_take_nobody_is_asked(run: Run) -> None:
    assert run("trim", "s", "--maxlen", "9").stdout == "0\n"
    assert run("del", "s", "77-0").stdout == "0\n"
    assert run("trim", "s", "--minid", "0-0").stdout == "0\n"


# --- rename, rm -------------------------------------------------------------------------------------------------------


def test_a_new_name_that_is_empty_is_wrong_usage(run: Run) -> None:
    """As it is where a stream is named; it ended with 1."""
    assert "Invalid value for 'NEW': it must not be empty" in run("rename", "s", "", code=2).stderr


def test_a_stream_is_renamed_with_its_groups(run: Run) -> None:
    assert run("rename", "s", "u").stdout == "renamed s to u\n"
    assert streams(run) == {"t": 2, "u": 5}
    assert json.loads(run("group", "ls", "u", "--json").stdout)["group"] == "g"
    facts = json.loads(run("rename", "u", "s", "--json").stdout)
    assert facts == {"stream": "u", "name": "s", "replaced_entries": None, "renamed": True}


def test_a_name_that_is_taken_is_not_taken_by_accident(run: Run) -> None:
    refused = run("rename", "s", "t", "--force", code=1)
    assert "there is a stream t" in refused.stderr
    assert "--replace" in refused.stderr
    assert streams(run) == {"s": 5, "t": 2}
    assert run("rename", "s", "s").stdout == "renamed s to s\n"


def test_a_stream_that_was_made_since_it_was_asked_is_not_replaced(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = diskstream.Store.rename

    def meanwhile(store: diskstream.Store, old: bytes, new: bytes, *, replace: bool) -> None:
        store.stream(new).add({"precious": 1})
        whole(store, old, new, replace=replace)

    monkeypatch.setattr(diskstream.Store, "rename", meanwhile)
    assert "there is a stream u" in run("rename", "s", "u", "--replace", "--force", code=1).stderr
    assert streams(run) == {"s": 5, "t": 2, "u": 1}


def test_one_that_is_not_there_keeps_the_others_from_being_removed(run: Run) -> None:
    assert "there is no stream x" in run("rm", "s", "x", "--force", code=1).stderr
    assert streams(run) == {"s": 5, "t": 2}


def test_a_damaged_stream_can_be_removed(run: Run, tmp_path: Path) -> None:
    (log,) = (tmp_path / "store" / "streams" / "s").glob("*.log")
    log.write_bytes(b"\xff" * 4096)
    assert "damaged" in run("rm", "s", "--dry-run").stdout
    run("rm", "s", "--force")
    assert streams(run) == {"t": 2}
