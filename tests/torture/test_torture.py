"""The torture runs, says what it tried, and its page is what its reports and its promises make."""

import json
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.crowd.checker import Verdict
from tests.crowd.scene import POLICIES, Scene
from tests.torture import __main__ as torture
from tests.torture import crowd, render
from tests.torture.model import Budget, Report
from tests.torture.parts import PARTS, run_of, summary_of
from tests.torture.promises import PROMISES


def test_the_page_is_what_its_reports_make() -> None:
    assert render.PAGE.read_text(encoding="utf-8") == render.render(render.load(render.KEPT))


def test_no_promise_is_broken_in_what_the_page_is_made_of() -> None:
    reports = render.load(render.KEPT)["reports"]
    assert [report["part"] for report in reports] == list(PARTS)
    assert [report["violations"] for report in reports] == [[] for _ in reports]
    assert all(sum(report["tried"].values()) for report in reports)


@pytest.mark.parametrize("promise", PROMISES, ids=[promise.text[:40] for promise in PROMISES])
def test_what_could_break_a_promise_exists(promise: object) -> None:
    assert isinstance(promise, type(PROMISES[0]))
    assert promise.tests
    for test in promise.tests:
        file, _, function = test.partition("::")
        source = (render.ROOT / file).read_text(encoding="utf-8")
        assert re.search(rf"(?:def|fn) {function}\b" if function else r"def test_", source), test
    assert set(promise.parts) <= set(PARTS)


def test_each_part_is_behind_some_promise() -> None:
    assert {part for promise in PROMISES for part in promise.parts} == set(PARTS)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", PARTS)
def test_a_short_form_of_each_part_finds_nothing(name: str) -> None:
    report = run_of(name)(Budget(seed=1, seconds=5.0, at_most=50))
    assert report.violations == []
    assert report.part == name
    assert sum(report.tried.values()) or report.skipped
    assert summary_of(name)


def test_a_crowd_plays_a_round_also_in_the_least_time_that_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of that a moment had passed by the time it was looked at: nothing was tried, and nothing was found."""

    def at_once(scene: Scene) -> tuple[Scene, Verdict]:
        return scene, Verdict(tried=Counter(entries=1))

    monkeypatch.setattr(crowd, "_round", at_once)
    monkeypatch.setattr(crowd, "ProcessPoolExecutor", lambda workers, _: ThreadPoolExecutor(workers))
    report = crowd.run(Budget(seed=1, seconds=crowd.LARGE_S))
    assert report.tried["entries"] == len(POLICIES)


def test_a_broken_promise_ends_with_one_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def breaks(budget: Budget) -> Report:
        report = Report("power", budget.seed, violations=["entry 1-1 is gone: replay with X"])
        report.tried["states"] += 1
        return budget.finished(report)

    monkeypatch.setattr(torture, "run_of", lambda _name: breaks)
    out = tmp_path / "run.json"
    assert torture.main(["power", "--seed", "3", "--for", "1s", "--json", str(out)]) == 1
    printed = capsys.readouterr()
    assert "1 VIOLATIONS" in printed.out
    assert "entry 1-1 is gone: replay with X" in printed.err
    assert json.loads(out.read_text())["reports"][0]["seed"] == 3
    assert "**promises broken** | **1**" in render.render(render.merged([render.load(out)]))


def test_a_long_run_may_be_done_in_pieces_whose_figures_are_added_up() -> None:
    def run(seed: int, tried: dict[str, int]) -> dict[str, Any]:
        report = Report("crowd", seed, 2.5, Counter(tried), Counter({"entries left": 1}))
        machine = {"date": "a day", "processor": "p", "kernel": "k", "diskstream": "1"}
        return {"format": 1, "machine": machine, "reports": [report.to_json()]}

    first, second = (
        run(7, {"kills": 3, "the longest wait": 20}),
        run(9, {"kills": 4, "stops": 2, "the longest wait": 11}),
    )
    (both,) = render.merged([first, second], add=True)["reports"]
    assert both["tried"] == {"kills": 7, "stops": 2, "the longest wait": 20}
    assert both["outcomes"] == {"entries left": 2}
    assert "Runs: seed 7, 2 s, a day, 1; seed 9, 2 s, a day, 1." in render.render({"reports": [both]})
    (last,) = render.merged([first, second])["reports"]
    assert last["tried"] == second["reports"][0]["tried"]
    with pytest.raises(SystemExit, match="seed 7: give another"):
        render.merged([first, first], add=True)


def test_wrong_usage_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in (["nonsense"], ["--for", "soon"]):
        with pytest.raises(SystemExit) as ended:
            torture.main(wrong)
        assert ended.value.code == 2
        assert wrong[-1] in capsys.readouterr().err
