"""What a store had open that nobody closed and nobody holds any more."""

import contextlib
import os

from diskstream.engine.descriptors import uses
from diskstream.engine.kept_open import SharedCache
from diskstream.engine.log import StreamLog, StreamMoved
from diskstream.engine.page import Page
from diskstream.errors import ClosedError, DiskstreamError
from diskstream.retainer import Retainer

__all__ = ["Dropped"]

# Only to reach them in a forked child, where their descriptors are the parent's.
_DROPPED: "set[Dropped]" = set()


class Dropped:
    """The parts of such a store, until they are let go of."""

    def __init__(self, logs: dict[bytes, StreamLog], page: Page, cache: SharedCache, retainer: Retainer) -> None:
        self._logs, self._page, self._cache, self._retainer = logs, page, cache, retainer
        _DROPPED.add(self)

    def let_go(self) -> None:
        """Makes everything durable, and closes it; what something still reads is closed behind that.

        Raises:
            DiskstreamError: a flush failed. All is let go of all the same.
        """
        fault: DiskstreamError | None = None
        try:
            self._retainer.stop()
            with contextlib.ExitStack() as closing:
                closing.callback(self._page.close)
                closing.callback(self._cache.cold.close)
                for name in list(self._logs):
                    is_read = uses([self._logs[name]]) > 1
                    try:
                        _end(self._logs[name], is_read=is_read)
                    except DiskstreamError as error:
                        fault = fault or error.with_traceback(None)  # which would hold the log
                    del self._logs[name]  # not before: a child that is forked finds it here
        finally:
            _DROPPED.discard(self)
        if fault is not None:
            raise fault

    def _after_fork(self) -> None:
        for log in self._logs.values():
            log.after_fork()
        self._page.after_fork()


def _end(log: StreamLog, *, is_read: bool) -> None:
    if not is_read or log.closed:  # by who was interrupted then: nobody reads it any more
        log.close()
        return
    with contextlib.suppress(StreamMoved, ClosedError):  # whoever moved it, or closed it meanwhile, has flushed it
        log.flush()
    log.retire()


def _after_fork() -> None:
    for each in list(_DROPPED):
        each._after_fork()  # the module's own class
    _DROPPED.clear()


os.register_at_fork(after_in_child=_after_fork)
