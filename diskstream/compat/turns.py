"""Commands of several threads at once, and transactions alone."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Turns"]


class Turns:
    """A lock that many share or one has: EXEC sees no other command of this process between its own.

    Who wants to be alone goes before those that come later, lest it wait for ever.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition(threading.Lock())
        self._sharing = 0
        self._alone = False
        self._want_alone = 0

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Together with others that share."""
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

    @contextmanager
    def alone(self) -> Iterator[None]:
        """With nobody else."""
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
