"""Threads that are begun in calls which a signal may interrupt."""

import errno
import sys
import threading

from diskstream.errors import StorageError, storage_error

__all__ = ["begun", "too_many"]


def begun(thread: threading.Thread) -> None:
    """Starts a thread, which may run also where this raises. What a signal handler raises meanwhile comes as it is.

    `Thread.start` stumbles behind such an error over what it had half done, and raises a KeyError or a RuntimeError in
    its place: Ctrl-C would be told as a missing key, or as a system that has no more threads.

    Raises:
        RuntimeError: there are too many threads.
    """
    handled = sys.exc_info()[1]
    try:
        thread.start()
    except (KeyError, RuntimeError) as error:
        meant = error.__context__
        if meant is None or meant is handled:
            raise
    else:
        return
    raise meant


def too_many(wanted_by: str, error: RuntimeError) -> StorageError:
    """What is raised where `begun` says that there are too many threads.

    Args:
        wanted_by: what the thread was to be for: a path, or words.
        error: the one that `begun` raised.
    """
    return storage_error(wanted_by, "start a thread for", errno.EAGAIN, str(error))
