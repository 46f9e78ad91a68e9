"""Processes beside the test, talked to line by line: each runs one function of a module of this folder."""

import faulthandler
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# Nothing here takes longer than seconds, on a busy machine too: who waits for this long waits in vain.
LIMIT_S = 40.0


class Child:
    """A running process, and what it says."""

    def __init__(self, work: Callable[..., None], *arguments: object) -> None:
        given = json.dumps([str(one) if isinstance(one, Path) else one for one in arguments])
        command = [sys.executable, "-m", "tests.engine.children", work.__module__, work.__name__, given]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self._rest = b""

    @property
    def pid(self) -> int:
        return self.process.pid

    def _read(self, limit_s: float) -> bytes:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], limit_s)
        assert ready, f"the child says nothing for {limit_s} s"
        return os.read(self.process.stdout.fileno(), 1 << 16)

    def hear(self, limit_s: float = LIMIT_S) -> str:
        """The next line.

        Raises:
            AssertionError: it says nothing, or has ended.
        """
        while b"\n" not in self._rest:
            more = self._read(limit_s)
            assert more, f"the child has ended with {self.process.wait(LIMIT_S)}"
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def tell(self, line: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")

    def ask(self, line: str = "") -> str:
        self.tell(line)
        return self.hear()

    def wait(self, limit_s: float = LIMIT_S) -> int:
        return self.process.wait(limit_s)

    def rest(self, limit_s: float = LIMIT_S) -> list[str]:
        """Every whole line until the child's end: one cut in two by a kill was never said."""
        while more := self._read(limit_s):
            self._rest += more
        lines = self._rest.split(b"\n")[:-1]
        self._rest = b""
        return [line.decode() for line in lines]

    def kill(self) -> list[str]:
        """Kills it as `kill -9` does. Returns what it had still said."""
        self.process.kill()
        self.process.wait(LIMIT_S)
        return self.rest()


@contextmanager
def child(work: Callable[..., None], *arguments: object) -> Iterator[Child]:
    """A child that is gone afterwards, whatever happens."""
    started = Child(work, *arguments)
    try:
        yield started
    finally:
        with started.process:
            started.process.kill()


def until(true: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
    """Returns once something has come true that another thread or process is about to do.

    Raises:
        AssertionError: it does not come.
    """
    never = threading.Event()
    for _ in range(int(limit_s / 0.005)):
        if true():
            return
        never.wait(0.005)
    raise AssertionError("waited in vain")


def say(*words: object) -> None:
    """One line to whoever started this process; a short one is written as a whole or not at all."""
    os.write(1, " ".join(map(str, words)).encode() + b"\n")


def hear() -> str:
    """The next line from whoever started this process; ends it where that one is gone."""
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return line.rstrip("\n")


if __name__ == "__main__":
    # Who is started in the background of a shell ignores it, and so do all of its children.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    faulthandler.enable()
    faulthandler.dump_traceback_later(2 * LIMIT_S, exit=True)
    getattr(importlib.import_module(sys.argv[1]), sys.argv[2])(*json.loads(sys.argv[3]))
