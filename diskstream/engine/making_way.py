"""Who removes or renames a stream does not wait until it is sealed or compacted: whoever does that makes way.

A mover has the lock of the store's names while it waits for the lock of maintenance, and everybody waits with it who
makes, renames or removes any stream. So it says beforehand that it wants the files, by a lock on the stream's directory
that goes with a process that is killed. Who is at them looks for it between two blocks, drops the file that it has not
finished, gives the lock up, and goes on when the mover is done, or finds that the stream has moved.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from diskstream.engine.directory_lock import DirectoryLock, is_taken
from diskstream.engine.moved import StreamMoved
from diskstream.engine.page import MAINTENANCE

if TYPE_CHECKING:
    from diskstream.engine.log import StreamLog

__all__ = ["Progress", "making_way", "wanting"]

# Called with the entries just packed, and the bytes of segments just written.
Progress = Callable[[int, int], None]

# A mover that has not had its turn by then is stopped, or waits for others: it waits for this work as well.
_PATIENCE_S = 5.0
_LOOK_S = 0.01


class _Wanted(Exception):  # noqa: N818  # not an error: the work goes on later
    """Somebody is about to move the stream."""


@contextlib.contextmanager
def wanting(directory: Path) -> Iterator[None]:
    """Says that the stream in a directory is about to be moved, for as long as this lasts."""
    lock = DirectoryLock(directory)
    try:
        lock.take()
        yield
    finally:
        lock.close()


def making_way(log: "StreamLog", work: Callable[[Progress], None], progress: Progress, *, wait: bool = True) -> bool:
    """Does some work under the lock of maintenance; from its beginning again where it made way for a mover.

    Args:
        log: the stream.
        work: what to do: it calls what it is given as it calls `progress`, and ends by what that raises.
        progress: what is told of each step.
        wait: for whoever else is at the stream's files.

    Returns:
        Whether it was done. It was not where others were at it, and `wait` is false.

    Raises:
        StreamMoved: the stream is gone from here, or the log was closed.
    """
    has_patience = True

    def watched(entries: int, size_bytes: int) -> None:
        progress(entries, size_bytes)
        if log.closed:  # whoever closes it waits for this
            raise StreamMoved
        if has_patience and is_taken(log.directory):
            raise _Wanted

    while True:
        try:
            with log.ctl.locked(MAINTENANCE, wait) as held:
                if held:
                    log.refresh()
                    work(watched)
                return held
        except _Wanted:
            has_patience = _let_go_first(log.directory)


def _let_go_first(directory: Path) -> bool:
    """Waits while a mover has its turn. Returns whether it had: if not, it is not made way for again."""
    until, never = time.monotonic() + _PATIENCE_S, threading.Event()
    while is_taken(directory):
        if time.monotonic() > until:
            return False
        never.wait(_LOOK_S)
    return True
