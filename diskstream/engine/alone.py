"""Being alone with a store: no process has it open, and none can open it for writing meanwhile."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from diskstream.engine.files import Files
from diskstream.engine.locks import Locks
from diskstream.engine.moved import FORKS
from diskstream.errors import StoreBusyError

__all__ = ["alone", "of_thread", "users"]


@contextlib.contextmanager
def alone(store: Path, files: Files) -> Iterator[None]:
    """Holds the store's page for itself; who opens the store meanwhile waits.

    Raises:
        StoreBusyError: somebody has the store open, or repairs it.
        StorageError: the disk or the system said no.
    """
    path = store / "ctl"
    before = FORKS.count
    fd, _ = files.open_ctl(path)
    locks = Locks(fd, before)
    try:
        if not locks.taken(path):
            raise StoreBusyError(str(store), users(path))
        yield
    finally:
        locks.close()


def users(path: Path) -> list[str]:
    """Who holds a lock on a file, as far as the system tells: process numbers and names of programs."""
    try:
        status = path.stat()
        lines = Path("/proc/locks").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []
    wanted = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    found: dict[int, str] = {}
    for line in lines:
        words = line.split()
        if wanted in words and words.index(wanted) > 0:
            holder = words[words.index(wanted) - 1]
            if holder.isdigit() and int(holder) != os.getpid():
                found[int(holder)] = _program(int(holder))
    return [f"{pid} ({name})" if name else str(pid) for pid, name in sorted(found.items())]


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def of_thread(number: int) -> dict[str, str | int]:
    """Whose a thread is, and how that process is, as `ps` says it: ``T (stopped)``; as far as the system tells."""
    found: dict[str, str | int] = {"thread": number}
    try:
        lines = Path(f"/proc/{number}/status").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # it is gone, or of another user whose processes are hidden
        return found
    said = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    if said.get("Tgid", "").strip().isdigit():
        found["process"] = int(said["Tgid"])
    for what, word in (("Name", "program"), ("State", "state")):
        if what in said:
            found[word] = said[what].strip()
    return found
