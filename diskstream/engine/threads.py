"""Threads that are begun in calls which a signal may interrupt."""

import sys
import threading

__all__ = ["begun"]


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
