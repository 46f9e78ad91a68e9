"""One keyspace for all clients of a process that open the same directory in the same way."""

import os
import threading
from collections.abc import Hashable
from contextlib import AbstractContextManager
from typing import Any

from diskstream.aio_waiter import WaitThread
from diskstream.arguments import path_of
from diskstream.commands.keyspace import Keyspace
from diskstream.compat.aio_waiting import Blocked, Blocking
from diskstream.compat.turns import Turns
from diskstream.system_calls import followed

__all__ = ["OPEN", "Keyspaces", "Shared"]


class Shared:
    """An open keyspace, and how many clients have it.

    Attributes:
        keyspace: the databases.
        turns: what keeps a transaction alone.
        waits: the thread that waits for tasks of asyncio.
    """

    def __init__(self, key: object, keyspace: Keyspace) -> None:
        self.key, self.keyspace, self.turns = key, keyspace, Turns()
        self.waits: WaitThread[Blocked] = WaitThread("diskstream waiting", lambda: Blocking(keyspace, self.turn))
        self.clients = 0

    def turn(self) -> AbstractContextManager[None]:
        """A turn beside those of others. Whoever waits asks for each anew: a forked child has other turns."""
        return self.turns.shared()

    def after_fork(self) -> None:
        """In a forked child: who had a turn, or waited for one, are threads of the parent's."""
        self.turns = Turns()


class Keyspaces:
    """The open ones by directory and options. The last client that gives one back closes it."""

    def __init__(self) -> None:
        # Reentrant: a client that is collected as garbage gives its keyspace back, in whichever thread that happens.
        self._mutex = threading.RLock()
        self._open: dict[object, Shared] = {}

    def take(self, path: str | os.PathLike[str], options: dict[str, Any]) -> Shared:
        """The keyspace of a directory, opened where it is not.

        Raises:
            DiskstreamError: it cannot be opened.
        """
        # A forked child opens its own: counting clients together would close what the other still has.
        key: object = (os.getpid(), followed(path_of(path)), tuple(sorted(options.items())))
        if not all(isinstance(value, Hashable) for value in options.values()):
            key = object()  # a wrong one, as opening it will say; or a clock that is equal to no other
        with self._mutex:
            found = self._open.get(key)
            if found is None:
                found = self._open[key] = Shared(key, Keyspace(path, **options))
            found.clients += 1
            return found

    def give_back(self, shared: Shared) -> None:
        """One client less."""
        with self._mutex:
            shared.clients -= 1
            if shared.clients:
                return
            self._open.pop(shared.key, None)
        shared.keyspace.close()

    def after_fork(self) -> None:
        """In a forked child: the mutex may be held by a thread of the parent's."""
        self._mutex = threading.RLock()
        for shared in list(self._open.values()):
            shared.after_fork()


# The one thing that all clients of a process have to know of each other: without it each would watch for changes, and
# hold transactions apart, for itself alone.
OPEN = Keyspaces()
os.register_at_fork(after_in_child=OPEN.after_fork)
