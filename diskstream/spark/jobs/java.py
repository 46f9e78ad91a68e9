"""The Java that Spark will run on, looked at before Spark is started: what that says of a missing one helps nobody. And
where Spark is."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from diskstream.errors import DiskstreamError

__all__ = ["OLDEST_JAVA", "check_java", "spark_home"]

OLDEST_JAVA: Final = 17  # what Spark 4 is compiled for
_INSTALL: Final = "install it (Debian: apt-get install openjdk-17-jre-headless), or set JAVA_HOME"
_ANSWER_S: Final = 60.0


def spark_home() -> Path:
    """Where the Spark is that this Python starts."""
    import pyspark

    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)


def check_java() -> str:
    """Makes sure that there is a Java, where Spark's start script looks for it, and that it is new enough.

    Returns:
        The program.

    Raises:
        DiskstreamError: there is none, it is too old, or it does not run; the message says what to do.
    """
    home = os.environ.get("JAVA_HOME")
    if _is_set_by_spark():
        return f"{home}/bin/java" if home else "java"
    program = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if program is None:
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "there is no java on the path"
        raise DiskstreamError(f"Spark needs Java {OLDEST_JAVA} or later, but {where}: {_INSTALL}")
    found = _asked(program)
    if not found.isdecimal() or int(found) < OLDEST_JAVA:  # Java 8 calls itself 1.8
        raise DiskstreamError(f"Spark needs Java {OLDEST_JAVA} or later, but {program} is Java {found}: {_INSTALL}")
    return program


def _is_set_by_spark() -> bool:
    """Whether a file that Spark's start script reads may name another Java."""
    places = os.environ.get("SPARK_CONF_DIR"), os.environ.get("SPARK_HOME", "") and f"{os.environ['SPARK_HOME']}/conf"
    place = next((place for place in places if place), None)
    return place is not None and Path(place, "spark-env.sh").exists()


def _asked(program: str) -> str:
    try:
        asked = subprocess.run(
            [program, "-XshowSettings:properties", "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_ANSWER_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DiskstreamError(f"Spark needs Java, but {program} does not run ({error}): {_INSTALL}") from error
    version = re.search(rb"java\.specification\.version = (\S+)", asked.stderr)
    if asked.returncode or version is None:
        raise DiskstreamError(f"Spark needs Java, but {program} does not say which one it is: {_INSTALL}")
    return version[1].decode(errors="replace")
