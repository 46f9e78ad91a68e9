"""Where the process, or the system, has no more descriptors, those go that are only kept for speed.

Logs and segments stay open after they were used, so that the next use finds them open. How many a process may open is
not the store's to say, though, and others in the process open files too. So whatever opens one is tried again, each
time after some of what is kept and nobody uses was closed, until it succeeds or nothing is left to be closed.

Who keeps something open offers it. Segments go before logs: closing one writes nothing, and waits for nobody.
"""

import errno
import os
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

__all__ = ["are_short", "listing", "means_are_short", "offer", "opened", "says_nothing", "tried_again", "uses"]

_T = TypeVar("_T")
# What is closed at a time: some more than one file needs, for what is opened by others, who do not ask (sockets, say).
_AT_ONCE = 8


def are_short(error: BaseException | None) -> bool:
    """Whether an error says that there are no more descriptors, and so nothing of what was to be opened."""
    return getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE)


def means_are_short(error: BaseException | None) -> bool:
    """Whether an error says that the process, or the system, has no more descriptors or memory.

    Nothing was looked at then: who takes that for damage calls a sound stream damaged.
    """
    return are_short(error) or getattr(error, "errno", None) == errno.ENOMEM


def says_nothing(error: OSError) -> bool:
    """Whether a look or a read failed because the disk or the system did: what is there may be as good as ever.

    Who takes that for an answer, that a file is gone, say, or no longer in use, removes or passes over what is sound.
    """
    return error.errno == errno.EIO or means_are_short(error)


def uses(held: Sequence[object]) -> int:
    """How many hold the one object of a new list, beside the list."""
    return sys.getrefcount(held[0]) - _BY_LIST


_BY_LIST = 0
_BY_LIST = uses([object()])  # the list's, and as many as this Python counts for the call

_GiveUp = Callable[[int], int]
_SEGMENTS: "list[weakref.WeakMethod[_GiveUp]]" = []
_LOGS: "list[weakref.WeakMethod[_GiveUp]]" = []
_WITHIN = threading.local()


def offer(give_up: _GiveUp, *, logs: bool = False) -> None:
    """Says who keeps something open, for as long as it lives.

    Args:
        give_up: a method that closes up to so many of what its object keeps and nobody uses, and returns how many. It
            is called by any thread, which may hold any lock: it must not wait for one that others hold for long.
        logs: these are logs. Closing them may open files, for which no other log is closed then.
    """
    offers = _LOGS if logs else _SEGMENTS
    offers.append(weakref.WeakMethod(give_up, offers.remove))


def _one_gives_up(offers: "list[weakref.WeakMethod[_GiveUp]]") -> bool:
    for each in list(offers):
        give_up = each()
        if give_up is not None and give_up(_AT_ONCE):
            return True
    return False


def _some_are_closed() -> bool:
    if _one_gives_up(_SEGMENTS):
        return True
    if getattr(_WITHIN, "logs", False):
        return False
    _WITHIN.logs = True
    try:
        return _one_gives_up(_LOGS)
    finally:
        _WITHIN.logs = False


def tried_again(attempt: Callable[[], _T]) -> _T:
    """What `attempt` returns, which opens something, and is tried again after descriptors were let go of.

    Raises:
        OSError: there are none, and nothing is left to be closed; or whatever else `attempt` raises.
    """
    while True:
        try:
            return attempt()
        except OSError as error:
            if not (are_short(error) and _some_are_closed()):
                raise


def opened(path: str | os.PathLike[str], flags: int, mode: int = 0o777) -> int:
    """`os.open`, tried again, with a descriptor that no child inherits.

    Where a signal handler raises, it is closed, or is the caller's: who assigns it at once loses none.

    Raises:
        OSError: as `os.open`.
    """
    return tried_again(lambda: _kept(path, flags | os.O_CLOEXEC, mode))


def _kept(path: str | os.PathLike[str], flags: int, mode: int) -> int:
    made: list[int] = []
    try:
        # Natively: behind a call from here the interpreter looks for signals before anybody has what it returned.
        made.extend(map(os.open, (path,), (flags,), (mode,)))
    except BaseException:
        for fd in made:
            os.close(fd)
        raise
    return made[0]


def listing(folder: Path) -> "os._ScandirIterator[str]":
    """`os.scandir`, tried again.

    Raises:
        OSError: as `os.scandir`.
    """
    return tried_again(lambda: os.scandir(folder))
