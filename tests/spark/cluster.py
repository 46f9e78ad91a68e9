"""A standalone Spark cluster on the loopback interface: a master and workers, each a process that can be killed."""

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Concatenate, Self

from tests.engine.children import until
from tests.spark import process_tree, quick_java, session
from tests.spark.driver import LOG_TAIL, Driver, driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORKERS = 2

# Spark's daemons read no standard input. This shell does: it hears when the test is killed, and takes them with it.
END_WITH_PARENT = '"$@" </dev/null & read -r _; kill -KILL 0'


class Daemon:
    """The master or a worker, in a session of its own. Its log stays when it is gone."""

    def __init__(self, log: Path, *command: str) -> None:
        self.log = log
        daemon = {
            "SPARK_DAEMON_JAVA_OPTS": quick_java.options(),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_DIRS": str(log.with_suffix(".local")),  # of its executors, too
            "SPARK_MASTER_OPTS": "-Dspark.ui.enabled=false -Dspark.master.rest.enabled=false",
            "SPARK_WORKER_OPTS": "-Dspark.ui.enabled=false",
        }
        program = str(session.spark_home() / "bin" / "spark-class")
        with log.open("wb") as output:
            self.shell = subprocess.Popen(
                ["bash", "-c", END_WITH_PARENT, "bash", program, *command],
                env=session.environment() | daemon,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def processes(self) -> list[process_tree.Process]:
        return process_tree.in_session(self.shell.pid)

    def heard(self, pattern: str) -> str:
        """Waits for a line of the log. Returns what its group caught.

        Raises:
            AssertionError: it does not come.
        """
        found: list[str] = []

        def is_there() -> bool:
            found.extend(re.findall(pattern, self.log.read_text(errors="replace")))
            return bool(found) or not self.processes()

        until(is_there)
        assert found, f"{self.log.name} has ended:\n{self.log.read_text(errors='replace')}"
        return found[0]

    def kill(self) -> None:
        """Kills it and all that it started, as a machine that loses its power does."""
        with self.shell:
            process_tree.kill_session(self.shell.pid)


class Cluster:
    """One core and one executor on each of two workers. One driver at a time gets them all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = ""
        self._stack = ExitStack()
        self._workers: list[Daemon] = []
        self._started = 0

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            address = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
            name = "org.apache.spark.deploy.master.Master"
            master = stack.enter_context(Daemon(self.folder / "master.log", name, *address))
            self.url = master.heard(r"Starting Spark master at (\S+)")
            self._stack = stack.pop_all()
        try:
            self.mend()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def mend(self) -> None:
        """Starts workers in place of those that were killed."""
        self._workers = [worker for worker in self._workers if worker.processes()]
        new = [self._start_worker() for _ in range(WORKERS - len(self._workers))]
        for worker in new:
            worker.heard(r"Successfully registered with (master)")
        self._workers += new

    def _start_worker(self) -> Daemon:
        self._started += 1
        name = f"worker-{self._started}"
        # A host of its own: Spark starts no second attempt of a task on the host of the first.
        host = f"127.0.0.{1 + self._started}"
        command = ["org.apache.spark.deploy.worker.Worker", self.url, "--host", host, "--webui-port", "0"]
        size = ["--cores", "1", "--memory", "1G", "--work-dir", str(self.folder / name)]
        return self._stack.enter_context(Daemon(self.folder / f"{name}.log", *command, *size))

    def workers(self) -> list[str]:
        """The names of the workers that are alive. What runs on one has its current folder below `folder / name`."""
        return [worker.log.stem for worker in self._workers if worker.processes()]

    def executors(self) -> dict[str, int]:
        """The process of the executor on each worker that has one now."""
        return {
            worker.log.stem: process.pid
            for worker in self._workers
            for process in worker.processes()
            if "CoarseGrainedExecutorBackend" in process.command
        }

    def kill_executor(self, worker: str) -> None:
        """Kills the JVM of one executor as `kill -9` does; its Python workers end with it. The worker starts another.

        Raises:
            KeyError: that worker has no executor.
        """
        process_tree.kill(self.executors()[worker])

    def kill_worker(self, worker: str) -> None:
        """Kills a worker with all that runs on it. The fixture puts another in its place for the next test.

        Raises:
            StopIteration: there is no such worker.
        """
        next(one for one in self._workers if one.log.stem == worker).kill()

    def settings(self, folder: Path) -> dict[str, str]:
        """Of a session on this cluster. No job starts before all executors are there."""
        return session.settings(folder, self.url) | {
            "spark.cores.max": str(WORKERS),
            "spark.executor.memory": "512m",
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        }

    @contextmanager
    def driver(
        self,
        folder: Path,
        work: "Callable[Concatenate[SparkSession, ...], None]",
        *arguments: object,
        **settings: str,
    ) -> Iterator[Driver]:
        """A driver on this cluster that runs `work(spark, *arguments)`, and is gone afterwards; its log is in `folder`.

        More settings are given as `**{"spark.task.maxFailures": "2"}`.
        """
        try:
            with driver(self.settings(folder) | settings, folder / "driver.log", work, *arguments) as started:
                yield started
        except AssertionError as error:
            error.add_note(self.logs())
            raise

    def logs(self) -> str:
        """The last of what master, workers and executors have written, each with its file."""
        found = sorted(path for pattern in ("*.log", "worker-*/*/*/std*") for path in self.folder.glob(pattern))
        return "\n".join(f"--- {path}\n{path.read_text(errors='replace')[-LOG_TAIL:]}" for path in found)
