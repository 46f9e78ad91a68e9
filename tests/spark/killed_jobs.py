"""Jobs that are killed: a process that begins a job for each line that it is told, as a child, which dies at a point.

It has loaded all that jobs need, so that a kill costs a fork and not a start.
"""

import faulthandler
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from diskstream import Stream, leases
from diskstream.spark import commit
from diskstream.spark.jobs import archive, compact, replay, rollup, rollup_output, rollup_stream, settling
from diskstream.spark.jobs.archive import ArchiveSettings
from diskstream.spark.jobs.compact import CompactSettings
from diskstream.spark.jobs.parts import PartWriter
from diskstream.spark.jobs.place import Place
from diskstream.spark.jobs.replay import ReplaySettings
from diskstream.spark.jobs.rollup import Settings as RollupSettings
from tests.engine.children import Child, child, hear, say
from tests.spark.archives import NO_SPARK, in_process

# What is called a number of times, and where the process dies: before the last of these calls, or after it.
Point = tuple[Any, str, int, bool]

_COMMITS: dict[str, Point] = {
    "half a file": (PartWriter, "write", 2, False),
    "files, not verified": (PartWriter, "close", 2, True),
    "before the commit": (settling, "commit", 1, False),
    "a manifest with two names": (Place, "remove", 2, False),
    "after the commit": (settling, "commit", 1, True),
}
POINTS: dict[str, dict[str, Point]] = {
    "archive": _COMMITS,
    "compact": {
        **_COMMITS,
        "files, not verified": (PartWriter, "close", 1, True),
        "some garbage removed": (Place, "remove", 3, True),
    },
    "replay": {
        "leased, not planned": (replay, "_keep", 1, False),
        "planned": (replay, "_keep", 1, True),
        "half a round staged": (replay, "stage", 2, False),
        "a round staged": (replay, "commit", 2, False),
        "a round decided": (commit, "_carry_out", 2, False),
        "amid a round": (Stream, "_add_packed", 3, True),
        "a round done": (replay, "commit", 2, True),
        "complete, and its plan there": (replay, "_put", 2, True),
        "complete, and leased": (leases, "release", 1, False),
    },
    "rollup": {
        "rolled up": (rollup, "run_tasks", 1, True),
        "half a file": (rollup_output, "landing", 1, True),
        "a file and no window": (rollup, "add_windows", 1, False),
        "some windows": (Stream, "add_many", 2, True),
        "all windows": (rollup, "add_windows", 1, True),
    },
    "windows": {
        "whose it is": (rollup_stream, "_claim", 1, True),
        "a file without its folder": (rollup_output, "write_parquet", 1, True),
        "a folder without its name": (Path, "rename", 1, False),
        "a folder with its name": (Path, "rename", 1, True),
    },
}


def _archive(store: str, root: str) -> None:
    archive.run(NO_SPARK, ArchiveSettings(store, root))


def _compact(root: str) -> None:
    compact.run(NO_SPARK, CompactSettings(root))


def _replay(source: str, target: str, ids: str, tasks_per_round: str = "3") -> None:
    settings = ReplaySettings(source, target, ids=ids, max_entries=400, tasks_per_round=int(tasks_per_round))
    replay.run(NO_SPARK, settings)


def _rollup(store: str, output: str) -> None:
    rollup.run(
        NO_SPARK,
        RollupSettings(store, (b"s",), window_ms=1000, fields=("n",), output=Path(output), to_stream=b"windows"),
    )


def write_windows(table: str, output: str) -> None:
    """Writes the rows of a Parquet file as the batch 3 of a query."""
    batch: Any = SimpleNamespace(toArrow=lambda: pq.read_table(table))
    rollup_stream.write_batch(batch, 3, Path(output), query="q")


_JOBS: dict[str, Callable[..., None]] = {
    "archive": _archive,
    "compact": _compact,
    "replay": _replay,
    "rollup": _rollup,
    "windows": write_windows,
}


def _die_at(owner: Any, name: str, calls: int, after: bool) -> None:
    original, left = getattr(owner, name), [calls]

    def deadly(*given: Any, **options: Any) -> Any:
        left[0] -= 1
        if left[0] == 0 and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*given, **options)
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, deadly)


def _begun(job: str, point: str, where: list[str]) -> int:
    number = os.fork()
    if number:
        return number
    try:
        for module in (archive, compact, replay, rollup):
            setattr(module, "run_tasks", in_process)  # noqa: B010  # each has one of its own
        rollup_output._FRAME = 2  # few windows are several frames then
        if point:
            _die_at(*POINTS[job][point])
        _JOBS[job](*where)
        os._exit(0)
    except BaseException:  # noqa: BLE001  # a fork must not come back
        traceback.print_exc(file=sys.stderr)
        os._exit(1)


def begin_as_told() -> None:
    """In the process beside the test: a line says job, point and paths, the answer is how the job ended."""
    faulthandler.cancel_dump_traceback_later()  # it lives as long as the tests of a module; who asks has a limit
    while True:
        job, point, *where = json.loads(hear())
        _, status = os.waitpid(_begun(job, point, where), 0)
        say(os.waitstatus_to_exitcode(status))


class Jobs:
    """Jobs in processes of their own."""

    def __init__(self, beside: Child) -> None:
        self._beside = beside

    def killed(self, job: str, point: str, *where: object) -> None:
        """Begins a job, which dies at that point.

        Raises:
            AssertionError: it did not.
        """
        assert self._ended(job, point, *where) == -signal.SIGKILL, f"{job} came past {point}"

    def done(self, job: str, *where: object) -> None:
        """Does a job.

        Raises:
            AssertionError: it failed; why is on standard error.
        """
        assert self._ended(job, "", *where) == 0

    def _ended(self, job: str, point: str, *where: object) -> int:
        return int(self._beside.ask(json.dumps([job, point, *map(str, where)])))


@pytest.fixture(scope="module")
def jobs() -> Iterator[Jobs]:
    with child(begin_as_told) as beside:
        yield Jobs(beside)
