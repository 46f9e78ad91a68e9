"""A job whose JVM dies under it, as when the kernel runs out of memory: told in a line, and done next time."""

import json
import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from click.testing import CliRunner
from py4j.protocol import Py4JError, Py4JNetworkError

from diskstream.cli import main
from diskstream.errors import DiskstreamError
from diskstream.spark.jobs import archive, run
from diskstream.spark.jobs.archive import ArchiveSettings, ArchiveTask
from diskstream.spark.jobs.watching import watched
from tests.engine.children import say, until
from tests.spark import process_tree, session
from tests.spark.archives import NO_SPARK, days, fill, in_process, kept, parts, stored
from tests.spark.driver import driver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def kill_java(_: ArchiveTask) -> None:
    """A task, in a worker that a daemon forked which the JVM started."""
    found = {one.pid: one for one in process_tree.in_session(os.getsid(0))}
    at = found[os.getpid()]
    while "java" not in at.command.partition(" ")[0]:
        at = found[at.parent]
    process_tree.kill(at.pid)


def archives(_: "SparkSession", store: str, root: str) -> None:
    with patch.object(archive, "archive_slices", kill_java):
        done = CliRunner().invoke(main, ["spark", "archive", "-d", store, "-a", root])
    say(json.dumps([done.exit_code, done.stdout, done.stderr]))


@pytest.mark.usefixtures("_spark_is_installed")
def test_a_job_whose_java_dies_says_so_and_leaves_nothing_half_done(tmp_path: Path) -> None:
    """It ended with `Connection refused`, and as a function with three traces."""
    store, root = tmp_path / "store", tmp_path / "archive"
    fill(store, "s", days(2, 50))
    settings = session.settings(tmp_path, "local[1]")
    with driver(settings, tmp_path / "driver.log", archives, store, root) as started:
        status, output, told = json.loads(started.hear())
    assert (status, output) == (1, "")
    assert told.splitlines()[0].startswith("error: Spark's Java is gone: it was killed, or ran out of memory")
    assert "Traceback" not in told
    assert not any(path.is_file() for path in root.rglob("*"))
    assert not list((store / "leases").iterdir())
    with patch.object(archive, "run_tasks", in_process):
        assert archive.run(NO_SPARK, ArchiveSettings(str(store), str(root))).entries == 100
    assert kept(root, "s") == stored(store, "s")
    assert len(parts(root)) == 2


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Py4JNetworkError("Answer from Java side is empty"), "Spark's Java is gone"),
        (Py4JError("An error occurred while calling o1.collectToPython"), "Spark's Java is gone"),
        (ConnectionRefusedError(111, "Connection refused"), "Spark's Java is gone"),
        (EOFError(), "Spark's Java is gone"),
        (
            Py4JError("An error occurred while calling o1.f. Trace:\npy4j.SecurityException: no"),
            "SecurityException: no",
        ),
        (OSError(28, "No space left on device"), "No space left on device"),
    ],
)
def test_a_java_that_answers_is_not_said_to_be_gone(error: Exception, told: str) -> None:
    with pytest.raises((DiskstreamError, OSError), match=told), run._told():
        raise error


def test_the_progress_of_a_job_whose_java_is_gone_ends_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread printed a trace of its own."""
    asked, raised = list[str](), list[Any]()

    def jobs() -> list[int]:
        asked.append("jobs")
        if len(asked) > 1:
            raise Py4JNetworkError("Answer from Java side is empty")
        return []

    monkeypatch.setattr(threading, "excepthook", raised.append)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    spark: Any = SimpleNamespace(
        sparkContext=SimpleNamespace(statusTracker=lambda: SimpleNamespace(getActiveJobsIds=jobs))
    )
    with watched(spark, "archiving", 3, quiet=False):
        until(lambda: len(asked) > 1)
    assert "diskstream-progress" not in [thread.name for thread in threading.enumerate()]
    assert not raised
