"""A child that works under strace, to be killed at one of its system calls, or told that one failed."""

import os
import shutil
import signal
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.kills.strace import attached, may_be_traced

__all__ = ["Ended", "fresh", "live"]

_LIMIT_S = 20.0


@dataclass(frozen=True)
class Ended:
    """A child that is no more: how it ended, what it said, and the log of its calls."""

    code: int
    said: bytes
    log: Path


def live(directory: Path, work: Callable[[int], None], options: Sequence[str], beside: Callable[[], object]) -> Ended:
    """Runs `work` in a fork under strace; it is given where to say something. `beside` is called before it begins."""
    listen, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(listen)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, _LIMIT_S)  # whose signal is fatal: nobody hangs unseen
            may_be_traced()
            os.kill(os.getpid(), signal.SIGSTOP)
            work(said)
            code = 0
        except BaseException:  # noqa: BLE001  # a fork must not go on where its parent does
            os.write(said, b"!" + traceback.format_exc()[-3000:].encode())
        finally:
            os._exit(code)
    os.close(said)
    os.waitpid(pid, os.WUNTRACED)
    beside()
    log = directory / "strace.log"
    with attached(pid, log, *options):
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with os.fdopen(listen, "rb") as pipe:
        return Ended(code, pipe.read(), log)


def fresh(directory: Path) -> Path:
    """A new root of a workload; beside it is the place that its segments are moved out to."""
    shutil.rmtree(directory, ignore_errors=True)
    root = directory / "root"
    root.mkdir(parents=True)
    return root
