"""That workers have what the driver has: what one pickles the other must understand alike."""

import re

import diskstream
from diskstream.errors import DiskstreamError

__all__ = ["VERSION", "check", "lacking"]

VERSION = diskstream.__version__

_OTHER_PYTHON = re.compile(r"Python in worker has different version: ([\d.]+) than that in driver: ([\d.]*\d)")
_NO_PACKAGE = re.compile(r"^ModuleNotFoundError: No module named '(\w+)", re.MULTILINE)


def check(driver: str) -> None:
    """Compares a worker's version with the driver's.

    Raises:
        DiskstreamError: they differ.
    """
    if driver != VERSION:
        raise DiskstreamError(
            f"the driver has diskstream {driver}, this worker {VERSION}: install the same on all of them, or send it "
            "along with spark.archives"
        )


def lacking(told: str) -> str | None:
    """What a worker lacks, in a user's words, where it came to no look at versions; None where that is not why.

    Args:
        told: the message of Spark's error, with its traces.
    """
    if python := _OTHER_PYTHON.search(told):
        return (
            f"the driver has Python {python[2]}, a worker {python[1]}: install the same on all of them, and name it by "
            "PYSPARK_PYTHON"
        )
    if package := _NO_PACKAGE.search(told):
        return (
            f"a worker has no {package[1]}: pip install 'diskstream[spark]' there, into the Python that PYSPARK_PYTHON "
            "names, or send it along with spark.archives"
        )
    return None
