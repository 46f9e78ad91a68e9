"""A Spark session for tests: its environment, its settings, and its end.

No pyspark at the top: the tests skip where it is missing.
"""

import contextlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

from tests.spark import quick_java
from tests.spark.java import OLDEST, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent.parent


def what_is_missing() -> str | None:
    """What Spark needs and is not there, with how to install it."""
    packages = [name for name in ("pyspark", "pandas", "pyarrow") if importlib.util.find_spec(name) is None]
    if packages:
        return f"needs {', '.join(packages)}: pip install 'diskstream[spark]'"
    if find_java() is None:
        return f"needs Java {OLDEST} or later: install it (Debian: apt-get install openjdk-17-jre-headless)"
    return None


def spark_home() -> Path:
    """The folder of the installed package, without importing it."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def environment() -> dict[str, str]:
    """What Spark's programs see: this Python, this repository, and nothing that was set up for another Spark."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return kept | {
        "JAVA_HOME": str(find_java()),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(path),
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SUBMIT_OPTS": quick_java.options(),
    }


def settings(folder: Path, master: str) -> dict[str, str]:
    """What every session of a test has; its files are below `folder`."""
    return {
        "spark.app.name": "diskstream tests",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"{quick_java.options()} -Djava.io.tmpdir={folder}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.executor.extraJavaOptions": quick_java.options(),
        "spark.executorEnv.PYTHONPATH": environment()["PYTHONPATH"],
        "spark.local.dir": str(folder / "local"),
        "spark.log.level": "ERROR",
        "spark.master": master,
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.checkpointLocation": str(folder / "checkpoints"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def start(of: Mapping[str, str]) -> "SparkSession":
    """The one session of this process. Only while its JVM starts the environment is that of `environment()`."""
    from pyspark.sql import SparkSession

    with patch.dict(os.environ, environment(), clear=True):
        builder = SparkSession.builder
        for name, value in of.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()


def stop(session: "SparkSession", limit_s: float = 10) -> None:
    """Ends the session and its JVM, which Spark leaves running until Python ends."""
    from pyspark import SparkContext

    gateway = session.sparkContext._gateway
    assert gateway is not None
    session.stop()
    with contextlib.suppress(OSError):
        gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    process: subprocess.Popen[bytes] = gateway.proc
    with process:
        try:
            process.communicate(timeout=limit_s)  # at the end of its standard input it removes its files, and ends
        except subprocess.TimeoutExpired:
            process.kill()
