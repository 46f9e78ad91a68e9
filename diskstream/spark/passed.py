"""Rows with given IDs that cannot follow any more, since others added to their stream meanwhile: which, in words."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from diskstream.arrow_rows import MAX_FRAMES
from diskstream.ids import EntryID
from diskstream.plurals import number_of
from diskstream.spark.merging import Batch, Batches
from diskstream.spark.names import as_bytes, as_text
from diskstream.spark.staged_reading import frames_of
from diskstream.spark.staging import StagedFile

if TYPE_CHECKING:
    from diskstream.store import Store

__all__ = ["PARTS", "passed_before", "what_is_missing"]

# Parts of one batch: `Stream.add_arrow` makes at most so many frames of it.
PARTS = MAX_FRAMES


def passed_before(store: "Store", files: Iterable[StagedFile], record: bytes, begin: tuple[int, int]) -> str | None:
    """A stream that has nothing yet of a manifest with given IDs, and cannot take its first row; None if all can.

    Args:
        store: where the streams are.
        files: what the manifest lists.
        record: the writer, as streams remember it.
        begin: the version, and its first part.
    """
    firsts: dict[str, tuple[int, int]] = {}
    for file in files:
        for batch in file.batches:
            stream, first = as_text(as_bytes(batch.stream)), batch.first or (0, 0)
            firsts[stream] = min(first, firsts.get(stream, first))
    for stream, first in sorted(firsts.items()):
        target = store.stream(as_bytes(stream))
        done = target.committed(record)
        if (done is None or done < begin) and EntryID(*first) <= target.last_id():
            return stream
    return None


def what_is_missing(
    store: "Store", stream: str, streams: list[tuple[str, Batches]], record: bytes, begin: tuple[int, int]
) -> str:
    """How far the rows of a manifest came when a stream had passed the next of them.

    Args:
        store: where the streams are.
        stream: the stream that has passed its rows.
        streams: all rows of the manifest, as they were to be appended.
        record: the writer, as streams remember it.
        begin: the version, and its first part.

    Raises:
        StorageError: what was staged cannot be read.
    """
    added = {name: _added(store, name, batches, record, begin) for name, batches in streams}
    total = {name: _rows(batches) for name, batches in streams}
    last = store.stream(as_bytes(stream)).last_id()
    first = _id_of(dict(streams)[stream], added[stream])
    text = (
        f"stream {stream} has come to {last}, as others added to it while rows with given IDs were written: of "
        f"{number_of(total[stream], 'row')} {added[stream]:,} were added, and {total[stream] - added[stream]:,}, from "
        f"{first} on, were not"
    )
    if others := [name for name in total if name != stream]:
        whole, none = (sum(added[name] == each.get(name, 0) for name in others) for each in (total, {}))
        text += f"; of {number_of(len(others), 'other stream')} {whole:,} have all their rows, "
        text += f"{len(others) - whole - none:,} some"
    return (
        f"{text}. Nothing of it is added later: see that nothing else adds to a stream while rows with given IDs are "
        "written to it, and write what is missing to another stream, or with ids=auto"
    )


def _added(store: "Store", stream: str, batches: Batches, record: bytes, begin: tuple[int, int]) -> int:
    """Rows that a stream has."""
    done = store.stream(as_bytes(stream)).committed(record)
    if done is None or done < begin:
        return 0
    number, frame = divmod(done[1] - begin[1], PARTS)
    if done[0] > begin[0] or number >= len(batches):
        return _rows(batches)
    frames = frames_of(batches[number].read(), "columns")  # more than one only where its rows are long
    return _rows(batches[:number]) + sum(each.rows for each in frames[: frame + 1])


def _rows(batches: Iterable[Batch]) -> int:
    return sum(batch.rows for batch in batches)


def _id_of(batches: Batches, row: int) -> EntryID:
    for each in batches:
        if row >= each.rows:
            row -= each.rows
            continue
        for frame in frames_of(each.read(), "columns"):
            if row < frame.rows:
                return frame.block().id_at(row)
            row -= frame.rows
    raise IndexError(row)
