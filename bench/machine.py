"""What a figure was measured on: processor, memory, kernel, file system, versions. No names of hosts or paths."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import resource
import shutil
import sqlite3
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

from bench.context import CHECKOUT, file_system


def _first_line(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return "not installed"
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=CHECKOUT)
    return (done.stdout.strip().splitlines() or [""])[0]


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _revision() -> str:
    revision = _first_line("git", "rev-parse", "--short=10", "HEAD")
    changed = _first_line("git", "status", "--porcelain", "--untracked-files=no") if revision else ""
    return (revision or "none") + (" with changes" if changed else "")


def _virtual() -> str:
    return "a virtual machine" if " hypervisor" in Path("/proc/cpuinfo").read_text() else "no hypervisor seen"


class Neighbours:
    """How much of the machine others used while the suite ran: what was busy, less what we and our children used."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._busy, self._own = _busy_seconds(), _own_seconds()

    def cores(self) -> float:
        """In cores, on average. Children count once they have ended."""
        others = (_busy_seconds() - self._busy) - (_own_seconds() - self._own)
        return max(0.0, others) / (time.monotonic() - self._begin)


def _busy_seconds() -> float:
    user, nice, system, _, _, _, _, steal = (int(word) for word in Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + steal) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def facts(scratch: Path) -> dict[str, str]:
    """The facts that a reader needs to judge the figures."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    redis = _first_line("redis-server", "--version")
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "processor": f"{_processor()}, {len(os.sched_getaffinity(0))} cores, {_virtual()}",
        "memory": f"{memory:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "file system": file_system(scratch),
        "load before the run": f"{os.getloadavg()[0]:.2f}",
        "diskstream": f"{_version('diskstream')}, revision {_revision()}",
        "Python": platform.python_version(),
        "Redis": next((word[2:] for word in redis.split() if word.startswith("v=")), redis),
        "redis-py": f"{_version('redis')}, hiredis {_version('hiredis')}",
        "SQLite": sqlite3.sqlite_version,
        "pyarrow": _version("pyarrow"),
    }
