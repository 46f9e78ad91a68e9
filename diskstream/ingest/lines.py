"""Files as lines of bytes: bounded, counted, and with a way back.

Only `\\n` ends a line. Whatever else Unicode or Python call a line break stays inside it, and no byte is changed unless
an encoding is named.
"""

from __future__ import annotations

import codecs
import io
import os
import select
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO

from diskstream.errors import StorageError
from diskstream.ingest.errors import InputError
from diskstream.ingest.rows import LONGEST_ROW_BYTES

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_CHUNK = 256 * 1024
# What a pipe brings in pieces is one batch, where no piece is so long in coming; but no longer than so, as rows may
# come one by one with never a pause.
_QUIET_S, _LONGEST_S = 0.2, 1.0


class Lines:
    """The lines of a file, each with its `\\n`. `number` is that of the line that `next_line` returned last."""

    def __init__(self, file: BinaryIO, *, max_bytes: int = LONGEST_ROW_BYTES, name: str | None = None) -> None:
        self.name = name  # what messages call the file
        self.number = 0
        self.max_bytes = max_bytes
        self.ends_with_newline = True
        self._file = file
        self._again: deque[bytes] = deque()

    def next_line(self) -> bytes:
        """The next line, `b""` at the end. Of an overlong line only the first `max_bytes` and one more."""
        if self._again:
            self.number += 1
            return self._again.popleft()
        line = self._file.readline(self.max_bytes + 1)
        if line:
            self.number += 1
            self.ends_with_newline = line.endswith(b"\n")
            if len(line) > self.max_bytes and not self.ends_with_newline:
                self._skip_rest()
        return line

    def push_back(self, lines: list[bytes]) -> None:
        """Return the lines that were read last, to be read again."""
        self._again.extendleft(reversed(lines))
        self.number -= len(lines)

    def _skip_rest(self) -> None:
        while rest := self._file.readline(_CHUNK):
            if rest.endswith(b"\n"):
                self.ends_with_newline = True
                return


class _ShrunkError(Exception):
    """The file is shorter than it was: where it ends is no end of a row."""


class _Counted(io.RawIOBase):
    """Reads through, tells how many bytes came, and makes UTF-8 of them where an encoding is named.

    Attributes:
        good_lines: of the bytes that are not of the encoding, those that end before the fault.
    """

    def __init__(
        self,
        file: BinaryIO,
        encoding: str | None,
        on_read: Callable[[int], None] | None,
        head: bytes,
        on_quiet: Callable[[], None] | None,
    ) -> None:
        self._file = file
        self._head = head
        self._on_quiet, self._told = on_quiet, time.monotonic()
        self._size = _size(file)
        self._came = 0
        self._on_read = on_read
        self._decoder = None if encoding is None else codecs.getincrementaldecoder(encoding)("strict")
        self._pending = b""
        self.good_lines = 0

    def readable(self) -> bool:
        return True

    def _may_wait(self) -> bool:
        """Whether the next piece is long in coming, or it is long since that was said; never of what has a size."""
        if self._size:
            return False
        return is_quiet(self._file, _QUIET_S) or time.monotonic() - self._told >= _LONGEST_S

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        while not self._pending:
            if not self._head and self._on_quiet is not None and self._may_wait():
                self._on_quiet()
                self._told = time.monotonic()
            chunk, self._head = self._head or read_some(self._file, len(view)), b""
            self._came += len(chunk)
            if chunk and self._on_read is not None:
                self._on_read(len(chunk))
            if not chunk and self._came < self._size and _size(self._file) < self._size:
                raise _ShrunkError
            self._pending = chunk if self._decoder is None else self._decoded(self._decoder, chunk)
            if not chunk:
                break
        taken = self._pending[: len(view)]
        self._pending = self._pending[len(taken) :]
        view[: len(taken)] = taken
        return len(taken)

    def _decoded(self, decoder: codecs.IncrementalDecoder, chunk: bytes) -> bytes:
        before = decoder.getstate()
        try:
            return decoder.decode(chunk, not chunk).encode()
        except UnicodeError:
            # Where in the chunk it is not every codec says, nor how far it came: byte by byte all show it.
            decoder.setstate(before)
            with suppress(UnicodeError):
                for at in range(len(chunk)):
                    self.good_lines += decoder.decode(chunk[at : at + 1]).encode().count(b"\n")
            raise


def read_some(file: BinaryIO, size: int) -> bytes:
    """At most so many bytes, as soon as there are any; none at the end only, also where reading is set not to block.

    A pipe that stays open, as that of `tail -f`, would else keep its rows back until there are as many as that.
    """
    read: Callable[[int], bytes | None] = getattr(file, "read1", file.read)
    while True:
        chunk: bytes | None = None
        with suppress(BlockingIOError):
            chunk = read(size)
        # What does not block reads none both at the end and where nothing is there yet.
        if chunk or (chunk is not None and not is_quiet(file, 0)):
            return chunk
        select.select([file], [], [])


def is_quiet(file: BinaryIO, seconds: float) -> bool:
    """Whether nothing has come for so long, and more may. A file that ends where it ends is not."""
    try:
        poll = select.poll()
        poll.register(file.fileno(), select.POLLIN)
    except (OSError, ValueError, AttributeError):
        return False  # it is in memory
    return not poll.poll(seconds * 1000)


def _size(file: BinaryIO) -> int:
    """Of a file, in bytes; of what has none 0."""
    try:
        status = os.fstat(file.fileno())
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


@contextmanager
def reading_lines(
    file: BinaryIO,
    *,
    name: str,
    encoding: str | None = None,
    on_read: Callable[[int], None] | None = None,
    head: bytes = b"",
    on_quiet: Callable[[], None] | None = None,
) -> Iterator[Lines]:
    """The lines of an open file, of which `head` has been read before. With `encoding` the bytes are read as that and
    come out as UTF-8. `on_quiet` is called before a pipe is waited for that brings nothing just now.
    """
    counted = _Counted(file, encoding, on_read, head, on_quiet)
    with io.BufferedReader(counted, _CHUNK) as buffered:
        lines = Lines(buffered, name=name)
        try:
            yield lines
        except UnicodeError as error:
            # Some codecs raise one without a reason; and not all that they make is text, as half of a surrogate pair.
            raise InputError(
                f"is not {encoding}: {getattr(error, 'reason', error)}",
                file=name,
                line=lines.number + counted.good_lines + 1,
                hint="name its encoding with --encoding, or leave that out to keep every byte as it is",
            ) from error
        except _ShrunkError:
            raise InputError(
                "has become shorter while it was read",
                file=name,
                line=lines.number + 1,
                hint="import what does not change, such as a copy of it",
            ) from None
        except StorageError:
            raise  # of what `on_quiet` wrote
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", file=name) from error
