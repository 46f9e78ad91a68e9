"""A call in a thread of its own, for calls that wait for something."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

_T = TypeVar("_T")
# Nothing here takes longer than milliseconds: who waits for this long waits in vain.
LIMIT_S = 20.0


class Background(Generic[_T]):
    """Runs `call` beside the test. A thread that hangs does not keep the tests from ending."""

    def __init__(self, call: Callable[[], _T]) -> None:
        self._call = call
        self._returned: list[_T] = []
        self._raised: BaseException | None = None
        self._running = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._running.wait(LIMIT_S)

    def _run(self) -> None:
        self._running.set()
        try:
            self._returned.append(self._call())
        except BaseException as error:  # noqa: BLE001  # handed to the test, whatever it is
            self._raised = error

    def ended(self, within_s: float = LIMIT_S) -> bool:
        self._thread.join(within_s)
        return not self._thread.is_alive()

    def result(self) -> _T:
        """What the call returned, or raised.

        Raises:
            AssertionError: it still waits.
        """
        assert self.ended(), "the call waits in vain"
        if self._raised is not None:
            raise self._raised
        return self._returned[0]


def until_ended(waiting: Background[_T], again: Callable[[], object]) -> _T:
    """Does something again and again until the call beside it has had enough: no one knows when it began to wait."""
    for _ in range(2000):
        if waiting.ended(within_s=0.01):
            break
        again()
    return waiting.result()
