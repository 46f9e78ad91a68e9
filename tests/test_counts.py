"""Instruction counts stay within 5 % of the recorded baseline: a time on a shared machine would prove nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.counts import baseline, measuring
from bench.counts.__main__ import NOTHING_TO_COMPARE, main, table
from bench.counts.dump import parse
from bench.counts.measuring import Count
from bench.counts.workloads import WORKLOADS

needs_valgrind = pytest.mark.skipif(measuring.missing() is not None, reason=str(measuring.missing()))

DUMP = """\
events: Ir
summary: 1207

ob=/usr/lib/libc.so.6
fn=memcpy
0 200
0 7
ob=/somewhere/diskstream/_native.abi3.so
fn=append
0 300
cob=/usr/lib/libc.so.6
cfn=memcpy
calls=3 0
0 207
0 700
"""


@needs_valgrind
@pytest.mark.timeout(900)
def test_no_workload_has_become_dearer(tmp_path: Path) -> None:
    recorded, now = baseline.load(), baseline.environment()
    before = baseline.here(recorded, now)
    if before is None:
        pytest.skip(f"no counts were recorded in such an environment: {baseline.differences(recorded, now)}")
    changes = baseline.compare(measuring.counts(tmp_path, list(WORKLOADS)), before)
    assert [each.name for each in changes if each.verdict == "dearer"] == [], table(changes)
    assert {each.name for each in changes} == set(before), "a workload came or went: python -m bench.counts --record"


@pytest.mark.parametrize(
    ("instructions", "verdict"),
    [(1049.0, ""), (1051.0, "dearer"), (951.0, ""), (949.0, "cheaper: record it")],
)
def test_a_change_is_judged_beside_the_baseline(instructions: float, verdict: str) -> None:
    (change,) = baseline.compare({"add": Count(instructions, 0.0)}, {"add": 1000.0})
    assert change.verdict == verdict


def test_a_workload_without_a_baseline_is_named() -> None:
    (change,) = baseline.compare({"add": Count(1.0, 0.0)}, {})
    assert change.verdict == "new: record it"


def test_a_cost_below_a_call_is_not_counted_twice() -> None:
    dump = parse(DUMP.splitlines())
    assert dump.instructions == 1207
    assert dump.objects() == {"libc.so.6": 207, "_native.abi3.so": 1000}
    assert dump.calls == {"memcpy": 3}


def test_a_baseline_counts_where_it_was_recorded_alone(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    here, other = {"valgrind": "3.19", "Python": "3.11"}, {"valgrind": "3.24", "Python": "3.11"}
    baseline.record([{"add": Count(100.0, 40.0)}] * 3, here, path)
    baseline.record([{"add": Count(90.0, 30.0)}] * 3, other, path)
    baseline.record([{"add": Count(80.0, 30.0)}] * 3, other, path)  # in place of the one before
    recorded = baseline.load(path)
    assert baseline.here(recorded, here) == {"add": 100.0}
    assert baseline.here(recorded, other) == {"add": 80.0}
    elsewhere = {"valgrind": "3.24", "Python": "3.13"}
    assert baseline.here(recorded, elsewhere) is None
    assert baseline.differences(recorded, elsewhere) == "Python 3.13, not 3.11"


def test_what_varies_is_not_recorded(tmp_path: Path) -> None:
    runs = [{"add": Count(100.0 + 2 * number, 40.0)} for number in range(3)]
    with pytest.raises(SystemExit, match="no measure"):
        baseline.record(runs, {}, tmp_path / "baseline.json")


def counted(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    """Has the command find counts that are `factor` times the recorded ones, without running anything."""
    recorded = baseline.load()[0]
    found = {name: Count(each["instructions"] * factor, 0.0) for name, each in recorded["workloads"].items()}
    monkeypatch.setattr("bench.counts.__main__.missing", lambda: None)
    monkeypatch.setattr("bench.counts.__main__.counts", lambda scratch, names: {name: found[name] for name in names})
    monkeypatch.setattr(baseline, "environment", lambda: recorded["environment"])


@pytest.mark.parametrize(("factor", "code"), [(1.0, 0), (1.04, 0), (1.06, 1), (0.9, 0)])
def test_the_command_ends_with_1_above_5_percent(
    factor: float, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    counted(monkeypatch, factor)
    assert main(["--only", "add", "--only", "seek"]) == code
    assert ("dearer" in capsys.readouterr().out) == (code == 1)


def test_the_command_says_that_it_compared_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counted(monkeypatch, 2.0)
    path = tmp_path / "other.json"
    path.write_text(json.dumps({"format": 1, "baselines": []}), encoding="utf-8")
    assert main(["--only", "add", "--baseline", str(path)]) == NOTHING_TO_COMPARE
    assert "not compared" in capsys.readouterr().out
