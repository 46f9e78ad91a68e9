"""A driver beside the test: a Python process with a Spark session and its JVM, to be killed together."""

import importlib
import inspect
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate

from tests.engine import children
from tests.engine.children import LIMIT_S, Child
from tests.spark import process_tree, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A session takes seconds to start, and a job on a busy machine some more.
DRIVER_LIMIT_S = 2 * LIMIT_S
# Of each log, in the message of a test that fails: a Java stack trace and its cause.
LOG_TAIL = 4000


class Driver(Child):
    """Runs `work(spark, *arguments)` of a module of the tests. It is talked to as every child is: `say` and `hear`."""

    def __init__(
        self,
        settings: Mapping[str, str],
        log: Path,
        work: "Callable[Concatenate[SparkSession, ...], None]",
        *arguments: object,
    ) -> None:
        given = json.dumps([str(one) if isinstance(one, Path) else one for one in arguments])
        command = [sys.executable, "-m", "tests.spark.driver", _module(work), work.__name__, json.dumps(dict(settings))]
        self.log = log
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                [*command, given],
                cwd=session.ROOT,
                env=session.environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
                start_new_session=True,
            )
        self._rest = b""

    def hear(self, limit_s: float = DRIVER_LIMIT_S) -> str:
        with self._log_in_errors():
            return super().hear(limit_s)

    def until(self, true: Callable[[], bool], limit_s: float = DRIVER_LIMIT_S) -> None:
        """Returns once something has come true that this driver is to bring about.

        Raises:
            AssertionError: it does not come, or the driver has ended.
        """
        came = False

        def look() -> bool:
            nonlocal came
            came = true()  # once: a moment may be over at a second look
            return came or self.process.poll() is not None

        with self._log_in_errors():
            children.until(look, limit_s)
            assert came, f"the driver has ended with {self.process.wait()}"

    def done(self, limit_s: float = DRIVER_LIMIT_S) -> None:
        """Returns when its work has ended well.

        Raises:
            AssertionError: it has failed.
        """
        with self._log_in_errors():
            code = self.wait(limit_s)
            assert code == 0, f"the driver has ended with {code}"

    @contextmanager
    def _log_in_errors(self) -> Iterator[None]:
        try:
            yield
        except AssertionError as error:
            error.add_note(self.log.read_text(errors="replace")[-LOG_TAIL:])
            raise

    def kill(self) -> list[str]:
        """Kills Python and JVM as `kill -9` does. Returns what it had still said."""
        process_tree.kill_session(self.pid)
        self.process.wait(LIMIT_S)
        return self.rest()


@contextmanager
def driver(
    settings: Mapping[str, str],
    log: Path,
    work: "Callable[Concatenate[SparkSession, ...], None]",
    *arguments: object,
) -> Iterator[Driver]:
    """A driver that is gone afterwards with all that it started, whatever happens."""
    started = Driver(settings, log, work, *arguments)
    try:
        yield started
    finally:
        with started.process:
            process_tree.kill_session(started.pid)


def _module(work: Callable[..., None]) -> str:
    """By its file: pytest calls the modules of tests after the topmost package, and `tests` itself is none."""
    return ".".join(Path(inspect.getfile(work)).relative_to(session.ROOT).with_suffix("").parts)


def _end_with(parent: int) -> None:
    """Ends this process, and so its JVM, where the test that started it has been killed."""
    never = threading.Event()
    while os.getppid() == parent:
        never.wait(1)
    os._exit(1)


def main(module: str, name: str, settings: str, arguments: str) -> None:
    threading.Thread(target=_end_with, args=[os.getppid()], daemon=True).start()
    spark = session.start(json.loads(settings))
    try:
        getattr(importlib.import_module(module), name)(spark, *json.loads(arguments))
    finally:
        session.stop(spark)


if __name__ == "__main__":
    main(*sys.argv[1:])
