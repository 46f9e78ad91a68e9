"""The end of a log that is open: what it rests on made durable, and marked so, before it is let go of or moved."""

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from diskstream._native import Ctl
from diskstream.engine import frontier, roll
from diskstream.engine.looks import is_there
from diskstream.engine.making_way import wanting
from diskstream.engine.page import APPEND, FLAG_MOVED, MAINTENANCE, POISONED
from diskstream.engine.threads import begun
from diskstream.engine.whereabouts import StreamMoved, gone_by_hand
from diskstream.errors import DiskstreamError, PoisonedError, StorageError

if TYPE_CHECKING:
    from diskstream.engine.log import StreamLog

__all__ = [
    "BESIDE",
    "append_lock_at_once",
    "check_removed",
    "close_beside",
    "close_idle",
    "flush",
    "leave",
    "mark_clean",
]


# Those that close logs beside, until they have.
BESIDE: set[threading.Thread] = set()
_REMOVED = "its files were removed while it was open, and what was added since then with them"


class _Busy(Exception):  # noqa: N818  # not an error: the log stays open
    """Another process has the append lock."""


@contextlib.contextmanager
def append_lock_at_once(ctl: Ctl) -> Iterator[bool]:
    """The append lock, without waiting for it."""
    with ctl.locked(APPEND, False) as held:
        if not held:
            raise _Busy
        yield True


def flush(log: "StreamLog") -> None:
    """Makes everything durable; nothing where the stream has moved: whoever renamed it has flushed it.

    Behind an append, being sent to look the stream up again would be an append done twice.

    Raises:
        StorageError: the flush failed.
    """
    if log.read_only:
        return
    try:
        log.retry(log.native.flush)
    except StreamMoved:
        if not log.ctl.flags & FLAG_MOVED:
            raise


def check_removed(log: "StreamLog") -> None:
    """Looks whether somebody removed the files under those who have them open; then the stream takes no more writes.

    Raises:
        PoisonedError: somebody did: a flush succeeds, of files that nobody finds again.
    """
    if log.page.was_removed() and not log.ctl.flags & FLAG_MOVED:  # who deletes or renames a stream says so first
        log.ctl.poison(_REMOVED)
        raise PoisonedError(str(log.directory), _REMOVED)


def mark_clean(log: "StreamLog") -> None:
    """Makes everything durable, and says so at the end of the log.

    Raises:
        StreamMoved: the stream is gone from here.
        PoisonedError: its files were removed, and what was not yet durable with them.
        CorruptionError, StorageError: it could not be done.
    """
    if log.ctl.durable != log.ctl.written:  # who only looked on has lost nothing
        check_removed(log)
    roll.put_back(log)
    log.retry(log.native.flush)
    with log.ctl.locked(MAINTENANCE, False) as held:
        # Where it was moved by hand the next to open it sees to that: the files of this name may be another stream's.
        if held and not log.native.catch_up() and not log.page.is_elsewhere():
            log.remove_dropped()
    if log.native.tail[2] == log.marked_lsn:
        return
    if log.native.catch_up() and log.page.is_elsewhere():
        return  # others went on in files that cannot be found from here: they, or the next to open them, mark it
    with log.locked():
        log.prepare()
        # The mark says that all before it was durable: a bad frame found later is rot, not a torn tail.
        log.retry(log.native.mark, held=True)
    log.retry(log.native.flush)
    with log.locked():
        frontier.retract(log.native, log.file, log.page)


def close_idle(log: "StreamLog") -> bool:
    """Closes a log that no thread of this process uses, nor can any more. Returns whether it is closed.

    It is not where another process has the append lock, or where the next who uses it must learn that a flush failed.
    The lock is not waited for: whoever closes this log may have another's, for which that process may be waiting.
    """
    log.waits = False
    try:
        if log.must_be_marked:
            log._close_cleanly()
    except _Busy:
        return False
    except StreamMoved:
        pass  # whoever moved it has flushed it
    except DiskstreamError:
        pass  # the mark is missing, so the next to open it looks at it as after a crash
    finally:
        log.waits = True
    if log.ctl.flags & POISONED and not log.read_only:
        return False
    log.abandon(waits=False)
    return True


def close_beside(log: "StreamLog") -> None:
    """Closes a log in a thread of its own, which can wait for the lock that this one has. None while Python ends."""

    def close() -> None:
        try:
            with contextlib.suppress(DiskstreamError, StreamMoved):
                log.close()
        finally:
            BESIDE.discard(thread)

    if sys.is_finalizing():
        return
    thread = threading.Thread(target=close, name="diskstream-leaving")
    BESIDE.add(thread)
    try:
        begun(thread)
    except RuntimeError:  # there are too many threads
        BESIDE.discard(thread)


def leave(log: "StreamLog", move: Callable[[], Path], *, flush: bool) -> None:
    """Tells every process that this directory is not the stream's any more, and moves it; with `flush`, durable.

    `move` gives the directory its new place and returns it. The control page goes only then: who looks for the old
    name meanwhile finds it, and waits for its lock. Raises StreamMoved where somebody was faster.
    """
    with wanting(log.directory), log.ctl.locked(MAINTENANCE), log.locked():
        log.refresh()
        if flush and not log.is_damaged:
            log.retry(log.native.flush, held=True)
        try:
            log.ctl.raise_flags(FLAG_MOVED)
            place = move()
        except BaseException as error:
            if is_there(log.directory):
                log.ctl.clear_flags(FLAG_MOVED)
            elif isinstance(error, FileNotFoundError):
                raise gone_by_hand(log.directory, "move") from error
            raise
        if flush and not log.is_damaged:
            frontier.retract_moved(log.native, log.file)
        with contextlib.suppress(StorageError):  # it has moved; who opens the page next removes it
            log.files.unlink(place / "ctl")
