"""The session of a job: the one that is there, or one made for it."""

import os
import sys
from typing import TYPE_CHECKING

from diskstream.errors import DiskstreamError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["session"]


def session(name: str, *, master: str | None = None, settings: dict[str, str] | None = None) -> "SparkSession":
    """The running session, else a new one with the format `diskstream`: quiet, in UTC, on `master` or this machine.

    Raises:
        DiskstreamError: there is no pyspark, or no Java for it.
    """
    try:
        from pyspark.errors import PySparkRuntimeError
        from pyspark.sql import SparkSession
    except ImportError:
        raise DiskstreamError("Spark's jobs need pyspark: pip install 'diskstream[spark]'") from None
    from diskstream.spark import register

    running = SparkSession.getActiveSession()
    if running is None:
        builder = SparkSession.builder.appName(name).config("spark.sql.session.timeZone", "UTC")
        builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.log.level", "ERROR")
        submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # by spark-submit, which says where to run
        if master is not None:
            builder = builder.master(master)
        if master.startswith("local") if master is not None else not submitted:
            # Workers on this machine get the packages that this Python has, and not those of some python3.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        for key, value in (settings or {}).items():
            builder = builder.config(key, value)
        try:
            running = builder.getOrCreate()
        except PySparkRuntimeError as error:
            raise DiskstreamError(
                f"Spark could not start: is Java 17 or later installed, and JAVA_HOME right? ({error})"
            ) from error
    register(running)
    return running
