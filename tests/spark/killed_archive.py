"""A program that archives and is killed: `python -m tests.spark.killed_archive STORE ARCHIVE POINT`."""

import os
import signal
import sys
from typing import Any
from unittest.mock import patch

from diskstream.spark.jobs import archive, settling
from diskstream.spark.jobs.archive import ArchiveSettings
from diskstream.spark.jobs.parts import PartWriter
from diskstream.spark.jobs.place import Place
from tests.spark.archives import NO_SPARK, in_process

# Each is called a number of times; the process dies at the last one, before or after it.
POINTS = {
    "half a file": (PartWriter, "write", 2, False),
    "files, not verified": (PartWriter, "close", 2, True),
    "before the commit": (settling, "commit", 1, False),
    "a manifest with two names": (Place, "remove", 2, False),
    "after the commit": (settling, "commit", 1, True),
}


def main() -> None:
    """Archives, and dies."""
    store, root, point = sys.argv[1:]
    owner, name, calls, after = POINTS[point]
    original, left = getattr(owner, name), [calls]

    def deadly(*given: Any, **options: Any) -> Any:
        left[0] -= 1
        if left[0] == 0 and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*given, **options)
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, deadly)
    with patch.object(archive, "run_tasks", in_process):
        archive.run(NO_SPARK, ArchiveSettings(store, root))


if __name__ == "__main__":
    main()
