"""What runs under callgrind: ``python -m bench.counts.child run DIRECTORY NAME...``, the workloads one after the other.

Each stands between two calls of ``os.getsid``, which nothing else calls: callgrind dumps what it has counted so far
whenever that function is entered, so that every second dump holds one workload and nothing else.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

from bench.counts.workloads import WORKLOADS, die_while_writing


def mark() -> None:
    """Ends one dump and begins the next."""
    os.getsid(0)


def run(directory: Path, names: list[str]) -> None:
    """Runs the workloads that were prepared in `directory`."""
    for name in names:
        workload = WORKLOADS[name]
        with workload.opened(directory / name) as operate:
            operate(workload.warm)
            gc.collect()
            mark()
            operate(workload.operations)
            mark()


if __name__ == "__main__":
    if sys.argv[1] == "die":
        die_while_writing(Path(sys.argv[2]))
    run(Path(sys.argv[2]), sys.argv[3:])
