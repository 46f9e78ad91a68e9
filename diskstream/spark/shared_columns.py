"""Batches handed to a task's JVM in memory that both have mapped, in place of a socket's copies.

A worker writes its Arrow batches to a socket, and the kernel, a stream of the JVM and Arrow copy them in turn. Where
the JVM's side of a read by columns (`SharedColumns.scala`) offers it, the worker lays batches out in a file of memory
instead, and says where each one lies. The offer comes with the partition; what one side then says to the other goes
through a socket of the task's own:

    worker to JVM, once    | pid | fd |                          u64 each, little-endian: the file is /proc/PID/fd/FD
    JVM to worker, once    | 1 |                                 u8: it has it open. Else it lets go of the socket
    worker to JVM, each    | size | offset | length | slot |     u64 each: a batch, in a file that is `size` bytes long
    JVM to worker, each    | slot |                              u8: nothing reads the batch there any more
    worker to JVM, at last | 0 | 0 | 0 | 0 |

A batch is an Arrow stream of one record batch. There are `SLOTS` places for batches, so that the worker makes one while
the JVM reads another, and none is written to again before the JVM gave it back. Only when it gave back all of them does
the file grow, for a batch that has no room; one that is large has a file with a single place.

An end without the last message is a failure, which the worker tells as every failure, by Spark's own socket. Batches go
by that socket too where anything of this is not to be had, and where there is a single one, which is small.
"""

import mmap
import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import InputPartition

from diskstream.errors import ArgumentError
from diskstream.plurals import number_of

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["SLOTS", "Offered", "handed"]

SLOTS: Final = 3
_SMALL_BYTES: Final = 1 << 18  # of one batch alone: to share memory takes longer than to copy this
_LARGE_BYTES: Final = 64 << 20
_MOST_BYTES: Final = (1 << 31) - 1  # what a JVM maps in one piece
_ROOM: Final = 1.25  # the next batch may be somewhat larger than the one that slots are made for
_FRAMING_BYTES: Final = 64  # of an Arrow stream: its end, and what aligns its two messages
_FILE: Final = struct.Struct("<QQ")
_BATCH: Final = struct.Struct("<QQQQ")
_END: Final = _BATCH.pack(0, 0, 0, 0)


class Offered(InputPartition):
    """A partition as it was planned (`value`), of which the task's JVM would take batches at a place."""

    def __init__(self, planned: Any, place: str) -> None:
        super().__init__(planned)
        self.place = place


def handed(partition: InputPartition, read: "Callable[[Any], Iterator[pa.RecordBatch]]") -> "Iterator[pa.RecordBatch]":
    """The batches of a partition, on their way to Spark.

    Args:
        partition: as Spark gives it.
        read: the batches, of one schema, of a partition as it was planned.

    Yields:
        Those that Spark's socket is to take: all of them or, where they went by memory, none.
    """
    if not isinstance(partition, Offered):
        yield from read(partition)
        return
    batches = read(partition.value)
    begun = list(islice(batches, 1))
    if not begun:
        return
    if begun[0].nbytes <= _SMALL_BYTES:
        try:
            begun.extend(islice(batches, 1))
        except Exception:
            yield from begun  # who has enough with it need not hear of the next one
            raise
        if len(begun) == 1:
            yield from begun
            return
    with _shared(partition.place) as memory:
        if memory is None:
            yield from chain(begun, batches)
        elif all(memory.put(batch) for batch in chain(begun, batches)):
            memory.end()


@contextmanager
def _shared(place: str) -> "Iterator[_Memory | None]":
    """Memory that the task's JVM has open too; None where that cannot be had."""
    if not hasattr(os, "memfd_create"):
        yield None
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel, _file_of_memory() as file:
        yield _Memory(channel, file) if _is_taken(channel, place, file) else None


@contextmanager
def _file_of_memory() -> Iterator[int]:
    file = os.memfd_create("diskstream-columns")
    try:
        yield file
    finally:
        os.close(file)


def _is_taken(channel: socket.socket, place: str, file: int) -> bool:
    """Whether the JVM has the file open. It answers when it gets to this partition, however late that is."""
    with suppress(OSError):
        channel.connect(place)
        channel.sendall(_FILE.pack(os.getpid(), file))
        return channel.recv(1) == b"\1"
    return False


class _Memory:
    """A file of memory in slots, and the socket by which they are given and taken back."""

    def __init__(self, channel: socket.socket, file: int) -> None:
        self._channel, self._file = channel, file
        self._map: mmap.mmap | None = None  # closed with the last that writes to it
        self._slots, self._slot_bytes = 0, 0
        self._free: list[int] = []
        self._around_bytes = 0  # a batch: all are of one schema

    def put(self, batch: "pa.RecordBatch") -> bool:
        """Lays a batch out and says where.

        Returns:
            False where nobody wants it any more: the JVM has enough, or is gone.

        Raises:
            ArgumentError: it is larger than what a JVM can map.
        """
        import pyarrow as pa

        if not self._around_bytes:
            self._around_bytes = batch.schema.serialize().size + _FRAMING_BYTES
        needed = pa.ipc.get_record_batch_size(batch) + self._around_bytes
        with suppress(BrokenPipeError, ConnectionResetError):
            if not self._wait_for(needed):
                return False
            slot = self._free.pop()
            start = slot * self._slot_bytes
            assert self._map is not None
            sink = pa.FixedSizeBufferWriter(pa.py_buffer(memoryview(self._map)[start : start + self._slot_bytes]))
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            self._channel.sendall(_BATCH.pack(self._slots * self._slot_bytes, start, sink.tell(), slot))
            return True
        return False

    def _wait_for(self, needed: int) -> bool:
        """Waits for a slot of so many bytes; False where none will come."""
        while len(self._free) < (1 if needed <= self._slot_bytes else self._slots):
            given_back = self._channel.recv(SLOTS)
            if not given_back:
                return False
            self._free.extend(given_back)
        if needed > self._slot_bytes:
            self._grow(needed)
        return True

    def _grow(self, needed: int) -> None:
        """Makes slots of at least so many bytes, while none is in use."""
        if needed > _MOST_BYTES:
            raise ArgumentError(
                f"a batch of {number_of(needed, 'byte')} is more than Spark can take: give a smaller batchRows"
            )
        self._slots = SLOTS if needed <= _LARGE_BYTES else 1
        wanted = min(int(needed * _ROOM), _MOST_BYTES)
        self._slot_bytes = -(-wanted // mmap.PAGESIZE) * mmap.PAGESIZE if self._slots > 1 else wanted
        self._free = list(range(self._slots))
        size = self._slots * self._slot_bytes
        os.ftruncate(self._file, size)
        self._map = mmap.mmap(self._file, size)

    def end(self) -> None:
        """Says that there are no more batches."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self._channel.sendall(_END)
