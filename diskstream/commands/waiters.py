"""Those whose commands wait: for which keys, in the order in which they began to, and until when."""

import heapq
import itertools
import math
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import Any, Generic, Protocol, TypeVar

from diskstream.commands.caller import Caller
from diskstream.commands.failures import failure_of, fault_of
from diskstream.commands.moments import UNREAD
from diskstream.commands.replies import ErrorReply, Failure, Reply
from diskstream.commands.waiting import Waiting
from diskstream.errors import ClosedError, DiskstreamError

__all__ = ["UNBLOCKED", "Key", "Waiter", "Waiters"]

UNBLOCKED = ErrorReply(b"UNBLOCKED client unblocked via CLIENT UNBLOCK")
# Rows of the heap that stand for nothing any more are swept once they are more than the rest, and more than this.
_STALE_ROWS = 1024

Key = tuple[int, bytes]


class _Client(Protocol):
    """Whose commands may wait, one at a time.

    Attributes:
        waiter: the wait that it is in.
    """

    waiter: "Waiter[Any] | None"

    @property
    def caller(self) -> Caller:
        """Whom the commands know."""


_C = TypeVar("_C", bound=_Client)


class Waiter(Generic[_C]):
    """A client in a wait."""

    __slots__ = ("connection", "due", "number", "waiting")

    def __init__(self, connection: _C, waiting: Waiting, number: int) -> None:
        self.connection, self.waiting, self.number = connection, waiting, number
        self.due = math.inf  # of its row in the heap that counts

    def places(self) -> Iterator[Key]:
        """What may end the wait."""
        return ((self.waiting.database, key) for key in self.waiting.keys)

    def next_due(self, now: float) -> float:
        """When it is to be looked at though nothing has changed."""
        until, ripe = self.waiting.until, self.waiting.ripe_at()
        due = math.inf if until is None else until
        # What is ripe and was not taken is somebody else's to take: a look each millisecond is enough.
        return due if ripe is None else min(due, max(ripe, now + 0.001))

    def look(self, changed: Collection[bytes] | None = None) -> Reply | None:
        """The reply, where there is one by now; at what has `changed` alone, where that is known."""
        moment = self.connection.caller.keyspace.moment
        moment.at = UNREAD
        try:
            if changed is not None and self.waiting.only is not None:
                return self.waiting.only(changed)
            return self.waiting.again()
        except Failure as failure:
            return ErrorReply(failure.text)
        except ClosedError:
            return None  # until the stores are open again, which is when everybody is looked at
        except (DiskstreamError, OSError) as error:
            reply = ErrorReply(failure_of(error, self.connection.caller.last_command).text)
            self.connection.caller.keyspace.troubles.met(reply.text)
            return reply
        except Exception as error:  # noqa: BLE001  # its wait ends; those of others go on
            return ErrorReply(fault_of(error, self.connection.caller.last_command).text)
        finally:
            moment.at = None


class Waiters(Generic[_C]):
    """All of them.

    Args:
        finished: takes the connection and the reply of each wait that ends.
    """

    def __init__(self, finished: Callable[[_C, Reply], None]) -> None:
        self._finished = finished
        self._queues: dict[Key, dict[Waiter[_C], None]] = {}
        self._kin: dict[Hashable, dict[Waiter[_C], None]] = {}
        self._due: list[tuple[float, int, Waiter[_C]]] = []
        self._numbers = itertools.count()
        self.count = 0

    def __contains__(self, key: Key) -> bool:
        return key in self._queues

    def keys(self) -> Iterable[Key]:
        """Those that somebody waits for."""
        return self._queues.keys()

    def add(self, connection: _C, waiting: Waiting, now: float) -> Waiter[_C]:
        """Begins a wait, behind all others for its keys."""
        waiter: Waiter[_C] = Waiter(connection, waiting, next(self._numbers))
        connection.waiter, connection.caller.waiting = waiter, waiting
        for key in waiter.places():
            self._queues.setdefault(key, {})[waiter] = None
        if waiting.kin is not None:
            self._kin.setdefault(waiting.kin, {})[waiter] = None
        self.count += 1
        self._schedule(waiter, now)
        return waiter

    def _schedule(self, waiter: Waiter[_C], now: float) -> None:
        due = waiter.next_due(now)
        if due != waiter.due:
            waiter.due = due
            if due < math.inf:
                heapq.heappush(self._due, (due, waiter.number, waiter))
        if len(self._due) > 2 * self.count + _STALE_ROWS:
            self._due = [row for row in self._due if row[2].connection.waiter is row[2] and row[2].due == row[0]]
            heapq.heapify(self._due)

    def drop(self, connection: _C, *, served: bool = False) -> None:
        """Ends a client's wait without a reply."""
        waiter = connection.waiter
        if waiter is None:
            return
        connection.waiter = connection.caller.waiting = None
        self.count -= 1
        for key in waiter.places():
            queue = self._queues.get(key)
            if queue is not None:
                queue.pop(waiter, None)
                if not queue:
                    del self._queues[key]
        kin = self._kin.get(waiter.waiting.kin)
        if kin is not None:
            kin.pop(waiter, None)
            if not kin:
                del self._kin[waiter.waiting.kin]
            elif not served:
                # Where an entry is left to somebody else, only who goes now was to look again.
                self._schedule(next(iter(kin)), time.monotonic())

    def end(self, connection: _C, reply: Reply, *, served: bool = False) -> None:
        """Ends a client's wait with a reply."""
        self.drop(connection, served=served)
        self._finished(connection, reply)

    def unblock(self, connection: _C, *, with_error: bool) -> bool:
        """As CLIENT UNBLOCK. Returns whether it was waiting."""
        waiter = connection.waiter
        if waiter is None:
            return False
        self.end(connection, UNBLOCKED if with_error else waiter.waiting.otherwise)
        return True

    def serve(self, keys: Iterable[Key], now: float) -> None:
        """Looks again for everybody who waits for one of the keys, in the order in which they began to.

        Once for each of them, whose look is at all these keys: one for each would be the square of them. Where one of a
        group's consumers finds nothing, the others are not asked: hundreds may wait for one entry.
        """
        keys = list(keys)
        changed: dict[int, set[bytes]] = {}
        for database, name in keys:
            changed.setdefault(database, set()).add(name)
        self._serve((waiter for key in keys for waiter in list(self._queues.get(key, ()))), now, changed)

    def serve_unrung(self, now: float, is_worth_it: Callable[[Waiting], bool]) -> None:
        """Looks again for everybody for whom that is worth it, though no bell rings."""
        waiters = (waiter for queue in list(self._queues.values()) for waiter in list(queue))
        self._serve((waiter for waiter in waiters if is_worth_it(waiter.waiting)), now, {})

    def serve_new(self, waiter: Waiter[_C], now: float) -> None:
        """Looks for who has just come: what it waits for may have come since its command looked. Of kin the first does,
        and the others behind it, as long as there is something.
        """
        for each in list(self._kin.get(waiter.waiting.kin, {waiter: None})):
            if not self._look(each, now) or not each.waiting.more():
                return

    def _serve(self, waiters: Iterable[Waiter[_C]], now: float, changed: Mapping[int, Collection[bytes]]) -> None:
        looked: set[Waiter[_C]] = set()
        empty_handed: set[Hashable] = set()
        for waiter in waiters:
            kin = waiter.waiting.kin
            if waiter.connection.waiter is not waiter or waiter in looked or kin in empty_handed:
                continue  # it was served meanwhile, or has gone
            looked.add(waiter)
            found = self._look(waiter, now, changed.get(waiter.waiting.database))
            if kin is not None and not (found and waiter.waiting.more()):
                empty_handed.add(kin)

    def _look(self, waiter: Waiter[_C], now: float, changed: Collection[bytes] | None = None) -> bool:
        """Whether that ended the wait."""
        reply = waiter.look(changed)
        if reply is None:
            self._schedule(waiter, now)
            return False
        self.end(waiter.connection, reply, served=True)
        return True

    def next_due(self) -> float:
        """When somebody is due, by `time.monotonic`."""
        while self._due:
            due, _, waiter = self._due[0]
            if waiter.connection.waiter is waiter and waiter.due == due:
                return due
            heapq.heappop(self._due)
        return math.inf

    def serve_due(self, now: float) -> None:
        """Ends the waits whose time is up, and looks at what has ripened: for the first of those who wait alike."""
        empty_handed: set[Hashable] = set()
        while self.next_due() <= now:
            waiter = heapq.heappop(self._due)[2]
            waiter.due = math.inf
            until, kin = waiter.waiting.until, waiter.waiting.kin
            if until is not None and until <= now:
                self.end(waiter.connection, waiter.waiting.otherwise)
                continue
            first = next(iter(self._kin.get(kin, {waiter: None})))
            if kin in empty_handed or first is not waiter:
                self._schedule(waiter, now)
            if kin in empty_handed:
                continue
            if self._look(first, now):
                self.serve(list(first.places()), now)  # what was kept for somebody who is gone may be more than one
            elif kin is not None:
                empty_handed.add(kin)
