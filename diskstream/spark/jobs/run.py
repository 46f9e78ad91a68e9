"""Running a job's tasks on Spark: one row of `mapInArrow` each."""

import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from diskstream import errors
from diskstream.spark import versions
from diskstream.spark.collecting import spare_the_collector
from diskstream.spark.jobs.connect import Given, cores_of, given_to_tasks
from diskstream.spark.jobs.watching import watched

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["run_tasks", "together", "told_by"]

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")
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
        cores = cores_of(spark) if sizes else 1
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
    payloads = [pickle.dumps((work, run, [tasks[at] for at in run])) for run in runs]
    with given_to_tasks(spark, payloads) as given:
        frame = spark.range(0, len(runs), 1, len(runs)).mapInArrow(_worker(given), "number long, result binary")
        with watched(spark, what, len(runs), quiet=quiet):
            rows = frame.collect()
    found: list[Any] = [None] * len(tasks)
    for row in rows:
        found[row["number"]] = pickle.loads(bytes(row["result"]))  # likewise
    return found


def _worker(given: Given) -> "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]":
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

    return in_worker


@contextmanager
def _told() -> Iterator[None]:
    """What went wrong in a task, or with Spark, is raised again, without the traces of Python and Java around it."""
    from py4j.protocol import Py4JError, Py4JJavaError
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
