"""Commands of several threads at once, and transactions alone."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from diskstream.compat.errors import RedisError

__all__ = ["Turns"]


class Turns:
    """A lock that many share or one has: EXEC sees no other command of this process between its own.

    Who wants to be alone goes before those that come later, lest it wait for ever.

    A thread that has a turn, or is on its way to one, gets no second one. It asks only where a signal handler has
    interrupted it, and would wait for itself; or find half of what the interrupted command does, behind locks that are
    its own.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition(threading.Lock())
        self._sharing = 0
        self._alone = False
        self._want_alone = 0
        self._within: set[int] = set()  # threads; not a matter of the condition, which a handler could not have

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Together with others that share.

        Raises:
            RedisError: this thread has a turn already.
        """
        thread = self.outside()
        try:
            self._within.add(thread)
            with self._condition:
                self._condition.wait_for(lambda: not self._alone and not self._want_alone)
                self._sharing += 1
            try:
                yield
            finally:
                with self._condition:
                    self._sharing -= 1
                    if not self._sharing and self._want_alone:
                        self._condition.notify_all()
        finally:
            self._within.discard(thread)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """With nobody else.

        Raises:
            RedisError: this thread has a turn already.
        """
        thread = self.outside()
        try:
            self._within.add(thread)
            with self._condition:
                self._want_alone += 1
                try:
                    self._condition.wait_for(lambda: not self._alone and not self._sharing)
                finally:
                    self._want_alone -= 1
                    self._condition.notify_all()  # who was interrupted while it waited must not hold up the others
                self._alone = True
            try:
                yield
            finally:
                with self._condition:
                    self._alone = False
                    self._condition.notify_all()
        finally:
            self._within.discard(thread)

    def outside(self) -> int:
        """The number of this thread, which has no turn.

        Raises:
            RedisError: it has one.
        """
        thread = threading.get_ident()
        if thread in self._within:
            raise RedisError(
                "this thread is in the middle of a command already: not from a signal handler; let it set a flag"
            )
        return thread
