"""IDs and times on the command line: what one verb takes, all take; what is none is wrong usage."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import diskstream
from diskstream.cli import main

Run = Callable[..., Result]
TIME = "1970-01-01T00:00:00.003Z"  # the third of the entries


@pytest.fixture
def run(tmp_path: Path) -> Run:
    with diskstream.open(tmp_path / "store") as store:
        for number in range(1, 6):
            store.stream("s").add({"n": number}, f"{number}-0")
        store.stream("s").group("g", start="0").consumer("c").read()

    def run_verb(*words: str, code: int = 0) -> Result:
        result = CliRunner().invoke(main, list(words), env={"DISKSTREAM_DIR": str(tmp_path / "store")})
        assert result.exit_code == code, result.output
        return result

    return run_verb


@pytest.mark.parametrize(
    "words",
    [
        ("add", "s", "n=6", "--id"),
        ("cold", "fetch", "--from"),
        ("cold", "fetch", "--until"),
        ("cold", "move", "--to", "file:///nowhere", "--before"),
        ("count", "s"),
        ("del", "s", "--force"),
        ("del", "s", "--force", "1-0"),
        ("group", "claim", "s", "g", "d"),
        ("group", "create", "s", "h", "--start"),
        ("group", "pending", "s", "g"),
        ("group", "set-id", "s", "g"),
        ("range", "s"),
        ("replay", "s", "--to", "-", "--start"),
        ("restore", "--to", "redis://localhost:1", "--stream", "s", "--start"),
        ("trim", "s", "--minid"),
    ],
    ids=" ".join,
)
def test_what_is_no_id_is_wrong_usage_and_nothing_is_done(run: Run, words: tuple[str, ...]) -> None:
    """Half of the verbs ended with status 1, which says that something failed."""
    assert "yesterday" in run(*words, "yesterday", code=2).stderr
    assert run("len", "s").stdout == "5\n"


@pytest.mark.parametrize(
    "words",
    [
        ("export", "s", "--end"),
        ("count", "s"),
        ("replay", "s", "--to", "-", "--start"),
        ("restore", ".", "--to", "x", "--until"),
        ("trim", "s", "--force", "--minid"),
        ("tail", "s", "--from"),
    ],
    ids=" ".join,
)
def test_a_month_is_not_taken_for_an_id(run: Run, words: tuple[str, ...]) -> None:
    """`--end 2024-05` was the ID 2024-5, of 1970: nothing was exported, with status 0."""
    told = " ".join(run(*words, "2024-05", code=2).stderr.split())
    assert "looks like a month" in told
    assert "write 2024-05-01 for the time, or 2024-5 for the ID" in told
    assert run("count", "s", "(2-5", "2024-5").stdout == "3\n"


RANGES = [
    ("count", "s", "{}", "{}"),
    ("export", "s", "--start", "{}", "--end", "{}"),
    ("group", "pending", "s", "g", "{}", "{}"),
    ("range", "s", "{}", "{}"),
    ("range", "s", "--reverse", "{}", "{}"),
    ("replay", "s", "--to", "-", "--start", "{}", "--end", "{}"),
    ("restore", "--to", "redis://localhost:1", "--stream", "s", "--start", "{}", "--end", "{}"),
]


def between(words: tuple[str, ...], start: str, end: str) -> list[str]:
    bounds = iter((start, end))
    return [next(bounds) if word == "{}" else word for word in words]


@pytest.mark.parametrize("words", RANGES, ids=" ".join)
@pytest.mark.parametrize(("start", "end"), [("5-0", "3-0"), ("4-2", "(4-0"), ("+", "-"), ("4", "3"), (TIME, "2")])
def test_a_range_that_is_the_wrong_way_round_is_wrong_usage(
    run: Run, words: tuple[str, ...], start: str, end: str
) -> None:
    """It was empty, with status 0: bounds in the order of XREVRANGE had a script believe that nothing was there."""
    told = " ".join(run(*between(words, start, end), code=2).stderr.split())
    assert "the range is reversed" in told
    assert "give the lower bound first" in told


@pytest.mark.parametrize("verb", ["archive --archive x", "reconcile --archive x", "replay --from ."])
def test_so_it_is_for_jobs_of_spark(run: Run, verb: str) -> None:
    told = run("spark", *verb.split(), "--start", "5-0", "--end", "3-0", code=2).stderr
    assert "the range is reversed" in " ".join(told.split())


@pytest.mark.parametrize("words", [each for each in RANGES if each[0] != "restore"], ids=" ".join)
@pytest.mark.parametrize(("start", "end"), [("(5-0", "5-0"), ("(5-0", "(5-0"), ("5-1", "5-0"), ("7", "+"), ("-", "0")])
def test_a_range_that_holds_nothing_is_no_mistake(run: Run, words: tuple[str, ...], start: str, end: str) -> None:
    """Whoever reads page by page comes to one that begins behind the last entry."""
    shown = run(*between(words, start, end)).stdout
    assert shown in ("", "0\n") or words[0] == "group"


def test_times_are_taken_wherever_a_range_begins_or_ends(run: Run) -> None:
    """The help of `group pending` says that its range is that of `range`, which takes times."""
    assert len(run("range", "s", TIME).stdout.splitlines()) == 3
    pending = run("group", "pending", "s", "g", TIME, "--json").stdout
    assert len(pending.splitlines()) == 3
    assert len(run("group", "pending", "s", "g", "-", TIME, "--json").stdout.splitlines()) == 3
    assert "0 segments" in run("cold", "fetch", "s", "--from", TIME, "--until", TIME, "--dry-run").stdout
    assert run("trim", "s", "--minid", TIME, "--dry-run").stdout == "would drop 2 of 5 entries\n"
    for bound in ("-", "+", "(3"):
        run("trim", "s", "--minid", bound, "--force", code=2)
    assert run("trim", "s", "--minid", TIME, "--force").stdout == "2\n"


def test_a_stream_that_is_there_is_not_restored_over_and_the_way_out_is_a_word_of_this_verb(
    run: Run, tmp_path: Path
) -> None:
    run("backup", str(tmp_path / "kept"))
    words = ("restore", str(tmp_path / "kept"), "--to", str(tmp_path / "store"), "--stream", "s")
    refused = run(*words, code=1).stderr
    assert "hint: --as" in refused
    assert "replace=" not in refused
    run(*words, "--as", "t")
    assert run("len", "t").stdout == "5\n"


def test_an_id_that_does_not_rise_is_told_with_the_last_one_and_a_way_out(run: Run) -> None:
    result = run("add", "s", "n=6", "--id", "4-0", code=1)
    assert "4-0 is not above 5-0, the last ID of stream s" in result.stderr
    assert "hint: IDs only rise: without --id the store chooses the next one" in result.stderr
    assert "-" in run("add", "s", "n=6").stdout


@pytest.mark.parametrize(("ids", "told"), [(["1-0"], "1 entry\n"), (["1-0", "2-0"], "2 entries\n")])
def test_what_would_be_deleted_is_counted_in_words(run: Run, ids: list[str], told: str) -> None:
    assert run("del", "s", *ids, "--dry-run").stdout == f"would delete {told}"
