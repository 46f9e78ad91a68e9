"""Commands that wait, of tasks of asyncio: one thread looks for all of them, as the loop of a server does."""

import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self

from diskstream.aio_waiter import SLICE_S, Waiter
from diskstream.commands import waiters
from diskstream.commands.bells import Bells
from diskstream.commands.caller import Caller
from diskstream.commands.keyspace import Keyspace
from diskstream.commands.replies import Failure, Reply
from diskstream.commands.waiting import Waiting
from diskstream.errors import DiskstreamError

__all__ = ["Blocked", "Blocking"]

# So soon it is noticed that a client was closed, or that a group has changed though no bell rang: who changed it was
# killed. To look at all who wait takes a tenth of the time at most.
_LOOK_S, _LOOK_SHARE = 0.05, 9
# So often it is seen whether a stream has another page.
_STALE_S = 1.0


@dataclass(eq=False, slots=True)
class Blocked(Waiter):
    """A task whose command waits.

    Attributes:
        caller: whose command. Nobody else uses it meanwhile.
        waiting: what waits.
        is_closed: whether the client was closed: it is given nothing then.
        waiter: its wait, once it has begun.
    """

    caller: Caller
    waiting: Waiting
    is_closed: Callable[[], bool]
    waiter: "waiters.Waiter[Blocked] | None" = field(default=None, init=False)

    def guarded(self) -> Waiting:
        """The wait, which ends without a look where nobody would hear what it finds.

        What a consumer is given that was cancelled would be pending for nobody.
        """
        again, only = self.waiting.again, self.waiting.only
        guarded = replace(self.waiting, again=lambda: self._look(again))
        if only is not None:
            guarded.only = lambda changed: self._look(lambda: only(changed))
        return guarded

    def _look(self, look: Callable[[], Reply | None]) -> Reply | None:
        if self.is_gone or self.is_closed():
            return self.waiting.otherwise
        try:
            return look()
        except (Failure, DiskstreamError, OSError):
            raise
        except Exception as error:  # noqa: BLE001  # raised again in the task: it is the program's own
            self.tell(self.answer.set_exception, error)
            return self.waiting.otherwise


class Blocking:
    """The commands that wait in one keyspace. Of one thread, but for `interrupt`."""

    def __init__(self, keyspace: Keyspace, turn: Callable[[], AbstractContextManager[None]]) -> None:
        """Nobody waits yet.

        Args:
            keyspace: where the keys are.
            turn: held for each look.
        """
        self._keyspace, self._turn = keyspace, turn
        self._bells = Bells(keyspace)
        self._waiters: waiters.Waiters[Blocked] = waiters.Waiters(self._finished)
        self._blocked: set[Blocked] = set()
        now = time.monotonic()
        self._busy_at, self._sweep_at, self._look_at, self._stale_at = now, now + _LOOK_S, now + _LOOK_S, now + _STALE_S

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bells.close()

    def interrupt(self) -> None:
        """Ends the wait of a turn, this one's or the next one's. Safe from any thread."""
        self._bells.interrupt()

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits, nor has for a while."""
        is_over = time.monotonic() - self._busy_at >= SLICE_S or not self._keyspace.is_open()
        return not self._blocked and is_over

    def turn(self, coming: Iterable[Blocked]) -> None:
        """Takes in who has come, waits once, and answers those for whom there is something."""
        for blocked in coming:
            self._begin(blocked)
        if self._blocked:
            self._busy_at = time.monotonic()
        self._bells.wait(self._patience_s())
        now = time.monotonic()
        with self._turn():
            self._waiters.serve(self._bells.changed(self._waiters), now)
            self._waiters.serve_due(now)
            if now >= self._sweep_at:
                self._sweep(now)
            if now >= self._look_at:
                self._look(now)

    def _begin(self, blocked: Blocked) -> None:
        now = time.monotonic()
        self._blocked.add(blocked)
        waiter = self._waiters.add(blocked, blocked.guarded(), now)
        is_list, keys = not blocked.waiting.rings, list(waiter.places())
        with self._turn():
            if len(keys) <= self._bells.most_open:
                for key in keys:
                    self._bells.add(key, is_list=is_list)
                self._waiters.serve_new(waiter, now)
                return
            # What comes to a key that is watched already is told by its bell.
            for fresh in self._bells.add_each(keys, is_list=is_list):
                self._waiters.serve(fresh, now)
                if blocked.waiter is not waiter:
                    return

    def _patience_s(self) -> float:
        if not self._blocked:
            return SLICE_S
        return max(0.0, min(self._sweep_at, self._look_at, self._waiters.next_due()) - time.monotonic())

    def _sweep(self, now: float) -> None:
        """Ends the waits of tasks that have gone, and those of clients that were closed."""
        is_open = self._keyspace.is_open()
        for blocked in list(self._blocked):
            if not is_open or blocked.is_gone or blocked.is_closed():
                self._waiters.end(blocked, blocked.waiting.otherwise)
        self._sweep_at = _after(now)

    def _look(self, now: float) -> None:
        self._waiters.serve_unrung(now, self._may_end_unrung)
        if now >= self._stale_at:
            self._waiters.serve(self._bells.stale(self._waiters), now)
            self._stale_at = now + _STALE_S
        self._look_at = _after(now)

    def _may_end_unrung(self, waiting: Waiting) -> bool:
        """Whether a look may find what rang no bell: that a group was set back by who was killed before he rang, or
        anything where one only reads.

        Of more streams than may be open a look would open each, and close others of them. Of those that are closed here
        that is noticed at the next entry.
        """
        is_read_only = bool(self._keyspace.options.get("read_only", False))
        places = ((waiting.database, key) for key in waiting.keys)
        return is_read_only or (waiting.of_group and all(map(self._bells.is_open, places)))

    def fail(self, error: Exception, coming: Iterable[Blocked]) -> None:
        """Tells everybody what ended a turn, and begins anew: what failed may fail again."""
        for blocked in {*coming, *self._blocked}:
            if not blocked.is_gone:
                blocked.tell(blocked.answer.set_exception, error)
            blocked.waiter = blocked.caller.waiting = None
        self._blocked.clear()
        self._waiters = waiters.Waiters(self._finished)
        self._bells.forget_all()

    def _finished(self, blocked: Blocked, reply: Reply) -> None:
        self._blocked.discard(blocked)
        if not blocked.is_gone:
            blocked.tell(blocked.answer.set_result, reply)


def _after(began: float) -> float:
    """When to do again what began then and is done now."""
    now = time.monotonic()
    return now + max(_LOOK_S, _LOOK_SHARE * (now - began))
