"""Which Java runs Spark here: that of JAVA_HOME, or the `java` on the path, whichever is new enough.

As a program, for the Makefile: ends with a message where there is none.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

# What Spark 4 is compiled for.
OLDEST = 17


def find_java() -> Path | None:
    """The folder for JAVA_HOME; None where there is no Java, or an old one only."""
    named = os.environ.get("JAVA_HOME")
    programs = [shutil.which("java", path=f"{named}/bin") if named else None, shutil.which("java")]
    return next((home for program in programs if program and (home := _home_if_new_enough(program))), None)


def _home_if_new_enough(program: str) -> Path | None:
    """Asks Java itself: what is on the path may be a link or a script far away from its home."""
    asked = subprocess.run(
        [program, "-XshowSettings:properties", "-version"], capture_output=True, text=True, timeout=60, check=False
    )
    lines = (line.partition(" = ") for line in asked.stderr.splitlines())
    settings = {name.strip(): value.strip() for name, _, value in lines}
    version = settings.get("java.specification.version", "")
    if asked.returncode or not version.isdecimal() or int(version) < OLDEST:  # Java 8 calls itself 1.8
        return None
    return Path(settings["java.home"])


if __name__ == "__main__" and find_java() is None:
    sys.exit(f"Java {OLDEST} or later is missing")
