"""Who types a command is told of commands: no method of Python, and no keyword argument."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import diskstream
from diskstream import errors
from diskstream.cli import main
from diskstream.cli.advice import for_command
from diskstream.cli.failure import Failure
from diskstream.engine.frames import frame_at
from tests.repair.test_cases import flip

PYTHON = re.compile(r"\b[A-Z]\w+\.\w+\(|\w+=(True|False|None)|\bNone\b|\bpass \w+=")

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a verb on a store whose stream `s` is damaged, and `t` has an entry that names a field twice."""
    store = tmp_path / "store"
    with diskstream.open(store, fsync="always") as made:
        for name in ("s", "t"):
            for number in range(1, 9):
                made.stream(name).add([("a", number), ("a", "twice")], f"{number}-0")
            made.stream(name).create_group("g", "0")
    log = store / "streams" / "s" / "00000001.log"
    first = frame_at(log.read_bytes(), 4096, None)
    assert first is not None
    flip(log, first.end + 80)

    def run_verb(*words: str, code: int = 1) -> Result:
        result = CliRunner().invoke(main, list(words), env={"DISKSTREAM_DIR": str(store)})
        assert result.exit_code == code, result.output
        assert not PYTHON.search(result.output.replace("--json", "")), result.output
        return result

    return run_verb


OF_DAMAGED = (
    "add s a=1, len s, info s, range s, tail s, count s - +, trim s --maxlen 0 --force, group ls s, group info s g, "
    "group create s h, consumer ls s g, export s, ls, seal, cold ls, retention show, retention apply --force, "
    "replay s --to -"
)


@pytest.mark.parametrize("words", OF_DAMAGED.split(", "))
def test_damage_is_told_with_the_verb_that_lists_it(run: Run, words: str) -> None:
    """It was Store.verify(), beside a hint that said the same of the verb."""
    assert run(*words.split()).stderr.count("diskstream verify lists all that is damaged") == 1


def test_what_reports_and_backups_keep_of_damage_is_told_so(run: Run, tmp_path: Path) -> None:
    backups = str(tmp_path / "backups")
    assert "diskstream verify" in run("backup", "create", backups).stderr
    assert "diskstream verify lists all" in run("backup", "verify", backups).stdout
    run("backup", "verify", backups, "--json")
    run("backup", "create", backups, "--json")
    assert "diskstream verify lists all" in run("restore", backups, "--to", str(tmp_path / "again")).stderr
    run("top", "--once", "--interval", "50ms", code=0)
    run("verify")
    run("repair", "--dry-run")
    run("inspect", "s", "--entries", code=0)


@pytest.mark.parametrize("words", ["--format csv", "--format csv --columns a", "--format parquet --columns a -o x.pq"])
def test_a_field_named_twice_is_told_with_the_option(
    run: Run, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = run("export", "t", *words.split()).stderr
    assert "entry 1-0 holds the field a twice: --duplicates first or last says which counts" in said


def test_a_limit_of_a_rule_is_told_as_that_of_an_option(run: Run) -> None:
    said = run("retention", "set", "t", "--max-entries", str(2**63), "--force", code=2).stderr
    assert "--max-entries" in said
    run("retention", "set", "t", "--max-entries", str(2**63 - 1), "--force", code=0)


@pytest.mark.parametrize(
    "error",
    [
        errors.CorruptionError("x.log", "frame", 1, "a", "b"),
        errors.StreamExistsError(b"s"),
        errors.NoGroupError(b"s", b"g"),
        errors.NoGroupError(b"s", b"g", "XGROUP", no_stream=True),
        errors.GroupExistsError(b"s", b"g"),
        errors.NoSuchStreamError(b"s"),
        errors.IDExhaustedError(),
        errors.ClosedError("the store"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_no_error_tells_of_python(error: diskstream.DiskstreamError) -> None:
    assert not PYTHON.search(for_command(str(error)))
    failure = Failure(str(error), hint=getattr(error, "hint", None))
    assert not PYTHON.search(f"{failure.message} {failure.hint or ''}")


def test_json_of_a_report_says_the_same(run: Run, tmp_path: Path) -> None:
    backups = str(tmp_path / "backups")
    run("backup", "create", backups)
    found = [json.loads(line) for line in run("backup", "verify", backups, "--json").stdout.splitlines()]
    assert any("diskstream verify lists all" in each.get("what", "") for each in found)
