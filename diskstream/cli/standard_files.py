"""Standard input, output and error, where they are closed, full, or read by nobody."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import TYPE_CHECKING

from diskstream.cli.failure import Failure

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_STANDARD = (0, 1, 2)
_INPUT = 0
_OUTPUT = 1
OUTPUT = "standard output"
_closed: set[int] = set()


def fill_closed() -> None:
    """Open what is closed of the three, onto nothing.

    A file of the store would else get its number, and whatever is printed would go into that file.
    """
    for number in _STANDARD:
        try:
            os.fstat(number)
        except OSError:
            _closed.add(number)
            os.open(os.devnull, os.O_RDWR)  # the least number that is free: this one
    if sys.stdin is None:  # whoever is asked then gives no answer, as where it is empty
        sys.stdin = io.TextIOWrapper(io.FileIO(0, "r", closefd=False), encoding="utf-8")
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), encoding="utf-8")


def check_open() -> None:
    """That what is printed comes to somebody: for commands that do nothing else.

    Raises:
        Failure: standard output was closed when the command began.
    """
    if _OUTPUT in _closed:
        raise Failure(
            "standard output is closed: there is nowhere to write to", hint="> /dev/null throws away all of it"
        )


def check_input() -> None:
    """That somebody may write what is read: nothing is no end of it.

    Raises:
        Failure: standard input was closed when the command began.
    """
    if _INPUT in _closed:
        raise Failure("standard input is closed: there is nothing to read", hint="< /dev/null is an empty one")


class _Output(io.FileIO):
    """Standard output, whose errors say that it is this that cannot be written to."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            error.filename = OUTPUT
            raise


def buffer_output() -> None:
    """Have all be written to standard output, or an error be raised that names it.

    Where Python was told to leave it without a buffer, nobody would look how much of it a single write has taken: a
    pipe whose reader goes takes a part, and so does one that is set not to block.
    """
    bare = sys.stdout
    if isinstance(bare, io.TextIOWrapper) and isinstance(bare.buffer, io.RawIOBase | io.BufferedWriter):
        bare.flush()
        whole = io.BufferedWriter(_Output(bare.fileno(), "w", closefd=False))
        lines = bare.line_buffering or isinstance(bare.buffer, io.RawIOBase)
        sys.stdout = io.TextIOWrapper(whole, encoding=bare.encoding, errors=bare.errors, line_buffering=lines)


def print_anything() -> None:
    """Let what the encoding of standard output does not have be printed as an escape; UTF-8 has no lone surrogates."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.reconfigure(errors="backslashreplace")


def forget_output() -> None:
    """Give up what is still buffered: it cannot be written, and would be tried again at the end of the interpreter."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            number = sys.stdout.fileno()
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, number)
            os.close(nowhere)
