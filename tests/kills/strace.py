"""`strace` on one process: its system calls counted, one of them let fail, or the process killed at it."""

import contextlib
import ctypes
import os
import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["Call", "attached", "calls", "last_call", "may_be_traced", "why_not"]

_PR_SET_PTRACER, _ANY = 0x59616D61, ctypes.c_ulong(-1)
_CALL = re.compile(r"^(?:(\d+) +)?([a-z_0-9]+)\((.*)$")


@dataclass(frozen=True)
class Call:
    """One system call of a log.

    Attributes:
        name: of the call.
        nth: among the calls of that name that its thread makes, from 1: `strace` counts for each thread by itself, and
            strikes in the first that comes so far.
        text: its arguments and its result.
    """

    name: str
    nth: int
    text: str


def may_be_traced() -> None:
    """Lets any process trace this one, where the system (Yama) asks for that."""
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _ANY, 0, 0, 0)


@contextlib.contextmanager
def attached(pid: int, log: Path, *options: str) -> Iterator[None]:
    """Traces a process that has stopped itself, and lets it go on; leaves when that process has ended.

    Raises:
        OSError: it may not be traced.
    """
    command = ["strace", "-f", "-p", str(pid), "-o", str(log), *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as tracer:
        assert tracer.stderr is not None
        said = tracer.stderr.readline()
        if "attached" not in said:
            tracer.kill()
            raise OSError(f"strace: {said.strip()}")
        os.kill(pid, signal.SIGCONT)
        try:
            yield
        finally:
            tracer.stderr.read()


@cache
def why_not() -> str:
    """Empty, or why nothing can be traced here."""
    if shutil.which("strace") is None:
        return "needs the program strace, which is not installed"
    pid = os.fork()
    if pid == 0:
        may_be_traced()
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    os.waitpid(pid, os.WUNTRACED)
    try:
        # Some sandboxes let a process be traced, and change nothing of what it does.
        with attached(pid, Path(os.devnull), "--inject=exit_group:signal=SIGKILL:when=1"):
            status = os.waitpid(pid, 0)[1]
    except OSError as error:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return f"needs to trace processes: {error}"
    return "" if os.WIFSIGNALED(status) else "strace kills nobody here"


def _lines(log: Path) -> Iterator[re.Match[str]]:
    with log.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if (match := _CALL.match(line)) is not None:
                yield match


def calls(log: Path) -> list[Call]:
    """All calls of a log, in order."""
    seen: Counter[tuple[str, str]] = Counter()
    found = []
    for match in _lines(log):
        thread, name, text = match.groups()
        seen[thread, name] += 1
        found.append(Call(name, seen[thread, name], text))
    return found


def last_call(log: Path) -> str:
    """The name of the last call of a log: the one at which a process was killed."""
    name = ""
    for match in _lines(log):
        name = match[2]
    return name
