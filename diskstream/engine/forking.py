"""What a fork waits for: other threads of this process that have a lock for themselves alone, for which others wait.

A child has its parent's openings of files, and with them the locks: also where it closes descriptors, by the mappings
of a thread that is not there any more. The parent gives them up when it is done. One that is killed before leaves them
to the child: everybody would wait for as long as that lives, and the child itself for ever.

So it would where it needs a module that a thread was importing: in the child Python's lock of that stays taken.
"""

import contextlib
import os
import threading
import time
from collections.abc import Iterator

__all__ = ["begin", "end", "importing"]

# How long a fork waits, and how long it sleeps between two looks. Such a lock is had for milliseconds, but for the
# repair of a large log after a crash, which must not keep a process from forking for ever.
_PATIENCE_S, _LOOK_S = 5.0, 0.0005
# Taken by who begins, but not by who ends, and held by who forks. A plain lock and a dict are changed in one native
# step each: a signal handler that raises leaves neither half changed.
_GATE = threading.RLock()
_SHUT: list[threading.RLock] = []
_ALONE: dict[object, int] = {}  # of each lock or import, by what its owner calls it, the thread


def begin(lock: object) -> None:
    """Says that this thread is about to take a lock for itself alone, and will `end` that before long."""
    with _GATE:
        _ALONE[lock] = threading.get_ident()


def end(lock: object) -> None:
    """Says that it has not, or not any more; nothing where that was said before."""
    _ALONE.pop(lock, None)


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Around an import that may be the first of its module, in a call that any thread may make."""
    lock = object()
    begin(lock)
    try:
        yield
    finally:
        end(lock)


def _before_fork() -> None:
    _SHUT.append(_GATE)  # before anything that an interrupt may end: the gate is opened again all the same
    _GATE.acquire()
    ends, me = time.monotonic() + _PATIENCE_S, threading.get_ident()  # who forks in a signal handler may have one
    while any(thread != me for thread in list(_ALONE.values())) and time.monotonic() < ends:
        time.sleep(_LOOK_S)


def _go_on() -> None:
    while _SHUT:
        try:
            _SHUT.pop().release()
        except RuntimeError:  # it was interrupted as it began
            continue


def _after_fork() -> None:
    global _GATE  # noqa: PLW0603  # a thread that is not here may have held it
    _GATE = threading.RLock()
    _SHUT.clear()
    _ALONE.clear()


os.register_at_fork(before=_before_fork, after_in_parent=_go_on, after_in_child=_after_fork)
