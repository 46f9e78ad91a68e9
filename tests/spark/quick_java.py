"""How the JVMs of tests are started, of which a cluster has a dozen: soon there, and soon over."""

import functools
import importlib.metadata
import importlib.util
import re
import sys
from pathlib import Path

from tests.spark.java import find_java

# A test is over before the second compiler has paid for itself, one thread collects garbage well enough, and a JVM that
# is killed leaves no counters in /tmp.
_QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"


@functools.cache
def archive() -> Path | None:
    """The file of Spark's classes as a JVM has them once they are parsed, for this Spark and this Java.

    With it a session starts in half the time (application class data sharing). `shared_classes` makes it. None where
    Spark or Java is missing, or Java does not say which it is.
    """
    home = find_java() if importlib.util.find_spec("pyspark") is not None else None
    release = None if home is None else home / "release"
    if release is None or not release.is_file():
        return None
    found = re.search(r'^JAVA_RUNTIME_VERSION="([^"]+)"', release.read_text(), re.MULTILINE)
    if found is None:
        return None
    return Path(sys.prefix) / "spark-classes" / f"{importlib.metadata.version('pyspark')}-{found[1]}.jsa"


def options() -> str:
    """What a JVM of a test is given. Classes that it cannot take from the file, or all, it parses as ever, unsaid."""
    path = archive()
    return f"{_QUICK} -XX:SharedArchiveFile={path} -Xlog:cds=off" if path and path.is_file() else _QUICK
