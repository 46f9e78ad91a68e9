"""Processes that outlive the child that started them: they are adopted and waited for, so that what they used is ours.

The times of a process count for its parent once it was waited for. A JVM ends without waiting for its Python workers,
which the kernel then gives to the first process of all: what they used would count as other people's.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>
_PATIENCE_S = 30.0


@contextmanager
def adopted() -> Iterator[None]:
    """Within, this process becomes the parent of orphans below it; at the end they are waited for, or stopped."""
    before = set(children())
    _adopt(orphans=True)
    try:
        yield
    finally:
        # An orphan that ends leaves children of its own behind: they are adopted as well, until there are none.
        deadline = time.monotonic() + _PATIENCE_S
        while new := set(children()) - before:
            late = time.monotonic() > deadline
            for child in new:
                with suppress(ProcessLookupError, ChildProcessError):
                    if late:
                        os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0 if late else os.WNOHANG)
            time.sleep(0.05)
        _adopt(orphans=False)


def _adopt(*, orphans: bool) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, int(orphans), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def orphan_the_children_of(words: bytes) -> None:
    """Kills the processes below this one whose command line has `words`, but for those forked from such a one.

    A process that ignores SIGCHLD, as PySpark's daemon does, has its children vanish with what they used. Without it
    they are adopted; of a daemon that forks what `words` are is the command line of its children too.
    """
    found = {number for number in descendants() if words in _command_line(number)}
    for number in found:
        if _parent(number) not in found:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)


def descendants() -> list[int]:
    """The processes below this one."""
    parents = {int(process.name): _parent(int(process.name)) for process in Path("/proc").glob("[0-9]*")}
    found, new = [], [os.getpid()]
    while new:
        new = [number for number, parent in parents.items() if parent in new]
        found += new
    return found


def children(of: int | None = None) -> list[int]:
    """The processes whose parent is `of`: this one where it is not named."""
    wanted = os.getpid() if of is None else of
    return [int(process.name) for process in Path("/proc").glob("[0-9]*") if _parent(int(process.name)) == wanted]


def _parent(of: int) -> int:
    try:
        return int(Path(f"/proc/{of}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0  # it has ended


def _command_line(of: int) -> bytes:
    try:
        return Path(f"/proc/{of}/cmdline").read_bytes()
    except OSError:
        return b""
