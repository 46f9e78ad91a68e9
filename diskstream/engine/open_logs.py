"""The logs that a store has open, by the names of their streams, and those that gave way to others and are used yet."""

import contextlib
import weakref
from collections.abc import Iterator

from diskstream.engine.descriptors import uses
from diskstream.engine.log import StreamLog, StreamMoved
from diskstream.errors import DiskstreamError

__all__ = ["OpenLogs"]


class OpenLogs(dict[bytes, StreamLog]):
    """Who looks up a stream finds those that are kept open. One that was retired is found by no name any more.

    It is closed by who uses it last, which may be an iterator that somebody keeps for hours. What a thread adds to it
    that had it as it was retired is to be flushed, in time and where somebody asks for it, as anything else.
    """

    def __init__(self) -> None:
        super().__init__()
        self._used: list[weakref.ref[StreamLog]] = []

    def retire(self, name: bytes) -> None:
        """Lets go of a log: see `StreamLog.retire`. One that nobody uses is closed.

        It would be when it is collected, too. But there an error that a signal handler raises is printed and lost, and
        most of what takes long is in closing: who opens many streams in turn could not be stopped by Ctrl-C.
        """
        held = [self[name]]
        self._used.append(weakref.ref(held[0], self._used.remove))  # before: in between, it would be missing
        del self[name]
        held[0].retire()
        if uses(held) == 0:
            with contextlib.suppress(DiskstreamError, StreamMoved):  # as where it is collected
                held[0].close()

    def all(self) -> Iterator[StreamLog]:
        """Each log that is open: one by one, as those whose turn is yet to come may be closed meanwhile."""
        for name in list(self):
            log = self.get(name)
            if log is not None:
                yield log
                log = None
        for used in list(self._used):
            log = used()
            if log is not None:
                yield log
                log = None
