"""The session of a job: the one that is there, or one made for it."""

import os
import sys
from typing import TYPE_CHECKING

from diskstream.errors import DiskstreamError
from diskstream.spark.jobs.java import check_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["check_ready", "reason", "session"]


def check_ready(master: str | None = None) -> None:
    """Makes sure, without starting anything, that Spark can be started, on `master`.

    Raises:
        DiskstreamError: there is no Java for it.
    """
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is None and not _submitted() and _server(master) is None:
        check_java()


def _server(master: str | None) -> str | None:
    """The URL of the server of Spark Connect that sessions are to be of; it has Java."""
    url = os.environ.get("SPARK_REMOTE") if master is None else master
    return url if url is not None and url.startswith("sc://") else None


def _submitted() -> bool:
    """Whether spark-submit started this: it says where to run, and has Java running."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _starting(master: str | None) -> dict[str, str]:
    """The settings that a new session has unless others are given."""
    own = {"spark.sql.session.timeZone": "UTC"}
    if _server(master) is not None:
        return own  # what else there is was settled when the server started
    if master.startswith("local") if master is not None else not _submitted():
        # Workers on this machine get the packages that this Python has, and not those of some python3.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return own | {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}


def session(name: str, *, master: str | None = None, settings: dict[str, str] | None = None) -> "SparkSession":
    """The running session, else a new one with the format `diskstream`: quiet, in UTC, on `master` or this machine.

    A `master` that begins with ``sc://`` is a server of Spark Connect; SPARK_REMOTE names one where there is none.

    Raises:
        DiskstreamError: there is no Java for it, it ended as it started, or Spark refuses the settings.
    """
    check_ready(master)
    from py4j.protocol import Py4JError, Py4JNetworkError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    from diskstream.spark import register

    running = SparkSession.getActiveSession()
    builder = SparkSession.builder
    if running is None:
        builder = builder.appName(name)
        for key, value in (_starting(master) | (settings or {})).items():
            builder = builder.config(key, value)
        if (server := _server(master)) is not None:
            builder = builder.remote(server)
        elif master is not None:
            builder = builder.master(master)
    try:
        running = running or builder.getOrCreate()
        register(running)
    except Py4JNetworkError as error:
        raise DiskstreamError(
            "Spark could not start: its Java has ended meanwhile; with --conf spark.log.level=WARN it says why"
        ) from error
    except (PySparkException, Py4JError) as error:
        raise DiskstreamError(f"Spark could not start: {reason(error)}") from error
    return running


def reason(error: BaseException) -> str:
    """What Spark says is wrong, in one line, without the traces of Python and Java around it."""
    lines = str(error).splitlines()
    causes = [line for line in lines if line.startswith(("Caused by: ", ": "))]
    told = causes[-1].removeprefix("Caused by").removeprefix(": ") if causes else lines[0] if lines else repr(error)
    kind, found, message = told.partition(": ")
    return message if found and " " not in kind else told
