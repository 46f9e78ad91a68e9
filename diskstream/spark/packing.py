"""Staged batches on their way into a stream. Most were packed by tasks; those that were merged are packed here.

Packing a batch takes longer than appending it, in native code that needs nobody's lock; a stream takes one batch after
another. So threads pack a few batches ahead of the one that is appended::

    this thread      read 1  read 2  read 3  append 1  read 4  append 2  read 5  append 3
    one that packs           pack 1          pack 3            pack 4
    another                          pack 2           ...

All batches are read by the thread that appends, in their order: `merging` keeps what it sorts from one to the next.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

from diskstream.arrow_rows import PackedRows, pack
from diskstream.errors import DiskstreamError
from diskstream.spark.merging import Batch
from diskstream.spark.staged_reading import frames_of

__all__ = ["packed_ahead"]

_THREADS: Final = 2
_AHEAD: Final = 3  # batches, of no more than 16 MiB each


@contextmanager
def packed_ahead(batches: Sequence[Batch], *, given: bool) -> Iterator[Iterator[list[PackedRows]]]:
    """The frames of each batch, in order.

    Args:
        batches: each is read once, a few before the one whose frames are given.
        given: whether the rows have IDs.

    Yields:
        An iterator. What reading or packing a batch raises comes in its place: those before it are given first.
    """
    ids = "columns" if given else "auto"
    if len(batches) == 1:  # as a stream's of a small write is, of which there may be very many
        yield (frames_of(batch.read(), ids) for batch in batches)
        return
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="diskstream-commit") as pool:
        try:
            yield _packed(batches, pool, ids)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _packed(batches: Sequence[Batch], pool: ThreadPoolExecutor, ids: str) -> Iterator[list[PackedRows]]:
    begun: deque[Future[list[PackedRows]]] = deque()
    for batch in batches:
        begun.append(_begin(batch, pool, ids))
        if len(begun) > _AHEAD:
            yield begun.popleft().result()
    while begun:
        yield begun.popleft().result()


def _begin(batch: Batch, pool: ThreadPoolExecutor, ids: str) -> Future[list[PackedRows]]:
    begun: Future[list[PackedRows]] = Future()
    try:
        rows = batch.read()
    except DiskstreamError as error:
        begun.set_exception(error)
        return begun
    if not isinstance(rows, list):
        return pool.submit(pack, rows, ids)
    begun.set_result(rows)
    return begun
