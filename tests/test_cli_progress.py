"""Bars of long work: on a terminal they say entries, bytes, rate and time left; in a pipe nothing."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import diskstream

PROGRAM = [sys.executable, "-c", "from diskstream.cli import main; main()"]


def filled(path: Path) -> None:
    """A store with two streams of 4,000 entries each, none of them sealed."""
    with diskstream.open(path, segment_bytes=1 << 16, seal="manual") as store:
        for name in ("a", "b"):
            store.stream(name).add_many([{"n": n, "pad": "." * 50} for n in range(4000)])


def on_a_terminal(*words: str) -> str:
    """What a verb shows on standard error where that is a terminal of 200 columns."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "COLUMNS": "200", "TERM": "xterm"}
    with subprocess.Popen([*PROGRAM, *words], stdout=subprocess.DEVNULL, stderr=follower, env=environment) as process:
        os.close(follower)
        shown = b""
        try:
            while piece := os.read(leader, 1 << 16):
                shown += piece
        except OSError:  # the other side is closed: so Linux says that
            pass
        finally:
            os.close(leader)
        assert process.wait(60) == 0
    return shown.decode()


@pytest.mark.parametrize("verb", ["seal", "compact"])
def test_sealing_and_compacting_show_entries_bytes_rate_and_time_left(tmp_path: Path, verb: str) -> None:
    filled(tmp_path / "store")
    shown = on_a_terminal(verb, "--dir", str(tmp_path / "store"))
    assert "ing" in shown
    assert "/8000" in shown or "/4000" in shown
    assert "kB" in shown or "bytes" in shown
    assert ":" in shown  # the time that is left


@pytest.mark.parametrize("verb", ["seal", "compact"])
def test_in_a_pipe_there_is_no_bar(tmp_path: Path, verb: str) -> None:
    filled(tmp_path / "store")
    words = [*PROGRAM, verb, "--dir", str(tmp_path / "store")]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    assert done.stdout
