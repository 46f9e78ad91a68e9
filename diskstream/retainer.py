"""Retention in the background: the open streams of one process that have a rule, looked after until it is stopped."""

import contextlib
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING

from diskstream.engine.cold_moving import BeingMovedError
from diskstream.engine.flags import Flag
from diskstream.engine.keeper import joined
from diskstream.engine.log import StreamLog, StreamMoved
from diskstream.engine.threads import begun
from diskstream.errors import ClosedError, DiskstreamError
from diskstream.membership import now_ms
from diskstream.moving_out import move
from diskstream.retaining import Memory, memory_of, step
from diskstream.retention_rule import RULE, RetentionRule, rule_of
from diskstream.steady_clock import SteadyClock

if TYPE_CHECKING:
    from diskstream.store import Store

__all__ = ["Retainer"]

# Of one stream at a time, before the next has its turn.
_TURN_S = 0.05
_PAUSE_S = 0.002  # between two steps of a stream: for those who wait for its append lock
_LONGEST_RETRY_S = 300.0
_LAST_WORD_S = 10.0
_BETWEEN_MOVES_S = 10.0  # of a stream: each asks the object storage what it has


class Retainer:
    """Two threads, each begun when a stream first needs it: one removes, the other moves to cold storage.

    So a slow object storage delays no removing, and neither delays flushes, seals or appends. A failure is kept with
    the stream and shown by `Stream.info`; it is tried again later and later, after five minutes at most.
    """

    def __init__(self, store: "Store") -> None:
        # Its threads must not keep a store that everybody else has dropped.
        self._store, self._interval_ms = weakref.ref(store), store.options.retention_interval_ms
        self._stop, self._mutex = Flag(), threading.Lock()
        self._threads: dict[bool, threading.Thread] = {}
        self._clock = SteadyClock()

    def notice(self, log: StreamLog) -> None:
        """Looks whether a stream has a rule, and begins to look after it. It costs little where it has none."""
        if not self._interval_ms or log.read_only or log.native.setting(RULE) is None:
            return
        try:
            rule = rule_of(log)
        except DiskstreamError as error:
            memory_of(log).error = str(error)  # nothing goes by a rule that cannot be read
            return
        if rule is not None:
            self._begin(moves=rule.to is not None)

    def _begin(self, *, moves: bool) -> None:
        with self._mutex:
            if self._stop.is_set() or moves in self._threads or sys.is_finalizing():
                return
            name = "diskstream-cold" if moves else "diskstream-retention"
            thread = threading.Thread(target=self._attend, args=(moves,), name=name, daemon=True)
            with contextlib.suppress(RuntimeError):  # there are too many: the next look begins it
                begun(thread)
                self._threads[moves] = thread

    def stop(self) -> None:
        """Ends the threads and waits for them: for the step under way, for an upload no longer than a few seconds.

        What an upload leaves behind then is what it would leave if the process were killed.
        """
        self._stop.set()
        with self._mutex:
            threads = dict(self._threads)
        for moves, thread in threads.items():
            joined(thread, _LAST_WORD_S if moves else None)

    def _attend(self, moves: bool) -> None:
        with self._mutex:
            if self._threads.get(moves) is not threading.current_thread():
                return  # a signal handler raised as it was begun: nobody would wait for it, and another is begun
        wait_s = 0.0
        while not self._stop.wait(wait_s):
            wait_s = _PAUSE_S if self._round(moves=moves) else self._interval_ms / 1000

    def _round(self, *, moves: bool) -> bool:
        """A turn for each stream that is open. Returns whether one of them has more to do at once."""
        more = False
        store = self._store()
        logs = [] if store is None else list(store._logs.items())  # a part of its store
        del store
        for name, log in logs:
            if self._stop.is_set():
                return False
            if not (log.closed or log.read_only or log.fault is not None or log.ctl.flags):
                more |= self._attend_one(name, log, moves=moves)
        return more

    def _attend_one(self, name: bytes, log: StreamLog, *, moves: bool) -> bool:
        """A stream's turn. Returns whether it has more to do at once."""
        memory = memory_of(log)
        try:
            if log.native.setting(RULE) is None or time.monotonic() < memory.retry_s:
                return False
            rule = rule_of(log)
            if rule is None or (rule.to is not None) != moves:
                return False
            if moves:
                self._move(name, log, rule, memory)
                more = False
            else:
                more = self._turn(log, memory)
        except (StreamMoved, ClosedError):
            return False
        except BeingMovedError:  # mostly another process that applies the same rule: that is no failure of it
            memory.error, memory.failures = None, 0
            memory.retry_s = time.monotonic() + _BETWEEN_MOVES_S
            return False
        except Exception as error:  # noqa: BLE001  # also a fault of ours: the others are attended to all the same
            if not log.closed:
                memory.error = str(error)
                memory.failures += 1
                memory.retry_s = time.monotonic() + min(2.0 ** min(memory.failures, 10), _LONGEST_RETRY_S)
            return False
        memory.error, memory.failures = None, 0
        return more

    def _move(self, name: bytes, log: StreamLog, rule: RetentionRule, memory: Memory) -> None:
        store = self._store()
        if store is None:
            return
        with memory.mutex:
            now = self._now(log, memory)
            if move(store.stream(name), log, rule, now, memory, progress=self._go_on):
                memory.retry_s = time.monotonic() + _BETWEEN_MOVES_S

    def _turn(self, log: StreamLog, memory: Memory) -> bool:
        began = time.monotonic()
        while True:
            report = step(log, self._now(log, memory))
            # A search that found nothing goes on at the next look: it may be long.
            more = report.more and bool(report.removed or report.references)
            if not more or time.monotonic() - began > _TURN_S or self._stop.wait(_PAUSE_S):
                return more

    def _now(self, log: StreamLog, memory: Memory) -> int:
        if memory.newest is None:
            memory.newest = self._clock.newest_at(log.native.counters()[1].ms)
        return self._clock.believed(now_ms(log), memory.newest)

    def _go_on(self, *_: object, **__: object) -> None:
        """Ends an upload at the next sign of progress where the store is being closed."""
        if self._stop.is_set():
            raise ClosedError("the store")
