"""System calls that a filter of some container refuses, by errors that say nothing of it: work goes on without."""

import subprocess
import sys
from pathlib import Path

import pytest

import diskstream
from tests.kills.strace import calls, why_not

WAITS = """
import sys
import diskstream
with diskstream.open(sys.argv[1], read_only=True) as store:
    print(len(store.read({"a": "$", "b": "$"}, block=0.05)), len(store.stream("a")))
"""


def refused(call: str, code: str, store: Path, log: Path) -> str:
    """What a process says that waits for two streams while a call is refused; its calls are in `log`."""
    if why := why_not():
        pytest.skip(why)
    with diskstream.open(store) as opened:
        for name in ("a", "b"):
            opened.stream(name).add({"n": 1})
    words = ["strace", "-f", "-o", str(log), f"--trace={call},clock_nanosleep", f"--inject={call}:error={code}"]
    words += [sys.executable, "-c", WAITS, str(store)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_wait_for_several_streams_that_is_refused_sleeps_all_the_same(tmp_path: Path) -> None:
    """Filters that do not know futex_waitv answer EPERM, not ENOSYS: a core was busy for as long as anybody waited."""
    assert refused("futex_waitv", "EPERM", tmp_path / "s", tmp_path / "log") == "0 1"
    names = [call.name for call in calls(tmp_path / "log") if "resumed" not in call.text]
    assert names.count("futex_waitv") > 0
    assert names.count("clock_nanosleep") >= names.count("futex_waitv")
