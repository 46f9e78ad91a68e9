"""Processes that are started afresh, end with a result, and can be killed without taking anything along."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext
from typing import Any, Final

import diskstream
from diskstream.cli.demo.sequence import OutOfSequenceError
from diskstream.cli.failure import Failure

PATIENCE_S: Final = 60.0
"""How long a process that was told to end may take, on a busy machine, before the demo gives up on it."""


class Worker:
    """A process that runs one function."""

    def __init__(self, context: SpawnContext, title: str, function: Callable[..., Any], *arguments: Any) -> None:
        self.title = title
        self._connection, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_run, args=(theirs, function, arguments), name=title, daemon=True)
        self._process.start()
        theirs.close()

    @property
    def connection(self) -> Connection:
        """Readable once the process has a result, or is no more."""
        return self._connection

    def result(self) -> Any:
        """What the function of the process returned. Raises Failure where it did not, or not in time."""
        try:
            if not self._connection.poll():
                raise Failure(f"the {self.title} did not end within {PATIENCE_S:.0f} s")
            succeeded, result = self._connection.recv()
        except EOFError:
            self._process.join(PATIENCE_S)
            raise Failure(f"the {self.title} ended without a result, exit status {self._process.exitcode}") from None
        self._process.join(PATIENCE_S)
        if not succeeded:
            raise Failure(f"the {self.title} failed: {result}")
        return result

    def kill(self) -> None:
        """SIGKILL: nothing in the process runs any more. Returns when it is gone."""
        self._process.kill()
        self._process.join()

    def close(self) -> None:
        """Make sure that the process is gone."""
        self.kill()
        self._process.close()
        self._connection.close()


def _run(connection: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """The whole life of a process. Ctrl-C reaches every process of the terminal: the demo itself ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with connection:
        try:
            answer = (True, function(*arguments))
        except (diskstream.DiskstreamError, OutOfSequenceError, OSError) as error:
            answer = (False, f"{type(error).__name__}: {error}")
        with contextlib.suppress(BrokenPipeError):  # the demo itself is gone
            connection.send(answer)


def wait_for_trouble(workers: Sequence[Worker], seconds: float) -> None:
    """Wait; when one of the processes ends too early, say why at once."""
    ready = wait([worker.connection for worker in workers], seconds)
    for worker in workers:
        if worker.connection in ready:
            worker.result()
            raise Failure(f"the {worker.title} ended too early")
