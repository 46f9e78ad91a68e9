"""The benchmarks run, print and write what they say. No figure is judged here: `python -m bench` does that."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import pictures, render
from bench.context import CHECKOUT, NOT_A_DISK, file_system
from bench.model import Figure, Row, Target, percentile
from tests.spark import quick_java

TINY = ("--seconds", "0.02", "--rounds", "2", "--entries", "1000", "--wakes", "3", "--pending", "2000", "--quiet")

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        file_system(CHECKOUT) in NOT_A_DISK, reason="the checkout is in memory, and there is no disk to measure"
    ),
]


def bench(*arguments: str) -> str:
    """Runs the suite and returns what it printed."""
    command = [sys.executable, "-m", "bench", *TINY, *arguments]
    quick = os.environ | {"SPARK_SUBMIT_OPTS": quick_java.options()}
    done = subprocess.run(command, cwd=CHECKOUT, env=quick, capture_output=True, text=True, timeout=840, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def scratch() -> set[Path]:
    return set((CHECKOUT / "bench").glob(".data-*"))


def well_formed(run: dict[str, Any]) -> None:
    """Every row has figures above zero, and a verdict exactly where it has a target."""
    assert run["format"] == 1
    assert run["machine"]["kernel"]
    for subject in run["subjects"]:
        assert subject["title"]
        assert subject["method"]
        assert subject["rows"] or subject["skipped"]
        for row in subject["rows"]:
            for figure in filter(None, (row["ours"], row["peer"])):
                assert figure["samples"]
                assert all(math.isfinite(sample) and sample > 0 for sample in figure["samples"])
            assert (row["verdict"] in ("met", "missed")) == (row["target"] is not None)
            assert row["kind"] == ("gate" if row["target"] else "informational")


def test_the_suite_runs_and_its_page_is_rendered(tmp_path: Path) -> None:
    before = scratch()
    figures = tmp_path / "run.json"
    printed = bench("--json", str(figures))
    run = json.loads(figures.read_text(encoding="utf-8"))
    well_formed(run)
    names = [subject["name"] for subject in run["subjects"]]
    assert names == [
        "add",
        "add_many",
        "batches",
        "always",
        "processes",
        "range",
        "wakeup",
        "groups",
        "group_latency",
        "queues",
        "pending",
        "growth",
        "profiles",
        "sizes",
        "codecs",
        "maintenance",
        "backup",
        "archive",
        "server",
        "server_latency",
        "spark",
    ]
    assert all(f"\n{name}: " in f"\n{printed}" for name in names)
    assert scratch() <= before, "data was left behind"

    page = tmp_path / "performance.md"
    assert render.main([str(figures), "--out", str(page), "--chart"]) == 0
    text = page.read_text(encoding="utf-8")
    assert all(f"({name})" in text for name in ("performance.svg", "performance-lines.svg"))
    lines = (tmp_path / "performance-lines.svg").read_text(encoding="utf-8")
    assert lines.count('id="axes_') == len(pictures.CHARTS)
    assert all(subject["title"] in text for subject in run["subjects"])
    assert str(CHECKOUT) not in text
    assert str(tmp_path) not in text


def test_the_large_store_runs_by_its_own_command(tmp_path: Path) -> None:
    figures = tmp_path / "large.json"
    assert "open after a crash at 20,000" in bench("--large", "20000", "--json", str(figures))
    run = json.loads(figures.read_text(encoding="utf-8"))
    well_formed(run)
    assert [subject["name"] for subject in run["subjects"]] == ["large"]


def test_one_subject_can_be_asked_for() -> None:
    printed = bench("--only", "wakeup")
    assert "wakeup: " in printed
    assert "sizes: " not in printed


@pytest.mark.parametrize(
    "wrong",
    [
        ("--only", "nothing"),
        ("--rounds", "0"),
        ("--large", "5"),
        ("--entries", "1"),
        ("--pending", "1"),
        ("--per-second", "0"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong: tuple[str, str]) -> None:
    command = [sys.executable, "-m", "bench", *wrong]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "error:" in done.stderr


def test_a_ratio_is_taken_round_by_round() -> None:
    row = Row("case", Figure("entries/s", (10.0, 40.0, 90.0)), "peer", Figure("entries/s", (10.0, 20.0, 30.0)))
    assert row.ratio is not None
    assert row.ratio.samples == (1.0, 2.0, 3.0)
    assert row.ratio.median == 2.0
    assert row.verdict == ""


@pytest.mark.parametrize(
    ("target", "verdict"),
    [
        (Target("figure", at_least=20), "met"),
        (Target("figure", at_least=20, worst=True), "missed"),
        (Target("figure", at_most=20), "met"),
        (Target("figure", at_most=20, worst=True), "missed"),
        (Target("ratio", at_least=2), "met"),
        (Target("ratio", at_least=2.1), "missed"),
    ],
)
def test_verdicts(target: Target, verdict: str) -> None:
    row = Row("case", Figure("ms", (10.0, 20.0, 30.0)), "peer", Figure("ms", (10.0, 10.0, 10.0)), target)
    assert row.verdict == verdict
    assert Row.from_json(row.as_json()) == row


def test_percentiles() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([3.0, 1.0, 2.0], 1.0) == 3.0
    assert percentile([5.0], 0.01) == 5.0
