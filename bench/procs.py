"""Other processes: started as ``python -m bench.child``, spoken to by lines, and stopped whatever happens."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from bench.context import CHECKOUT

PATIENCE = 120.0
# For the many that do little: a fresh Python for each would take longer than its work. No store is open meanwhile.
FORKING = multiprocessing.get_context("fork")


class ChildError(RuntimeError):
    """A child process failed or did not answer in time."""


class Child:
    """A process that runs one function of ``bench.child``. It says ``ready``, waits for ``go``, answers with JSON."""

    def __init__(self, role: str, *arguments: object) -> None:
        self.role = role
        command = [sys.executable, "-m", "bench.child", role, json.dumps(arguments)]
        self.process = subprocess.Popen(
            command,
            cwd=CHECKOUT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def line(self, patience: float = PATIENCE) -> str:
        """The next line it says; an error when it ends, or says nothing for `patience` seconds."""
        assert self.process.stdout is not None
        alarm = threading.Timer(patience, self.process.kill)
        alarm.start()
        try:
            text = self.process.stdout.readline()
        finally:
            alarm.cancel()
        if not text:
            raise ChildError(f"the child process '{self.role}' ended, or said nothing for {patience:.0f} s")
        return text.strip()

    def wait_ready(self, patience: float = PATIENCE) -> None:
        """Waits until it has set up what is not measured."""
        said = self.line(patience)
        if said != "ready":
            raise ChildError(f"the child process '{self.role}' said {said!r} and not 'ready'")

    def go(self) -> None:
        """Lets it begin what is measured."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def result(self, patience: float = PATIENCE) -> Any:
        """What its function returned."""
        return json.loads(self.line(patience))

    def kill(self) -> None:
        """Kills it, as ``kill -9`` does, if it still runs, and collects it."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


@contextmanager
def child(role: str, *arguments: object) -> Iterator[Child]:
    """A child process for the length of a block."""
    started = Child(role, *arguments)
    try:
        yield started
    finally:
        started.kill()


def ask(role: str, *arguments: object, patience: float = PATIENCE) -> Any:
    """Runs one child process from start to answer."""
    with child(role, *arguments) as asked:
        asked.wait_ready(patience)
        asked.go()
        return asked.result(patience)
