"""The physical limit: one write and one flush after the other, on a file whose blocks are there already."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

RECORD = b"x" * 96
FILE_BYTES = 8 << 20


@contextmanager
def zero_filled(path: Path) -> Iterator[int]:
    """A descriptor of a file of zeros that were written and flushed, so that a commit changes no metadata."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.pwrite(descriptor, bytes(FILE_BYTES), 0)
        os.fsync(descriptor)
        yield descriptor
    finally:
        os.close(descriptor)
        path.unlink()


def flush_step(descriptor: int, writes: int = 8) -> Callable[[], int]:
    """A step of `writes` times ``pwrite`` of 96 bytes, each followed by ``fdatasync``."""
    offset = 0

    def step() -> int:
        nonlocal offset
        for _ in range(writes):
            os.pwrite(descriptor, RECORD, offset)
            os.fdatasync(descriptor)
            offset = (offset + len(RECORD)) % (FILE_BYTES - len(RECORD))
        return writes

    return step


def dsync_step(descriptor: int, writes: int = 8) -> Callable[[], int]:
    """The same by ``pwritev`` with RWF_DSYNC: one system call for the write and its flush."""
    offset = 0

    def step() -> int:
        nonlocal offset
        for _ in range(writes):
            os.pwritev(descriptor, [RECORD], offset, os.RWF_DSYNC)
            offset = (offset + len(RECORD)) % (FILE_BYTES - len(RECORD))
        return writes

    return step
