"""What a fork waits for: other threads of this process that have a lock for themselves alone, for which others wait.

A child has its parent's openings of files, and with them the locks: also where it closes descriptors, by the mappings
of a thread that is not there any more. The parent gives them up when it is done. One that is killed before leaves them
to the child: everybody would wait for as long as that lives, and the child itself for ever.

So it would where it needs a module that a thread was importing: in the child Python's lock of that stays taken. And
where a thread was in a transaction of the view: a child cannot end it, nor close what it is in. And where one waits for
an answer of object storage: its client has a lock then that a child needs to make one of its own.
"""

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Iterator

__all__ = ["Alone", "begin", "end", "importing"]

# How long a fork waits, and how long it sleeps between two looks. Such a lock is had for milliseconds, but for the
# repair of a large log after a crash, and a storage that is silent: they must not keep a process from forking for ever.
_PATIENCE_S, _LOOK_S = 5.0, 0.0005
# Taken by who begins, but not by who ends, and held by who forks. A plain lock and a dict are changed in one native
# step each: a signal handler that raises leaves neither half changed.
_GATE = threading.RLock()
_ALONE: dict[object, int] = {}  # of each lock or import, by what its owner calls it, the thread


def begin(lock: object) -> None:
    """Says that this thread is about to take a lock for itself alone, and will `end` that before long."""
    me = threading.get_ident()
    if me in list(_ALONE.values()):  # a fork waits for this thread already, which is not to wait for the fork
        _ALONE[lock] = me
        return
    with _GATE:
        _ALONE[lock] = me


def end(lock: object) -> None:
    """Says that it has not, or not any more; nothing where that was said before."""
    _ALONE.pop(lock, None)


class Alone:
    """The same for as long as somebody holds this: from its making until nobody does.

    That ends it in one native step. Of a `__del__` an error that a signal handler raises in it is printed, and lost.
    Nothing but the dict keeps the reference: one that is not in it any more calls nobody.
    """

    def __init__(self) -> None:
        begin(weakref.ref(self, _ALONE.pop))


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Around an import that may be the first of its module, in a call that any thread may make."""
    lock = object()
    begin(lock)
    try:
        yield
    finally:
        end(lock)


def _wait_for_others() -> None:
    ends, me = time.monotonic() + _PATIENCE_S, threading.get_ident()  # who forks in a signal handler may have one
    while any(thread != me for thread in list(_ALONE.values())) and time.monotonic() < ends:
        time.sleep(_LOOK_S)


def _after_fork() -> None:
    _ALONE.clear()
    if _GATE.acquire(blocking=False):
        _GATE.release()
    else:  # a thread that is not here has it: a signal handler raised as the fork waited for it
        _GATE._at_fork_reinit()  # type: ignore[attr-defined]  # what threading itself calls after a fork


os.register_at_fork(before=_wait_for_others)
# Before that, and native: a signal that came in a fork is heard at the first step of Python code behind it. Were that a
# step of what opens the gate, an error of the handler would end it there, and be lost: the gate stayed shut, for ever.
os.register_at_fork(before=_GATE.acquire, after_in_parent=_GATE.release, after_in_child=_GATE.release)
os.register_at_fork(after_in_child=_after_fork)
