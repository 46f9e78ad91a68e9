"""Starting Spark when a job first asks something of it, and not before; what its Java logs stays off the terminal."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Final

from diskstream.cli.failure import Failure
from diskstream.errors import DiskstreamError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LOG_LEVEL", "Later"]

# Whoever sets it wants to see the log.
LOG_LEVEL: Final = "spark.log.level"
_ERRORS: Final = 2  # the file descriptor
_MAX_SAID_BYTES: Final = 1 << 16
_LOGGED: Final = re.compile(r"^\S+ \S+ ERROR \w+: (.+)$", re.MULTILINE)


class Later:
    """Stands for a session, and becomes one with the first thing that it is asked.

    A job looks at its paths, names and settings before it asks anything. So what is wrong there is told at once, and a
    job that has nothing to do starts no Java.
    """

    def __init__(self, name: str, master: str | None, settings: dict[str, str]) -> None:
        self._given = name, master, settings
        self._session: SparkSession | None = None

    def __getattr__(self, name: str) -> Any:
        if self._session is None:
            self._session = _started(*self._given)
        return getattr(self._session, name)


def _started(name: str, master: str | None, settings: dict[str, str]) -> SparkSession:
    from py4j.protocol import Py4JNetworkError

    from diskstream.spark.jobs.session import session

    with _log(shown=LOG_LEVEL in settings) as log:
        try:
            return session(f"diskstream {name}", master=master, settings=settings)
        except DiskstreamError as error:
            said = _said(log, ended=isinstance(error.__cause__, Py4JNetworkError))
            raise Failure(
                f"Spark could not start: {said}" if said else str(error), hint="docs/spark.md says what Spark needs"
            ) from error


@contextmanager
def _log(*, shown: bool) -> Iterator[IO[bytes] | None]:
    """Gives what is started within a file without a name for its standard error; it keeps that as long as it runs."""
    if shown:
        yield None
        return
    with tempfile.TemporaryFile() as log:
        terminal = os.dup(_ERRORS)
        try:
            os.dup2(log.fileno(), _ERRORS)
            yield log
        finally:
            os.dup2(terminal, _ERRORS)
            os.close(terminal)


def _said(log: IO[bytes] | None, *, ended: bool) -> str:
    """Why Java did not come to the point of answering, if it said so: `Error: …`, or the message of an exception; where
    it `ended` later, the first error that it logged."""
    if log is None:
        return ""
    text = os.pread(log.fileno(), _MAX_SAID_BYTES, 0).decode(errors="replace")
    for line in text.splitlines():
        if line.startswith('Exception in thread "main" '):
            return line.partition(": ")[2]
        if line.startswith(("Error: ", "Invalid ")):
            return line.removeprefix("Error: ")
    logged = _LOGGED.search(text) if ended else None
    return f"its Java has ended: {logged[1]}" if logged else ""
