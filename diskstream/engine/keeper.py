"""The background of a store: flushes on time, reserves IDs ahead, seals, cleans up, misses files that others remove."""

import sys
import threading
from collections.abc import Callable, Iterable

from diskstream.engine import closing, roll, seal
from diskstream.engine.flags import Flag
from diskstream.engine.log import StreamLog, StreamMoved
from diskstream.engine.page import FLAG_CHECK
from diskstream.engine.process_end import expect
from diskstream.engine.threads import begun

__all__ = ["Keeper", "joined", "wait_for_last"]

_HOUSEKEEPING_S = 1.0


# Those whose stores were dropped, until what they held is let go of.
_LEAVING: "set[Keeper]" = set()


def joined(thread: threading.Thread, timeout_s: float | None = None) -> None:
    """Returns once a thread of the background has ended, or after so many seconds.

    As the interpreter ends, none of them takes another step, and from Python 3.13 on none is said to have ended: who
    closes a store as late as that, in a finalizer, waits for nobody.
    """
    if not sys.is_finalizing():
        thread.join(timeout_s)


def _wait(threads: Iterable[threading.Thread]) -> None:
    for thread in list(threads):
        if thread.ident is not None and thread is not threading.current_thread():
            joined(thread)


def wait_for_last() -> None:
    """Returns once what stores held that were dropped is let go of."""
    for keeper in list(_LEAVING):
        keeper.wait()
    _wait(closing.BESIDE)


class Keeper:
    """Looks after the open streams of one process until it is stopped.

    A failure in the background is kept in `last_error` and shows where it matters: a failed flush has poisoned the
    stream, so the next append says so.
    """

    def __init__(
        self,
        logs: Callable[[], Iterable[StreamLog]],
        interval_ms: int | None,
        *,
        seals: bool,
        notice: Callable[[StreamLog], None],
    ) -> None:
        self._logs, self._seals, self._notice = logs, seals, notice
        self._wake, self._stop = Flag(), Flag()  # who appends sets the one, under the append lock
        self._has_begun, self._flushes = False, interval_ms is not None
        self._last: Callable[[], None] | None = None
        self.last_error: Exception | None = None
        self._threads = [threading.Thread(target=self._keep_house, name="diskstream-keeper", daemon=True)]
        if interval_ms is not None:
            # A thread of its own, so that sealing never delays a flush.
            flush = threading.Thread(
                target=self._flush, args=(interval_ms / 1000,), name="diskstream-flush", daemon=True
            )
            self._threads.append(flush)

    def begin(self) -> None:
        """Starts the threads: both, or neither goes on. None while the interpreter ends, when none would ever run.

        Raises:
            RuntimeError: there are too many threads. Another keeper must take the place of this one.
        """
        if self._has_begun or sys.is_finalizing():
            return
        try:
            for thread in self._threads:
                begun(thread)
            self._has_begun = True
            expect()
        except BaseException:
            self._stop.set()
            self._wake.set()
            raise

    def rolled(self) -> None:
        """A segment was rolled: there is something to seal."""
        self._wake.set()

    def end(self) -> None:
        """The process ends, and the threads with it: what the next interval would have flushed is flushed now."""
        if self._flushes:
            self._each(self._flush_one, FLAG_CHECK, stops=False)

    def stop(self) -> None:
        """Ends the threads and waits for them; a seal under way ends with its segment."""
        self._stop.set()
        self._wake.set()
        for thread in self._threads if self._has_begun else []:
            joined(thread)

    def end_with(self, last: Callable[[], None]) -> None:
        """Ends the threads, one of which then does this; a process that ends waits for it, by `wait_for_last`.

        It waits for nothing, and takes no lock: a garbage collection may come to it in the middle of anything.
        """
        _LEAVING.add(self)
        if self._stop.is_set():  # by who was interrupted then: they may have ended
            self._end_beside(last)
            return
        self._last = last
        self._stop.set()
        self._wake.set()

    def _end_beside(self, last: Callable[[], None]) -> None:
        def end() -> None:
            self.wait()
            try:
                last()
            finally:
                _LEAVING.discard(self)

        thread = threading.Thread(target=end, name="diskstream-leaving", daemon=True)
        try:
            begun(thread)
        except RuntimeError:  # there are too many threads
            end()
        else:
            self._threads.append(thread)

    def wait(self) -> None:
        """Returns once the threads have ended."""
        _wait(self._threads)

    def _flush(self, every_s: float) -> None:
        while not self._stop.wait(every_s):
            # That somebody died under the lock is no reason to flush nothing: the next to append looks at what he left.
            self._each(self._flush_one, FLAG_CHECK)

    def _keep_house(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(_HOUSEKEEPING_S)
            self._wake.clear()
            self._each(self._attend)
        last, self._last = self._last, None
        if last is not None:
            self.wait()
            try:
                last()
            finally:
                _LEAVING.discard(self)

    def _each(self, attend: Callable[[StreamLog], None], despite: int = 0, *, stops: bool = True) -> None:
        for log in self._logs():
            if stops and self._stop.is_set():
                return
            try:
                if not (log.closed or log.read_only or log.is_damaged or log.ctl.flags & ~despite):
                    attend(log)
            except StreamMoved:
                pass
            except Exception as error:  # noqa: BLE001  # of a clock that is not ours, say: others are still to be flushed
                if not log.closed:
                    self.last_error = error

    def _flush_one(self, log: StreamLog) -> None:
        if not log.native.is_durable:
            log.flush()

    def _attend(self, log: StreamLog) -> None:
        closing.check_removed(log)
        try:
            roll.put_back(log)
        finally:  # where there is no room for that, what makes room goes on
            self._keep_up(log)

    def _keep_up(self, log: StreamLog) -> None:
        log.reserve_ahead()
        try:
            seal.reap(log, wait=False)  # another process may compact for hours
        finally:  # what cannot be removed holds up nothing else
            self._notice(log)
            if self._seals and seal.unsealed(log):
                seal.seal_rolled(log, wait=False)
