"""A store damaged anywhere gives right data or says what is wrong: no wrong data, no silence, no dead interpreter.

What is allowed is written down in `verdict.py`, what is done to the files in `damage.py` and `forgery.py`.
"""

import contextlib
import subprocess
import sys

import pytest

from tests.engine.children import ROOT
from tests.engine.damage import BATCHES

PARTS = 2


def start(batch: str, part: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.engine.damage", batch, str(part), str(PARTS)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.timeout(600)  # each case has a limit of its own
@pytest.mark.parametrize("batch", BATCHES)
def test_damage_is_never_believed_and_never_fatal(batch: str) -> None:
    said: list[str] = []
    with contextlib.ExitStack() as ending:
        running = [ending.enter_context(start(batch, part)) for part in range(PARTS)]
        for process in running:
            ending.callback(process.kill)
        for process in running:
            output, _ = process.communicate()
            lines = output.splitlines()
            said += lines
            assert lines[-1:] == ["done"], f"ended with {process.returncode} at:\n" + "\n".join(lines[-30:])
    offences = [line for line in said if line.startswith("! ")]
    assert not offences, f"{len(offences)} offences, the first:\n" + "\n".join(offences[:20])
    assert len(said) > 20 + PARTS, "too few cases to mean anything"
