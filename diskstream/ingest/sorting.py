"""A stable sort by time within bounded memory.

Rows are held up to a budget; beyond it they are sorted and written to a temporary file as a run, and the runs are
merged in the end. Of N runs the merge holds 64 KiB each, so a budget of 64 MiB sorts 64 GiB within twice itself.

    run  = *row                        row = time:u64 length:u32 body
    body = count:u32 *(name length:u32 value length:u32) *(name value)
"""

from __future__ import annotations

import heapq
import io
import os
import struct
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from operator import itemgetter
from typing import IO, TYPE_CHECKING

from diskstream.ingest.errors import SortingError
from diskstream.ingest.rows import Pairs

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

Timed = tuple[int, Pairs]

_HEAD = struct.Struct("<QI")
_COUNT = struct.Struct("<I")
_READ_AHEAD = 64 * 1024
_OBJECT_BYTES = 33
_by_time = itemgetter(0)


def sorted_by_time(rows: Iterable[Timed], *, memory_bytes: int) -> Iterator[Timed]:
    """The rows in order of their times; rows of one time in the order they came. Reads all before it yields one.

    Raises:
        SortingError: there is no room for them.
    """
    held: list[Timed] = []
    held_bytes = 0
    before: Pairs = []
    with ExitStack() as stack:
        file: IO[bytes] | None = None
        runs: list[tuple[int, int]] = []
        for row in rows:
            held.append(row)
            held_bytes += _cost(row[1], before)
            before = row[1]
            if held_bytes >= memory_bytes:
                file = file or stack.enter_context(_temporary_file())
                with _telling():
                    runs.append(_write_run(file, held))
                held, held_bytes = [], 0
        held.sort(key=_by_time)
        # heapq.merge prefers the earlier of its inputs where times are equal: what is still held came last.
        merged = [] if file is None else [_read_run(file.fileno(), start, end) for start, end in runs]
        yield from heapq.merge(*merged, held, key=_by_time) if runs else held


@contextmanager
def _temporary_file() -> Iterator[IO[bytes]]:
    with _telling():
        file = _made()
    try:
        yield file
    finally:
        with suppress(OSError):  # closing tries once more to write what could not be
            file.close()


def _made() -> IO[bytes]:
    return tempfile.TemporaryFile(prefix="diskstream-sort-")


@contextmanager
def _telling() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SortingError(
            f"rows cannot be sorted in a temporary file: {error.strerror or error}",
            hint="name a directory with room in TMPDIR, or let --sort-memory hold more",
        ) from error


def _cost(pairs: Pairs, before: Pairs) -> int:
    """About what a row takes in memory: the objects of its list, tuples and values.

    And of its names, where they are its own, as in JSON lines; rows of a table share theirs with the row `before`.
    """
    if len(pairs) != len(before):
        return 200 + sum(100 + _OBJECT_BYTES + len(name) + len(value) for name, value in pairs)
    size = 200
    for (name, value), (other, _) in zip(pairs, before, strict=True):
        size += 100 + len(value)
        if name is not other:
            size += _OBJECT_BYTES + len(name)
    return size


def _write_run(file: IO[bytes], rows: list[Timed]) -> tuple[int, int]:
    """Write the rows, sorted. Returns where they begin and end."""
    start = file.tell()
    rows.sort(key=_by_time)
    for time, pairs in rows:
        lengths = [len(part) for pair in pairs for part in pair]
        parts = [_COUNT.pack(len(pairs)), struct.pack(f"<{len(lengths)}I", *lengths)]
        parts += [part for pair in pairs for part in pair]
        body = b"".join(parts)
        file.write(_HEAD.pack(time, len(body)))
        file.write(body)
    file.flush()
    return start, file.tell()


def _read_run(descriptor: int, start: int, end: int) -> Iterator[Timed]:
    with io.BufferedReader(_Extent(descriptor, start, end), _READ_AHEAD) as run:
        while head := run.read(_HEAD.size):
            time, length = _HEAD.unpack(head)
            yield time, _unpack(run.read(length))


def _unpack(body: bytes) -> Pairs:
    (count,) = _COUNT.unpack_from(body)
    lengths = struct.unpack_from(f"<{2 * count}I", body, _COUNT.size)
    at = _COUNT.size * (1 + 2 * count)
    parts = []
    for length in lengths:
        parts.append(body[at : at + length])
        at += length
    return list(zip(parts[::2], parts[1::2], strict=True))


class _Extent(io.RawIOBase):
    """A part of a file, read without moving the position that the file's other readers share."""

    def __init__(self, descriptor: int, start: int, end: int) -> None:
        self._descriptor = descriptor
        self._at = start
        self._end = end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        with _telling():
            size = os.preadv(self._descriptor, [view[: self._end - self._at]], self._at)
        self._at += size
        return size
