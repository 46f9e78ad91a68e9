"""That workers have what the driver has: what one pickles the other must understand alike."""

import diskstream
from diskstream.errors import DiskstreamError

__all__ = ["VERSION", "check"]

VERSION = diskstream.__version__


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
