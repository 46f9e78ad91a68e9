"""What was measured on: processor, memory, kernel, file system, versions."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import diskstream

# In memory, so that a flush costs nothing: figures from there say nothing of a disk.
NOT_A_DISK = frozenset({"tmpfs", "ramfs"})


def facts(directory: Path) -> dict[str, str]:
    """The facts that a reader needs to judge the figures."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "diskstream": diskstream.__version__,
        "processor": f"{_processor()}, {len(os.sched_getaffinity(0))} cores",
        "memory": f"{memory:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "file system": file_system(directory),
        "load": f"{os.getloadavg()[0]:.2f}",
        "Python": platform.python_version(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.machine()


def file_system(directory: Path) -> str:
    """The type of the file system that a directory is on: that of the longest mount point above it."""
    where = directory.resolve()
    best, kind = -1, "unknown"
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return kind
    for line in lines:
        before, _, after = line.partition(" - ")
        point = Path(before.split()[4].replace("\\040", " "))
        if where.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), after.split()[0]
    return kind
