"""A plan of a repair is made among the temporary files: what a killed one has left there goes with the next."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import diskstream
from diskstream.engine.held_folders import scratch_folder

# Killed in the middle of a plan, which is made to links and copies of a stream's files.
PLAN = """
import os, signal, sys, tempfile
tempfile.tempdir = sys.argv[1]
import diskstream
from diskstream.engine import repair_plan
repair_plan.repair_stream = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
list(diskstream.repair(sys.argv[2], dry_run=True))
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_what_a_killed_plan_has_left_goes_with_the_next(temporary: Path, tmp_path: Path) -> None:
    """It stayed for ever, with a copy of each active log that it had looked at."""
    with diskstream.open(tmp_path / "store") as store:
        store.stream("x").add({"n": 1})
    subprocess.run([sys.executable, "-c", PLAN, str(temporary), str(tmp_path / "store")], check=False)
    assert len(list(temporary.iterdir())) == 1
    assert [report.failed for report in diskstream.repair(tmp_path / "store", dry_run=True)] == [""]
    assert list(temporary.iterdir()) == []


def test_one_that_is_being_made_stays(temporary: Path) -> None:
    with scratch_folder("diskstream-plan-") as theirs:
        (theirs / "log").write_bytes(b"")
        with scratch_folder("diskstream-plan-") as ours:
            assert sorted(temporary.iterdir()) == sorted((theirs, ours))
        assert list(temporary.iterdir()) == [theirs]
        assert (theirs / "log").exists()
    assert list(temporary.iterdir()) == []
