"""Commands of several threads at once, and transactions alone."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from diskstream.compat.errors import RedisError

__all__ = ["Turns"]

# So often who is to be alone looks whether the last of the others has come to its end, which takes microseconds.
_LOOK_S = 0.0001


class Turns:
    """A lock that many share or one has: EXEC sees no other command of this process between its own.

    Who wants to be alone goes before those that come later, lest it wait for ever.

    A thread that has a turn, or is on its way to one, gets no second one. It asks only where a signal handler has
    interrupted it, and would wait for itself; or find half of what the interrupted command does, behind locks that are
    its own.

    A handler may raise at any moment. A plain lock and a set are changed in one native step each: a `Condition` and a
    count were left as they were, and the next turn never came.
    """

    def __init__(self) -> None:
        self._gate = threading.Lock()  # whoever comes takes it for a moment, who is alone for as long as he is
        self._sharing: set[int] = set()  # threads
        self._within: set[int] = set()  # the same, and those on their way

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Together with others that share.

        Raises:
            RedisError: this thread has a turn already.
        """
        thread = self.outside()
        try:
            self._within.add(thread)
            try:
                with self._gate:
                    self._sharing.add(thread)
                yield
            finally:
                self._sharing.discard(thread)
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
            with self._gate:
                while self._sharing:
                    time.sleep(_LOOK_S)
                yield
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
