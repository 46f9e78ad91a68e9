"""The files of an archive as they are read back: each has the columns that it must have, and the times of its IDs."""

from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from diskstream.arrow_digests import is_of_pairs
from diskstream.batches import arrow_type, field_list_type
from diskstream.errors import ArchiveError, ChangedError, StorageError
from diskstream.ids import EntryID
from diskstream.plurals import number_of
from diskstream.spark.jobs.digest import Digest, digest_of
from diskstream.spark.jobs.manifest import ArchivedFile, Shape, latest
from diskstream.spark.jobs.parts import CORRUPT, NAMES
from diskstream.spark.jobs.place import Place

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

__all__ = ["checked_part", "read_part", "rows_within", "shown", "verify_part"]

_READ_ROWS: Final = 16_384  # what stays within a core's cache while it is digested
_LAST_MS: Final = ((1 << 63) - 1) // 1000  # of which Arrow's microseconds can tell


def read_part(
    place: Place, path: str, shape: Shape, *, among: bool = False, columns: Sequence[str] | None = None
) -> "Iterator[pa.RecordBatch]":
    """The rows of a file, in order.

    Args:
        place: the archive.
        path: the file, below it.
        shape: what all files of the archive have in common.
        among: names of ``fields`` as places among those that occur: see `NamesAmong`.
        columns: only these are read, of which `id_ms` and `ts` are two.

    Raises:
        ArchiveError: it is missing or damaged.
        ChangedError: it is no file of the archive any more.
        StorageError: the disk says no.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    full = place.full(path)
    try:
        with place.telling(full, "read"), place.files.open_input_file(full) as source:
            # Tasks run side by side already.
            opened = pq.ParquetFile(source, pre_buffer=False)
            _check_columns(full, opened.schema_arrow, shape)
            if among and _has_names(opened):
                opened = pq.ParquetFile(source, metadata=opened.metadata, pre_buffer=False, read_dictionary=[NAMES])
            # Each group has a dictionary of its own, and Arrow makes no batch of places of two.
            for group in range(opened.num_row_groups):
                for batch in opened.iter_batches(
                    batch_size=_READ_ROWS, row_groups=[group], columns=columns, use_threads=False
                ):
                    _check_times(full, batch)
                    yield batch
    except (pa.ArrowInvalid, pa.ArrowException, UnicodeDecodeError) as error:
        raise _damaged(full, str(error)) from error
    except StorageError as error:
        if error.errno == 0:  # pyarrow's own OSError: what it read is no Parquet
            raise _damaged(full, str(error.strerror)) from error
        if isinstance(error.__cause__, FileNotFoundError):
            _check_named(place, path)
            raise ArchiveError(f"{full} is missing, though the manifest names it: restore it from a copy") from error
        raise


def _check_named(place: Place, path: str) -> None:
    """A job of some hours goes by the version that it began with: of that nothing is lost, and nothing to be restored.

    Raises:
        ChangedError: the archive has other files in place of one that is missing.
    """
    now = latest(place)
    if now.version and path not in {each.path for each in now.files}:
        what = "it was compacted since it was planned, and the grace time is over: run this again, with a longer one"
        raise ChangedError(place.full(path), what)


def _has_names(opened: "pq.ParquetFile") -> bool:
    """Whether there is the column that can be read as places. A damaged footer may call it something else."""
    return NAMES in (opened.schema.column(number).path for number in range(len(opened.schema)))


def _damaged(full: str, what: str) -> ArchiveError:
    return ArchiveError(f"{full} is damaged: {what}; restore it from a copy")


def _check_columns(full: str, found: "pa.Schema", shape: Shape) -> None:
    """A footer has no checksum: a flipped bit may rename a column, or make it one of another type.

    Raises:
        ArchiveError: so it is.
    """
    import pyarrow as pa

    wanted: list[tuple[str, pa.DataType]] = [
        ("id_ms", pa.int64()),
        ("id_seq", pa.int64()),
        ("ts", pa.timestamp("us", "UTC")),
    ]
    if shape.layout == "fields":
        wanted.append(("fields", field_list_type()))
    else:
        try:
            wanted += [(shown(name), arrow_type(kind)) for name, kind in shape.columns]
        except (KeyError, ValueError) as error:
            what = f"{full} cannot be read: the manifest is damaged: it has a column of no known type ({error})"
            raise ArchiveError(what) from error
        wanted.append((CORRUPT, field_list_type()))
    same = len(found) == len(wanted) and all(
        each.name == name and _is_alike(each.type, kind) for each, (name, kind) in zip(found, wanted, strict=True)
    )
    if not same:
        columns = _words([(each.name, each.type) for each in found])
        raise _damaged(full, f"its columns are {columns}, not {_words(wanted)}")


def shown(name: str) -> str:
    """As `Stream.scan` names the column of a field."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _is_alike(found: "pa.DataType", wanted: "pa.DataType") -> bool:
    """Whether nulls may occur, and what the inside of a list is called, are no part of what an archive promises."""
    return is_of_pairs(found) if is_of_pairs(wanted) else bool(found == wanted)


def _words(columns: "list[tuple[str, pa.DataType]]") -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns)


def _check_times(full: str, batch: "pa.RecordBatch") -> None:
    """The digest leaves `ts` out, by which engines choose rows: it is that of the ID, or null where that is too late.

    Raises:
        ArchiveError: it is another.
    """
    import pyarrow as pa

    times, ms = batch.column("ts"), np.asarray(batch.column("id_ms")).view(np.uint64)
    known = ms <= np.uint64(_LAST_MS)
    right = np.asarray(times.is_valid()) == known
    values = np.asarray(times.view(pa.int64()).fill_null(0)).view(np.uint64)
    right &= ~known | (values == ms * np.uint64(1000))
    if not right.all():
        row = int(np.flatnonzero(~right)[0])
        raise _damaged(full, f"the row of ID {int(ms[row])}-… has the time {times[row]}")


def checked_part(
    place: Place, file: ArchivedFile, shape: Shape, *, columns: Sequence[str] | None = None
) -> "Generator[pa.RecordBatch, None, None]":
    """As `read_part`, and an error behind the last rows where they are not those that were written.

    Args:
        place: the archive.
        file: the file; of less than all `columns` the number of rows is looked at, and the times of the first and the
            last one, by which a file that has another's name is known.
        shape: what all files of the archive have in common.
        columns: as `read_part`.

    Raises:
        ArchiveError: it is missing or damaged.
        StorageError: the disk says no.
    """
    found, last_ms = Digest(), file.first.ms
    for batch in read_part(place, file.path, shape, columns=columns):
        if columns is None:
            found += digest_of([batch])
        elif batch.num_rows:
            ms = np.asarray(batch.column("id_ms")).view(np.uint64)
            if not found.rows and int(ms[0]) != file.first.ms:
                raise _not_as_written(place, file)
            found, last_ms = found + Digest(batch.num_rows), int(ms[-1])
        yield batch
    if found != (file.digest if columns is None else Digest(file.rows)) or (columns and last_ms != file.last.ms):
        raise _not_as_written(place, file)


def _not_as_written(place: Place, file: ArchivedFile) -> ArchiveError:
    return _damaged(place.full(file.path), "its rows are not those that were written")


def rows_within(batch: "pa.RecordBatch", first: EntryID, last: EntryID) -> "pa.RecordBatch":
    """The rows of a file's batch from one ID to another, both included; they are in order, so that is one slice."""
    ms, seq = (np.asarray(batch.column(name)).view(np.uint64) for name in ("id_ms", "id_seq"))
    low, high = (np.uint64(first.ms), np.uint64(first.seq)), (np.uint64(last.ms), np.uint64(last.seq))
    above = (ms > low[0]) | ((ms == low[0]) & (seq >= low[1]))
    below = (ms < high[0]) | ((ms == high[0]) & (seq <= high[1]))
    inside = np.flatnonzero(above & below)
    return batch.slice(int(inside[0]), len(inside)) if len(inside) else batch.slice(0, 0)


def verify_part(place: Place, file: ArchivedFile, shape: Shape) -> None:
    """Reads a file back, all of it.

    Raises:
        ArchiveError: its rows are not those that its digest is of.
        StorageError: the disk says no.
    """
    found = digest_of(read_part(place, file.path, shape, among=True))
    if found != file.digest:
        raise ArchiveError(
            f"{place.full(file.path)} is damaged: what was written had {number_of(file.rows, 'row')} and the digest "
            f"{file.digest}, what is read back {found.rows:,} and {found}"
        )
