"""Blocked clients: who waits for which key, in the order in which they began to, and until when."""

import heapq
import itertools
import math
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator

from diskstream.commands.failures import failure_of, fault_of
from diskstream.commands.moments import UNREAD
from diskstream.commands.replies import ErrorReply, Failure, Reply
from diskstream.commands.waiting import Waiting
from diskstream.errors import ClosedError, DiskstreamError
from diskstream.server.connection import Connection

__all__ = ["UNBLOCKED", "Key", "Waiter", "Waiters"]

UNBLOCKED = ErrorReply(b"UNBLOCKED client unblocked via CLIENT UNBLOCK")
# Rows of the heap that stand for nothing any more are swept once they are more than the rest, and more than this.
_STALE_ROWS = 1024

Key = tuple[int, bytes]


class Waiter:
    """A client in a wait."""

    __slots__ = ("connection", "due", "number", "waiting")

    def __init__(self, connection: Connection, waiting: Waiting, number: int) -> None:
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


class Waiters:
    """All of them.

    Args:
        finished: takes the connection and the reply of each wait that ends.
    """

    def __init__(self, finished: Callable[[Connection, Reply], None]) -> None:
        self._finished = finished
        self._queues: dict[Key, dict[Waiter, None]] = {}
        self._kin: dict[Hashable, dict[Waiter, None]] = {}
        self._due: list[tuple[float, int, Waiter]] = []
        self._numbers = itertools.count()
        self.count = 0

    def __contains__(self, key: Key) -> bool:
        return key in self._queues

    def keys(self) -> Iterable[Key]:
        """Those that somebody waits for."""
        return self._queues.keys()

    def add(self, connection: Connection, waiting: Waiting, now: float) -> Waiter:
        """Begins a wait, behind all others for its keys."""
        waiter = Waiter(connection, waiting, next(self._numbers))
        connection.waiter, connection.caller.waiting = waiter, waiting
        for key in waiter.places():
            self._queues.setdefault(key, {})[waiter] = None
        if waiting.kin is not None:
            self._kin.setdefault(waiting.kin, {})[waiter] = None
        self.count += 1
        self._schedule(waiter, now)
        return waiter

    def _schedule(self, waiter: Waiter, now: float) -> None:
        due = waiter.next_due(now)
        if due != waiter.due:
            waiter.due = due
            if due < math.inf:
                heapq.heappush(self._due, (due, waiter.number, waiter))
        if len(self._due) > 2 * self.count + _STALE_ROWS:
            self._due = [row for row in self._due if row[2].connection.waiter is row[2] and row[2].due == row[0]]
            heapq.heapify(self._due)

    def drop(self, connection: Connection, *, served: bool = False) -> None:
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

    def end(self, connection: Connection, reply: Reply, *, served: bool = False) -> None:
        """Ends a client's wait with a reply."""
        self.drop(connection, served=served)
        self._finished(connection, reply)

    def unblock(self, connection: Connection, *, with_error: bool) -> bool:
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
        looked: set[Waiter] = set()
        empty_handed: set[Hashable] = set()
        keys = list(keys)
        changed: dict[int, set[bytes]] = {}
        for database, name in keys:
            changed.setdefault(database, set()).add(name)
        for key in keys:
            for waiter in list(self._queues.get(key, ())):
                kin = waiter.waiting.kin
                if waiter.connection.waiter is not waiter or waiter in looked or kin in empty_handed:
                    continue  # it was served meanwhile, or has gone
                looked.add(waiter)
                found = self._look(waiter, now, changed[key[0]]) and (kin is None or waiter.waiting.more())
                if not found and kin is not None:
                    empty_handed.add(kin)

    def _look(self, waiter: Waiter, now: float, changed: Collection[bytes] | None = None) -> bool:
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
        """Ends the waits whose time is up, and looks at what has ripened."""
        while self.next_due() <= now:
            waiter = heapq.heappop(self._due)[2]
            waiter.due = math.inf
            until = waiter.waiting.until
            if until is not None and until <= now:
                self.end(waiter.connection, waiter.waiting.otherwise)
            elif self._look(waiter, now):
                self.serve(list(waiter.places()), now)  # what was kept for somebody who is gone may be more than one
