"""`diskstream bench`: it measures what it says, says on what, and leaves nothing behind. No figure is judged here."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from diskstream.cli import main
from diskstream.cli.bench.cases import CASES, POLICIES, Bounds
from diskstream.cli.bench.machine import file_system

TINY = ("--seconds", "0.01", "--entries", "300", "--rounds", "2")


def bench(parent: Path, *words: str, code: int = 0) -> Result:
    done = CliRunner().invoke(main, ["bench", *TINY, "-d", str(parent), *words])
    assert done.exit_code == code, done.output
    assert list(parent.iterdir()) == []
    return done


def test_each_case_under_each_policy_as_json(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in bench(tmp_path, "--json").stdout.splitlines()]
    assert {(row["case"], row["fsync"]) for row in rows} == {(case.name, fsync) for case in CASES for fsync in POLICIES}
    for row in rows:
        assert row["rounds"] == 2
        assert 0 < row["least_per_s"] <= row["entries_per_s"] <= row["most_per_s"]
        assert row["machine"]["file system"] == file_system(tmp_path)


def test_the_table_says_what_it_was_measured_on(tmp_path: Path) -> None:
    shown = bench(tmp_path, "add", "range", "--fsync", "os").stdout
    assert "kernel: Linux" in shown
    assert f"file system: {file_system(tmp_path)}" in shown
    assert [line.split()[:2] for line in shown.splitlines()[-2:]] == [["add", "os"], ["range", "os"]]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_reached_first_ends_a_round(case: object, tmp_path: Path) -> None:
    assert isinstance(case, type(CASES[0]))
    assert case.measure(tmp_path / "few", "os", Bounds(60.0, 250, 10)) > 0
    assert case.measure(tmp_path / "short", "os", Bounds(0.001, 10_000, 10)) > 0
    assert list(tmp_path.iterdir()) == []


def test_told_to_end_it_leaves_nothing_behind(tmp_path: Path) -> None:
    program = "import sys; from diskstream.cli import main; main(sys.argv[1:])"
    words = [sys.executable, "-c", program, "bench", "-d", str(tmp_path), "--seconds", "60", "--entries", "1000000"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while not list(tmp_path.rglob("*.log")):
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words", [["nothing"], ["--fsync", "never"], ["--rounds", "0"], ["--entries", "1"], ["--seconds", "nan"]]
)
def test_wrong_usage(tmp_path: Path, words: list[str]) -> None:
    bench(tmp_path, *words, code=2)


def test_a_place_that_is_not_there(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["bench", "-d", str(tmp_path / "none")])
    assert done.exit_code == 2


def test_a_disk_is_not_filled_by_mistake(tmp_path: Path) -> None:
    done = bench(tmp_path, "--entries", "10000000", "--value-bytes", "1048576", code=1)
    assert "are free" in done.stderr
