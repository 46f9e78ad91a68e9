"""The programs in tools/ run by themselves: none hides a module that it needs, and each is the verb that it says."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = sorted((Path(__file__).resolve().parent.parent / "tools").glob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_it_says_how_it_is_used(program: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(program), "--help"], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "usage: " in done.stdout.lower()
