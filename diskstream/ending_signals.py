"""Signals that end loops: one handler for all loops that a signal ends, and what handled it before behind the last."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TypeAlias

from diskstream.arguments import items_of
from diskstream.errors import ArgumentError, ArgumentTypeError

__all__ = ["ending_at"]

_Handler: TypeAlias = Callable[[int, FrameType | None], object] | int


class _Ending:
    """Handles one signal for as long as there is a loop that it ends; loops may end in any order."""

    def __init__(self, before: _Handler) -> None:
        self.before = before
        self.stops: dict[object, Callable[[], None]] = {}

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Stops all of them. Where there are none, whoever ended the last could not set back what was before."""
        if self.stops:
            for stop in list(self.stops.values()):
                stop()
        elif callable(self.before):
            self.before(number, frame)
        elif self.before == signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)


@contextlib.contextmanager
def ending_at(signals: tuple[int, ...], stop: Callable[[], None]) -> Iterator[None]:
    """Has each of these signals call `stop`, beside whatever others have it call, until this is left.

    Raises:
        ArgumentError: there is no such signal, it cannot be handled, or not from this thread.
    """
    key = object()
    with contextlib.ExitStack() as undo:
        for number in dict.fromkeys(items_of("signals", signals)):
            undo.callback(_leave, number, _handled(number, key, stop), key)
        yield


def _handled(number: int, key: object, stop: Callable[[], None]) -> _Ending:
    try:
        before = signal.getsignal(number)
        if before is not None:
            ending = before if isinstance(before, _Ending) else _Ending(before)
            signal.signal(number, ending)
            ending.stops[key] = stop
            return ending
    except TypeError as error:
        raise ArgumentTypeError(f"{number!r} is no signal: give its number, as signal.SIGTERM") from error
    except (ValueError, OverflowError, OSError) as error:
        raise ArgumentError(f"the entries cannot end at signal {number}: {error}") from error
    raise ArgumentError(f"what handles signal {number} is not Python's, and could not be set back")


def _leave(number: int, ending: _Ending, key: object) -> None:
    before, is_last = ending.before, len(ending.stops) == 1
    try:
        if is_last and ending is signal.getsignal(number):  # who has set another one since keeps it
            signal.signal(number, before)
    finally:
        del ending.stops[key]
