"""What the fuzzer says is counted, and what it died of is told with its input."""

import sys
from pathlib import Path

import pytest

from tests.fuzz import libfuzzer
from tests.torture import fuzz
from tests.torture.model import Budget, Report


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in that says what libFuzzer says; it dies of the target `trim`."""
    monkeypatch.setattr(libfuzzer, "FOUND", tmp_path / "found")
    monkeypatch.setattr(libfuzzer, "GROWN", tmp_path / "grown")
    stand_in = tmp_path / "stand-in"
    stand_in.write_text(
        f"#!{sys.executable}\n"
        "import os, pathlib, sys\n"
        "target = os.environ['FUZZ_TARGET']\n"
        "given = dict(each.split('=', 1) for each in sys.argv[1:] if each.startswith('-'))\n"
        "print('stat::number_of_executed_units: 1234', file=sys.stderr)\n"
        "if target == 'trim' or target.startswith('planted'):\n"
        "    pathlib.Path(given['-artifact_prefix'] + 'crash-01').write_bytes(b'x')\n"
        "    print('==7== ERROR: AddressSanitizer: heap-buffer-overflow', file=sys.stderr)\n"
        "    sys.exit(77)\n"
    )
    stand_in.chmod(0o755)
    return stand_in


def test_inputs_are_counted_and_a_crash_is_told_with_its_input(program: Path, tmp_path: Path) -> None:
    assert libfuzzer.fuzz(program, "rows", 1.0, 1) == libfuzzer.Outcome("rows", 1234)
    died = libfuzzer.fuzz(program, "trim", 1.0, 1)
    assert died.executed == 1234
    assert "AddressSanitizer: heap-buffer-overflow" in died.fault
    assert str(tmp_path / "found" / "trim" / "crash-01") in died.fault


def test_a_part_tells_what_it_found(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libfuzzer, "build", lambda: program)
    monkeypatch.setattr(fuzz, "_edges", lambda *_: None)
    report = fuzz.run(Budget(1, 60.0))
    assert report.tried["inputs of the core"] == 1234 * len(libfuzzer.targets())
    assert report.outcomes["a planted mistake, seen"] == len(libfuzzer.PLANTED)
    assert len(report.violations) == 1
    assert report.violations[0].startswith("trim: ")


def test_a_fuzzer_that_sees_nothing_is_a_violation(program: Path) -> None:
    program.write_text(f"#!{sys.executable}\n")
    report = Report("fuzz", 1)
    fuzz._planted(report, program, 1)
    assert len(report.violations) == len(libfuzzer.PLANTED)


def test_where_it_cannot_be_built_the_edges_are_tried_and_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise libfuzzer.NotBuiltError("there is no cargo")

    monkeypatch.setattr(libfuzzer, "build", none)
    monkeypatch.setattr(fuzz, "_edges", lambda report, *_: report.tried.update(["inputs of Python edges"]))
    report = fuzz.run(Budget(1, 1.0))
    assert report.skipped == ["the targets of the core: there is no cargo"]
    assert report.tried["inputs of Python edges"] == 1
