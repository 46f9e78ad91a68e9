"""Columnar scans: the classes for Spark's JVM that take batches as columns, compiled for one version and put to use.

Spark makes rows of what a Python data source reads, one by one; with these classes (`ColumnarScans.scala`,
`FlatVectors.scala`, `SharedColumns.scala`) it takes the columns as they are, as from its own Parquet reader. They use
what Spark keeps to itself, so a jar is for one version of Spark, and no other version's is used: then, and where there
is none, scans go by rows.

    python -m diskstream.spark.columnar [folder]

compiles them with the Scala compiler that comes with PySpark, once for an installation: beside their source, where
`diskstream.spark.register` looks, or into a folder, for the setting `spark.jars`.
"""

import logging
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from diskstream.errors import DiskstreamError
from diskstream.spark.jobs.java import check_java, spark_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["PACKAGE", "compile_jar", "jar_for", "scan_by_columns"]

_PLACE: Final = Path(__file__).parent
_SOURCES: Final = ("ColumnarScans.scala", "FlatVectors.scala", "SharedColumns.scala")
PACKAGE: Final = "org.apache.spark.sql.execution.python.diskstream"
_OPTIONS: Final = ("-Xlint", "-Werror", "-release", "17")  # the oldest Java that Spark 4 runs on
_COMPILES_S: Final = 300.0
_LOG: Final = logging.getLogger(__name__)


def jar_for(version: str, place: Path = _PLACE) -> Path:
    """Where the jar for a version of Spark is, once it has been compiled."""
    return place / f"diskstream-columnar-{version}.jar"


def scan_by_columns(spark: "SparkSession", *, on: bool = True, place: Path = _PLACE) -> bool:
    """Has reads of a session, as batches and as streams, go by columns, or by rows again.

    Args:
        spark: the session. One that is connected to a server has its plans made there: nothing is changed.
        on: by columns. By rows is no choice where the session's own settings (`spark.sql.extensions`) say by columns.
        place: where jars are.

    Returns:
        Whether reads go by columns from now on: not where there is no jar for the session's Spark.
    """
    from py4j.protocol import Py4JError

    session: Any = getattr(spark, "_jsparkSession", None)
    if session is None:
        return False
    try:
        switch = _loaded(spark, session) or (_added(spark, session, jar_for(spark.version, place)) if on else None)
        if switch is None:
            return False
        switch.turn(session, on)
    except Py4JError as error:  # it is for speed alone
        _LOG.warning("reads of this session go by rows: %s", error)
        return False
    return on


def _added(spark: "SparkSession", session: Any, jar: Path) -> Any:
    if not jar.is_file():
        return None
    session.sessionState().resourceLoader().addJar(str(jar))  # the processes of tasks fetch it from the driver
    return _loaded(spark, session)


def _loaded(spark: "SparkSession", session: Any) -> Any:
    """The switch, where the session has its class: of a jar that was added to it, or that it was started with."""
    from py4j.protocol import Py4JJavaError

    gateway: Any = spark.sparkContext._gateway
    try:
        switch = session.sharedState().jarClassLoader().loadClass(f"{PACKAGE}.ColumnarSwitch")
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() != "java.lang.ClassNotFoundException":
            raise
        return None
    nothing = gateway.new_array(gateway.jvm.java.lang.Object, 0)
    return switch.getConstructor(gateway.new_array(gateway.jvm.java.lang.Class, 0)).newInstance(nothing)


def compile_jar(place: Path = _PLACE) -> Path:
    """Compiles the classes for the Spark that this Python has.

    Returns:
        The jar, in `place`.

    Raises:
        DiskstreamError: there is no Java, no compiler, or the source does not fit this Spark; the message holds what
            the compiler says.
        OSError: the folder cannot be written to.
    """
    import pyspark

    home = spark_home()
    jar = jar_for(pyspark.__version__, place)
    with tempfile.TemporaryDirectory(dir=place) as scratch:
        made = Path(scratch, jar.name)
        compiler = [check_java(), "-cp", f"{home}/jars/*", "scala.tools.nsc.Main", "-usejavacp"]
        words = [*compiler, *_OPTIONS, "-d", str(made), *(str(_PLACE / name) for name in _SOURCES)]
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_COMPILES_S, check=False, text=True
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise DiskstreamError(f"the Scala compiler in {home}/jars does not run: {error}") from error
        if done.returncode or not made.is_file():
            raise DiskstreamError(
                f"columnar scans could not be compiled for the Spark {pyspark.__version__} in {home}; without them "
                f"scans go by rows. The compiler says:\n{done.stderr or done.stdout}"
            )
        made.replace(jar)
    return jar
