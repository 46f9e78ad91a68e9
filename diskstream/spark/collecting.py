"""What keeps the garbage collector of Spark's Python workers short."""

import gc
import sys
from functools import cache

__all__ = ["spare_the_collector"]

# The program that Spark forks its workers from: those of tasks, and those that make a source and plan what it reads.
_DAEMON = "pyspark.daemon"


def spare_the_collector() -> None:
    """At the end of a worker's work: what it has imported by then is looked at no more. Elsewhere nothing.

    PySpark's daemon collects garbage behind each piece of work, before the worker takes the next one. With the modules
    of pandas and pyarrow that is some 60 ms, as much as a task of a million entries may take, and a small query has
    four such workers. Garbage made later goes as before.
    """
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is not None and spec.name == _DAEMON:
        _set_aside(len(sys.modules))  # some are imported by a later kind of work


@cache
def _set_aside(_modules: int) -> None:
    """Once for so many modules."""
    gc.collect()  # so that nothing is kept which is of no use
    gc.freeze()
