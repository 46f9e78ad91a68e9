"""A progress bar of a job's tasks on a terminal, and nothing anywhere else."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from diskstream.spark.jobs.beside import beside
from diskstream.spark.jobs.connect import is_connected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["watched"]

_LOOK_S = 0.2


@contextmanager
def watched(spark: "SparkSession", what: str, total: int, *, quiet: bool) -> Iterator[None]:
    """Shows how many of the tasks are done that jobs of Spark's have which start meanwhile.

    Args:
        spark: the session.
        what: what the bar says.
        total: how many tasks there are.
        quiet: show nothing, even on a terminal.
    """
    if quiet or not sys.stderr.isatty():
        yield
        return
    counts = _reported if is_connected(spark) else _tracked
    with counts(spark) as finished, beside("diskstream-progress", partial(_follow, what, total, finished)):
        yield


@contextmanager
def _tracked(spark: "SparkSession") -> Iterator[Callable[[], int]]:
    """By asking the context of this process."""
    tracker = spark.sparkContext.statusTracker()
    known = set(tracker.getActiveJobsIds())

    def finished() -> int:
        count = 0
        for job in set(tracker.getActiveJobsIds()) - known:
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info else ():
                seen = tracker.getStageInfo(stage)
                count += seen.numCompletedTasks if seen else 0
        return count

    yield finished


@contextmanager
def _reported(spark: Any) -> Iterator[Callable[[], int]]:
    """By what the server says while it works."""
    count = 0

    def heard(stages: Any, **_: object) -> None:  # Spark names what it gives
        nonlocal count
        count = sum(each.num_completed_tasks for each in stages or ())

    spark.registerProgressHandler(heard)
    try:
        yield lambda: count
    finally:
        spark.removeProgressHandler(heard)


def _follow(what: str, total: int, finished: Callable[[], int], done: threading.Event) -> None:
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
        bar = progress.add_task(what, total=total)
        while not done.wait(_LOOK_S):
            progress.update(bar, completed=finished())
