"""A span read by several threads, a piece each, and handed on in order: unpacking needs no interpreter lock."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from diskstream.exporting.request import Column
from diskstream.exporting.span import Span
from diskstream.stream import Stream

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["read_in_order"]

_PIECE_BYTES: Final = 8 << 20
_PIECE_ENTRIES: Final = 1 << 18
# Of columns each row costs four bytes, whether its entry has the field or not.
_PIECE_CELLS: Final = 4 << 20
_FEWEST_ROWS: Final = 512
_BATCH_ROWS: Final = 16_384
_MOST_THREADS: Final = 4


def read_in_order(
    stream: Stream, span: Span, columns: list[Column], duplicates: str
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Record batches of a span in order, each with its bytes of names and values, about.

    Without columns in layout ``fields``, else in layout ``typed``: see `Stream.scan`.

    Raises:
        ArgumentError: a repeated name under ``fail``, or a value that is not of its column's type.
        CorruptionError: something cannot be read; what came before was right.
        ChangedError: the stream went while a piece was read; one that went between two pieces is the caller's to find.
    """
    if span.start > span.end:
        return
    rows = max(_FEWEST_ROWS, min(_PIECE_ENTRIES, _PIECE_CELLS // max(1, len(columns))))
    how: dict[str, Any] = {"layout": "fields"}
    if columns:
        how = {"layout": "typed", "columns": columns, "duplicates": duplicates, "exact": True}
    pieces = iter(stream.splits(span.start, span.end, max_entries=rows, max_bytes=_PIECE_BYTES))

    def read(first: Any, last: Any, read_so_far: SimpleQueue[pa.RecordBatch | None]) -> None:
        try:
            for batch in stream.scan(first, last, **how, times=False, batch_rows=min(rows, _BATCH_ROWS)):
                read_so_far.put(batch)
        finally:
            read_so_far.put(None)

    threads = min(_MOST_THREADS, max(1, len(os.sched_getaffinity(0))))
    under_way: deque[tuple[Future[None], SimpleQueue[pa.RecordBatch | None], float]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="diskstream-export") as pool:
        try:
            while True:
                while len(under_way) <= threads and (piece := next(pieces, None)) is not None:
                    share = piece.size_bytes / max(1, piece.entries)
                    batches: SimpleQueue[pa.RecordBatch | None] = SimpleQueue()  # at most those of a piece
                    under_way.append((pool.submit(read, piece.first, piece.last, batches), batches, share))
                if not under_way:
                    return
                future, batches, share = under_way.popleft()
                while (batch := batches.get()) is not None:
                    yield batch, round(batch.num_rows * share)
                future.result()  # raises what ended it
        finally:
            for future, _, _ in under_way:
                future.cancel()
