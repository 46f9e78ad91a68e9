"""A worker's process that reads partition after partition, by itself: in that of the tests, others' files are closed
meanwhile."""

import json
import os
from pathlib import Path

from diskstream import leases
from diskstream.spark.options import ReadOptions
from diskstream.spark.planning import plan_entries
from diskstream.spark.schemas import default_schema, plan
from diskstream.spark.tasks import read_entries
from tests.engine.children import say

__all__ = ["read_again"]


def read_again(path: str, turns: int) -> None:
    """Plans and reads a store, turn by turn; says the rows of each, and the descriptors that are open after it."""
    options = ReadOptions(path=path)
    columns = plan(default_schema(options), options)
    for _ in range(turns):
        planned = plan_entries(options)
        rows = sum(batch.num_rows for each in planned for batch in read_entries(each, columns, options))
        leases.release(Path(planned[0].path))
        say(json.dumps([rows, len(os.listdir("/proc/self/fd"))]))
