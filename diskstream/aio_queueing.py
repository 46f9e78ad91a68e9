"""What the thread does that waits for consumers of asyncio: it sleeps on their places in queues, and tells them."""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Self

from diskstream._native import LOOK_MS, Ctl, Delivery, Turn, wait_turns
from diskstream.aio_waiter import SLICE_S, Waiter, tell_all
from diskstream.engine.page import Page
from diskstream.group_calls import GroupCall

if TYPE_CHECKING:
    from diskstream.store import Store

__all__ = ["Called", "Queueing"]


@dataclass(eq=False, slots=True)
class Called(Waiter):
    """A task that waits to look again.

    Attributes:
        call: what looks. Nobody else uses it meanwhile.
        turns, bells, due_at: what it waits for, as of its last look.
        queue: where it stands, or would: see `GroupCall.queue`.
        has_rung: whether one of the bells has, or may have. It waits for them no more then.
    """

    call: GroupCall
    turns: list[Turn] = field(init=False)
    bells: list[tuple[Ctl, int]] = field(init=False)
    due_at: float = field(init=False)
    queue: tuple[Page, int] | None = field(init=False)
    has_rung: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        """As the call stands now."""
        Waiter.__post_init__(self)
        self.turns, self.bells = self.call.turns, self.call.bells
        self.due_at = time.monotonic() + self.call.rest_s
        self.queue = self.call.queue

    def is_called(self, now: float) -> bool:
        """Whether one of its places was called, or the time for another look has come."""
        return self.due_at <= now or any(turn.called for turn in self.turns)

    def is_rung(self) -> bool:
        """Whether one of the bells has rung that stand for places which it did not get."""
        if any(ctl.bell != seen for ctl, seen in self.bells):
            self.ring()
        return self.has_rung

    def ring(self) -> None:
        """What the bells tell is known."""
        self.has_rung, self.bells = True, []

    def look(self) -> dict[bytes, list[Delivery]]:
        """What there is now, for the task, in a thread: see `GroupCall.look`.

        Raises:
            NoGroupError: a stream has no such group.
        """
        try:
            return self.call.look()
        finally:
            self.leave_unless_heard()

    def leave_unless_heard(self) -> None:
        """Gives up the places of a task whose loop is closed: it does not go on to do so, and they hold up others."""
        if self.loop.is_closed():
            self.call.close()


class _Look:
    """A look at all who wait, for who was called by nobody."""

    def __init__(self) -> None:
        self._in_place: dict[Page, bool] = {}
        self._looking: set[tuple[Page, int]] = set()

    def is_worth_it(self, called: Called) -> bool:
        """Whether it is to look again. Of those who wait alike one does: very many may wait for what comes often."""
        if not called.call.may_have_more(self._is_in_place):
            return False
        if not called.turns and called.call.waits_for_new(self._is_in_place):
            called.ring()  # whom nobody calls is told with those for whom a bell rang
            return False
        alike = called.call.waits_alike(self._is_in_place)
        if alike in self._looking:
            return False
        if alike is not None:
            self._looking.add(alike)
        return True

    def _is_in_place(self, page: Page) -> bool:
        found = self._in_place.get(page)
        if found is None:
            found = self._in_place[page] = page.is_in_place()
        return found


def _not_now(_called: Called) -> bool:
    return False


def _share(rung: Iterable[Called], left: list[Called], told: list[Called]) -> None:
    """Tells those for whom a bell rang, as there was no place for them in a queue: as many as were called from there,
    whose places they may get; all where nobody stands in it any more who would be called for what there still is.

    Of a thousand that wait in one queue all would look at each entry, and hold up who was called for it.
    """
    standing = {called.queue for called in left if called.turns}
    called_now = Counter(called.queue for called in told if called.turns)
    for called in rung:
        queue = called.queue
        if queue is None or queue not in standing:
            told.append(called)
        elif called_now[queue] > 0:
            called_now[queue] -= 1
            told.append(called)
        else:
            left.append(called)


class Queueing:
    """The calls that wait for entries of one store."""

    def __init__(self, store: "Store") -> None:
        self._store = store
        self._own = Page.private()  # a bell of its own, to end a wait with
        self._own_bell = self._own.ctl.bell
        self._calls: list[Called] = []
        self._looked_at = self._busy_at = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._own.close()

    def interrupt(self) -> None:
        """Ends the wait of a turn, this one's or the next one's. Safe from any thread."""
        self._own.ctl.ring()

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits, nor has for a while."""
        return not self._calls and (self._store.closed or time.monotonic() - self._busy_at >= SLICE_S)

    def turn(self, coming: Iterable[Called]) -> None:
        """Takes in who has come, waits once, and tells who has been called."""
        self._calls += coming
        if self._calls:
            self._busy_at = time.monotonic()
        self._wait()
        now = time.monotonic()
        worth_it: Callable[[Called], bool] = _not_now
        if is_look := now - self._looked_at >= LOOK_MS / 1000:
            self._looked_at, worth_it = now, _Look().is_worth_it
        is_closed = self._store.closed
        left: list[Called] = []
        told: list[Called] = []
        rung: list[Called] = []
        for called in self._calls:
            if is_closed or called.is_called(now):
                told.append(called)
            elif is_look and called.is_gone:
                called.leave_unless_heard()
            elif worth_it(called):
                told.append(called)
            else:
                (rung if called.is_rung() else left).append(called)
        if rung:
            _share(rung, left, told)
        self._calls = left
        tell_all(told)
        for called in told:
            called.leave_unless_heard()

    def _wait(self) -> None:
        turns = [turn for called in self._calls for turn in called.turns]
        bells = [(self._own.ctl, self._own_bell), *(bell for called in self._calls for bell in called.bells)]
        until = min((called.due_at for called in self._calls), default=float("inf"))
        most = LOOK_MS / 1000 if self._calls else SLICE_S
        wait_turns(turns, bells, max(0.0, min(most, until - time.monotonic())))
        self._own_bell = self._own.ctl.bell

    def fail(self, error: Exception, coming: Iterable[Called]) -> None:
        """Tells everybody what ended a turn."""
        for called in {*coming, *self._calls}:
            if not called.is_gone:
                called.tell(called.answer.set_exception, error)
            called.leave_unless_heard()
        self._calls.clear()
