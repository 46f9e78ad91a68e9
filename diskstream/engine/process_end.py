"""What is done as this process ends: by the interpreter, or by multiprocessing, whose forks end without that."""

import atexit
import sys
import threading
from collections.abc import Callable, Iterable

from diskstream.engine.moved import FORKS

__all__ = ["at_end", "expect"]

_ACTIONS: list[Callable[[], None]] = []
# A finalizer of multiprocessing runs behind those of its own, which end a process's children.
_LAST = -100


class _Expected:
    """In which of the processes that were forked from the first the end was seen to last."""

    at = -1


def at_end(action: Callable[[], None]) -> None:
    """Has something done as the interpreter ends, and in the other processes that `expect` their end."""
    _ACTIONS.append(action)
    atexit.register(action)


def expect() -> None:
    """Says that there is something to be done as this process ends.

    A child that multiprocessing has forked, itself or by a server of forks, ends by `os._exit`, behind its finalizers:
    what `atexit` has is not done there. A finalizer from before the child begins to run is forgotten then.
    """
    process = sys.modules.get("multiprocessing.process")
    if process is None or process.parent_process() is None or _Expected.at == FORKS.count:
        return
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.Finalize(None, _end, exitpriority=_LAST)
        _Expected.at = FORKS.count


def _end() -> None:
    """Finalizers come before threads that are waited for: what is to be done is done behind them once more."""
    _act()
    threads = [each for each in threading.enumerate() if not each.daemon and each is not threading.current_thread()]
    if threads:
        threading.Thread(target=_act, args=(threads,), name="diskstream-end").start()


def _act(behind: Iterable[threading.Thread] = ()) -> None:
    for thread in behind:
        thread.join()
    for action in _ACTIONS:
        action()
