"""`diskstream spark`: what the verbs print, how they fail, and their exit status. The jobs run in this process."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from diskstream.cli import main
from diskstream.cli.spark import archive as archive_verb
from diskstream.cli.spark import compact as compact_verb
from diskstream.cli.spark import reconcile as reconcile_verb
from diskstream.cli.spark import replay as replay_verb
from diskstream.cli.spark import rollup as rollup_verb
from diskstream.spark.jobs.manifest import latest
from diskstream.spark.jobs.place import Place
from tests.spark.archives import BASE, DAY, days, fill, no_spark

pytest.importorskip("pyarrow", reason="pip install 'diskstream[archive]'")
pytest.importorskip("pyspark", reason="pip install 'diskstream[spark]'")

__all__ = ["no_spark"]


@pytest.fixture
def told(no_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Calls a verb, and returns what it said."""
    for module in (archive_verb, compact_verb, reconcile_verb, replay_verb, rollup_verb):
        monkeypatch.setattr(module, "started", lambda *_: no_spark)
    monkeypatch.setenv("DISKSTREAM_DIR", str(tmp_path / "store"))
    monkeypatch.setenv("DISKSTREAM_ARCHIVE", str(tmp_path / "archive"))

    def call(*arguments: str, status: int = 0) -> Result:
        result = CliRunner().invoke(main, ["spark", *arguments])
        assert result.exit_code == status, result.output
        return result

    return call


def test_a_store_is_archived_compacted_and_compared(told: Any, tmp_path: Path) -> None:
    fill(tmp_path / "store", "race:one", days(2, 10))
    dry = told("archive", "--dry-run").stdout
    assert "20 entries would be archived" in dry
    assert not (tmp_path / "archive").exists()
    lines = told("archive").stdout.splitlines()
    assert lines[0].split() == ["stream", "entries", "files", "bytes", "archived", "up", "to"]
    assert lines[1].split()[:3] == ["race:one", "20", "2"]
    assert f"{BASE + DAY + 9000}-1" in lines[1]
    assert "20 entries archived, read back: 2 files" in lines[-1]
    fill(tmp_path / "store", "race:one", [(f"{BASE + DAY + 10_000}-0", {"n": "10", "day": "1"})])
    found = json.loads(told("archive", "--json", "--stream", "race:one").stdout)
    assert (found["entries"], found["version"]) == (1, 2)
    assert found["streams"][0]["archived_to"] == f"{BASE + DAY + 10_000}-0"
    result = told("compact", "--target-bytes", "1m", "--grace", "2h")
    assert "3 files came to 2: 2 small ones with 11 rows were merged" in result.stdout
    assert "2 files of older versions or killed jobs wait" in result.stderr
    assert "none of them small" in told("compact").stdout
    assert "0 findings in version 3" in told("reconcile").stdout
    assert json.loads(told("reconcile", "--json").stdout)["ok"]


def test_a_replay_says_whether_it_is_complete_or_has_found_nothing(told: Any, tmp_path: Path) -> None:
    fill(tmp_path / "store", "s", days(1, 10))
    words = ["replay", "--from", str(tmp_path / "store"), "-d", str(tmp_path / "new")]
    for _ in range(2):
        assert "nothing to replay" in told(*words, "--start", str(BASE + DAY)).stdout
    assert "10 entries of 1 stream in 1 round" in told(*words).stdout
    assert "complete before" in told(*words).stdout
    assert json.loads(told(*words, "--json").stdout)["complete_before"]


def test_a_rollup_shows_windows_past_the_year_9999(told: Any, tmp_path: Path) -> None:
    fill(tmp_path / "store", "s", [(f"{BASE}-0", {"n": "1"}), (f"{BASE * 1000}-0", {"n": "2"})])
    shown = told("rollup", "-f", "n", "--window", "1ms").stdout
    assert "2024-10-04" in shown
    assert f"{BASE * 1000} ms" in shown


def test_findings_are_told_one_a_line_with_exit_status_1(told: Any, tmp_path: Path) -> None:
    fill(tmp_path / "store", "s", days(1, 10))
    told("archive")
    place = Place(tmp_path / "archive")
    Path(place.full(latest(place).files[0].path)).write_bytes(b"PAR1 no more")
    result = told("reconcile", status=1)
    assert "10 damaged" in result.stdout
    assert f"s, 2024-10-04, segment 1: 10 missing, IDs {BASE}-0 to {BASE + 9000}-1" in result.stdout
    assert not json.loads(told("reconcile", "--json", status=1).stdout)["ok"]


def test_wrong_usage_and_failures_say_what_to_do(told: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "store", "s", days(1, 10))
    assert "FIELD:TYPE" in told("archive", "--layout", "typed", "--column", "n", status=2).stderr
    assert "--grace" in told("compact", "--grace", "soon", status=2).stderr
    assert "there is no archive in" in told("compact", status=1).stderr
    assert "no stream 'none'" in told("archive", "--stream", "none", status=1).stderr
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    result = told("archive", status=1)
    assert "jobs on Spark need pyspark" in result.stderr
    assert "pip install 'diskstream[spark]'" in result.stderr
