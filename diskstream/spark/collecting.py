"""What keeps the garbage collector of Spark's Python workers short."""

import gc
from functools import cache

from pyspark import TaskContext

__all__ = ["spare_the_collector"]


def spare_the_collector() -> None:
    """At the end of a worker's first task: what it has imported by then is looked at no more. Elsewhere nothing.

    PySpark's daemon collects garbage behind each task, before the worker takes the next one. With the modules of pandas
    and pyarrow that is some 60 ms, as much as a task of a million entries may take. Garbage made later goes as before.
    """
    if TaskContext.get() is not None:
        _once()


@cache
def _once() -> None:
    gc.collect()  # so that nothing is kept which is of no use
    gc.freeze()
