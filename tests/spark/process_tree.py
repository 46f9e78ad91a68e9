"""Processes by their session: each program that the tests start leads one, and whatever it starts stays in it.

A process group would not do: Spark's Python workers make groups of their own.
"""

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from tests.engine.children import until

PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """A running process, as it was when it was looked at."""

    pid: int
    parent: int
    session: int
    command: str


def in_session(session: int) -> list[Process]:
    """All processes of a session that are alive, oldest first; one that nobody has waited for yet is not."""
    found = (_look_at(int(entry.name)) for entry in PROC.iterdir() if entry.name.isdecimal())
    return sorted((one for one in found if one is not None and one.session == session), key=lambda one: one.pid)


def _look_at(pid: int) -> Process | None:
    try:
        status = (PROC / str(pid) / "stat").read_text()
        command = (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name, in brackets, may hold blanks and brackets itself.
    state, parent, _group, session = status.rpartition(")")[2].split()[:4]
    return None if state in "ZX" else Process(pid, int(parent), int(session), command)


def kill(pid: int) -> None:
    """As `kill -9` does; one that is gone already is fine."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def kill_session(session: int) -> None:
    """Kills all of it, and returns when nothing is left: also what was being started meanwhile.

    Raises:
        AssertionError: something does not die.
    """

    def gone() -> bool:
        left = in_session(session)
        for one in left:
            kill(one.pid)
        return not left

    until(gone)
