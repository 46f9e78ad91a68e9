"""How a command ends that is told to: SIGINT, SIGTERM, its terminal gone, or nobody there to read any more."""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from diskstream.cli.standard_files import forget_output

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

# What else is heard as SIGINT is, unless it is ignored. SIGHUP comes where a terminal goes; `nohup` has it ignored.
_AS_INTERRUPT = (signal.SIGTERM, signal.SIGHUP)


class Stopped(Exception):  # noqa: N818  # not an error: whoever waited for more wants no more
    """The command was told to end."""


@contextmanager
def stopping() -> Iterator[None]:
    """Signals that end a command raise Stopped within the block; one that nobody catches ends it quietly.

    Raises:
        BrokenPipeError: nobody reads any more; what was not written is given up, and the command ends with status 1.
    """

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  # the signature is the system's
        raise Stopped

    is_ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    heard = _SIGNALS if is_ignored else (*_SIGNALS, signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in heard}
    try:
        yield
    except Stopped:
        forget_output()
    except BrokenPipeError:
        forget_output()
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def told_to_end() -> Iterator[None]:
    """SIGTERM and SIGHUP are heard as SIGINT is within the block, so that what is half made is cleared away."""
    ours: list[signal.Signals] = []
    if threading.current_thread() is threading.main_thread():
        ours = [number for number in _AS_INTERRUPT if signal.getsignal(number) == signal.SIG_DFL]
    for number in ours:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def check_reader() -> None:
    """Looks whether standard output is a pipe that nobody reads any more: nothing is written that would tell.

    Raises:
        BrokenPipeError: it is.
    """
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        found = poll.poll(0)
    except (OSError, ValueError, AttributeError):
        return  # closed, or no file
    if any(event & (select.POLLERR | select.POLLNVAL) for _, event in found):
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
