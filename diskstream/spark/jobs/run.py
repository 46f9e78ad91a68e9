"""Running a job's tasks on Spark: one row of `mapInArrow` each, with progress on a terminal."""

import pickle
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from diskstream import errors
from diskstream.spark import versions
from diskstream.spark.collecting import spare_the_collector

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["run_tasks", "together", "told_by"]

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")
_LOOK_S = 0.2
# Spark spends some 50 ms on a task of its own, in which one of ours reads some MB.
_TOGETHER_BYTES: Final = 32 << 20
_LEAST_A_CORE: Final = 4  # of Spark's tasks, where there is that much: so cores have as much as others
_RAISED = re.compile(r"^[\w.]+(?:Error|Exception): .+$", re.MULTILINE)
_OURS = re.compile(r"^diskstream\.errors\.(\w+): (.+)$", re.MULTILINE)


def run_tasks(
    spark: "SparkSession",
    what: str,
    tasks: Sequence[_Task],
    work: Callable[[_Task], _Result],
    *,
    quiet: bool = False,
    sizes: Sequence[int] | None = None,
) -> list[_Result]:
    """Runs `work` on each task, side by side on the workers, and returns the results in the order of the tasks.

    A task may run more than once: of a failed or speculative attempt nobody hears, so what `work` makes has a name that
    no other attempt uses, and counts because it is in a result.

    Args:
        spark: the session.
        what: what the progress bar says.
        tasks: what is to be done; pickled, as are the results.
        work: runs in a worker process; it must be importable there.
        quiet: show no progress, even on a terminal.
        sizes: about how many bytes each task reads: small ones are then run by one task of Spark's, after each other.

    Raises:
        DiskstreamError: what a task raised of ours, in its words; a worker that has not what the driver has; a JVM
            that died; or else why Spark gave up.
    """
    if not tasks:
        return []
    with _told():
        cores = spark.sparkContext.defaultParallelism if sizes else 1
        runs = together(sizes, cores) if sizes else [range(at, at + 1) for at in range(len(tasks))]
        return _run(spark, what, tasks, work, runs, quiet=quiet)


def together(sizes: Sequence[int], cores: int) -> list[range]:
    """Which tasks one of Spark's runs: neighbours, some MB, and no more than that each core has a few such runs.

    Args:
        sizes: of the tasks, in bytes.
        cores: how many of Spark's tasks run side by side.
    """
    most = max(1, len(sizes) // (_LEAST_A_CORE * cores))
    runs: list[range] = []
    begin = held = 0
    for at, size in enumerate(sizes):
        if at > begin and (held + size > _TOGETHER_BYTES or at - begin >= most):
            runs.append(range(begin, at))
            begin, held = at, 0
        held += size
    return [*runs, range(begin, len(sizes))]


def _run(
    spark: "SparkSession",
    what: str,
    tasks: Sequence[_Task],
    work: Callable[[_Task], _Result],
    runs: Sequence[range],
    *,
    quiet: bool,
) -> list[_Result]:
    given = spark.sparkContext.broadcast([pickle.dumps((work, run, [tasks[at] for at in run])) for run in runs])
    driver = versions.VERSION

    def in_worker(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa

        versions.check(driver)  # before anything of ours is read that another version may have made otherwise
        for batch in batches:
            for number in batch.column(0).to_pylist():
                to_do, run, own = pickle.loads(given.value[number])  # our own, of this job
                for at, task in zip(run, own, strict=True):
                    yield pa.RecordBatch.from_pydict({"number": [at], "result": [pickle.dumps(to_do(task))]})
        spare_the_collector()

    frame = spark.range(0, len(runs), 1, len(runs)).mapInArrow(in_worker, "number long, result binary")
    try:
        with _Watch(spark, what, len(runs), quiet=quiet):
            rows = frame.collect()
    finally:
        given.destroy()  # with its file on the driver
    found: list[Any] = [None] * len(tasks)
    for row in rows:
        found[row["number"]] = pickle.loads(bytes(row["result"]))  # likewise
    return found


@contextmanager
def _told() -> Iterator[None]:
    """What went wrong in a task, or with Spark, is raised again, without the traces of Python and Java around it."""
    from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise errors.DiskstreamError(told_by(str(error))) from error
    except (Py4JError, ConnectionError, EOFError) as error:  # Java is talked to by sockets
        if "Trace:" in str(error):  # of a Java that lives, and did not let itself be asked
            raise errors.DiskstreamError(told_by(str(error))) from error
        raise errors.DiskstreamError(
            "Spark's Java is gone: it was killed, or ran out of memory (the system's log says so; --conf "
            "spark.driver.memory=4g gives it more). What was committed stays: run this again"
        ) from error


def told_by(text: str) -> str:
    """What an error of Spark's comes to, in one line, for a user.

    Args:
        text: its message, with the traces of Python and Java.
    """
    ours = [match[2] for match in _OURS.finditer(text) if hasattr(errors, match[1])]
    if ours:
        return ours[-1]
    if missing := versions.lacking(text):
        return missing
    raised = [match for match in _RAISED.findall(text) if not match.startswith(("java", "org."))]
    return f"Spark gave the job up: {raised[-1] if raised else text.partition(chr(10))[0]}"


class _Watch:
    """A progress bar that follows the tasks of the jobs of this thread's group; nothing where there is no terminal."""

    def __init__(self, spark: "SparkSession", what: str, total: int, *, quiet: bool) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._known = set(self._tracker.getActiveJobsIds())
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        self._what, self._total = what, total
        self._shown = not quiet and sys.stderr.isatty()

    def __enter__(self) -> Self:
        if self._shown:
            self._thread = threading.Thread(target=self._follow, name="diskstream-progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()

    def _finished_tasks(self) -> int:
        count = 0
        for job in set(self._tracker.getActiveJobsIds()) - self._known:
            info = self._tracker.getJobInfo(job)
            for stage in info.stageIds if info else ():
                seen = self._tracker.getStageInfo(stage)
                count += seen.numCompletedTasks if seen else 0
        return count

    def _follow(self) -> None:
        from py4j.protocol import Py4JError

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        shown = Progress(*columns, console=Console(stderr=True), transient=True)
        # Who waits for the job finds out that Java is gone, and says so.
        with suppress(Py4JError, ConnectionError, EOFError), shown as progress:
            bar = progress.add_task(self._what, total=self._total)
            while not self._done.wait(_LOOK_S):
                progress.update(bar, completed=self._finished_tasks())
