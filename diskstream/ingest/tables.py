"""Arrow and Parquet files into a stream: by columns, a record batch a frame, IDs and all where the file has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import diskstream
from diskstream.arrow_rows import pack, stored, value_bytes
from diskstream.columnar import import_arrow
from diskstream.commits import Commit
from diskstream.ids import MIN_ID
from diskstream.ingest.errors import IDS_GO_UP, InputError
from diskstream.ingest.load import LoadOptions, LoadReport
from diskstream.ingest.resuming import Resumption
from diskstream.ingest.sources import Source
from diskstream.plurals import number_of

if TYPE_CHECKING:
    import pyarrow as pa

TABLES: Final = {".arrow": "arrow", ".feather": "arrow", ".parquet": "parquet"}
"""Names of files end so."""

_RESERVED: Final = ("id_ms", "id_seq", "id", "stream", "ts")
_MAGIC: Final = b"ARROW1"  # of an Arrow file; a stream has none
_STREAM_END: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"
_ROWS_AT_ONCE: Final = 8192
_END_BYTES: Final = 1 << 16


def table_format(source: Source) -> str | None:
    """Whether a source is a table, and of which format: as it is said to be, or by its name."""
    if source.format == "auto":
        return TABLES.get(Path(source.path).suffix.lower())
    return source.format if source.format in TABLES.values() else None


def load_tables(
    stream: diskstream.Stream, sources: Iterable[Source], options: LoadOptions
) -> tuple[LoadReport, Resumption]:
    """Appends every row of the files: a column a field, or the list ``fields``; IDs where ``id_ms`` and ``id_seq``, or
    ``id`` as text, are columns, and else those of now.

    Returns:
        What became of them, and what is to be finished: until then the same, run again, passes over what is there.

    Raises:
        InputError: a file cannot be read as what it is, or a row cannot be an entry; `written` says how many rows
            before it were imported.
        InputChangedError: an earlier run was interrupted, and the files have changed since.
    """
    report = LoadReport(stream.name)
    resumption = Resumption(stream, options.key, again=options.again, version=options.version)
    digest = 0
    for source in sources:
        with _reading(source, report, resumption.behind):
            path, kind = Path(source.path), table_format(source)
            digest = _told_by(path, digest)
            timed = _says_times_of_ids(path, kind)
            for found in _batches(path, kind):
                batch, ids = _told_apart(found, timed=timed)
                for begin in range(0, batch.num_rows, _ROWS_AT_ONCE):
                    part = batch.slice(begin, _ROWS_AT_ONCE)
                    if not resumption.rows:
                        pack(part, ids)  # else the stream would be made, to note where it begins, and then have no rows
                    commit = resumption.next(part.num_rows, digest)
                    _add(stream, (part, ids, commit), resumption, report)
                    if options.on_written is not None:
                        options.on_written(part.num_rows)
                    if options.on_read is not None:
                        options.on_read(part.nbytes)
    resumption.end()
    return report, resumption


def _told_by(path: Path, before: int) -> int:
    """A digest of the files up to this one: of when they were changed, since what a table holds is not read twice.

    And of their ends, where formats say what is in them and where: a copy may keep the time of another file.
    """
    status = path.stat()
    with path.open("rb") as file:
        file.seek(max(0, status.st_size - _END_BYTES))
        before = crc32(file.read(_END_BYTES), before)
    return crc32(b"%d %d;" % (status.st_size, status.st_mtime_ns), before)


def _told_apart(batch: pa.RecordBatch, *, timed: bool) -> tuple[pa.RecordBatch, str]:
    """The batch with a prefix for columns that are fields though `Stream.add_arrow` leaves out such names; and its IDs.

    What is no ID of the row, nor its time once more (`timed`), is data, whatever it is called. So is `stream`, but
    beside IDs in two columns or a list of fields: of which stream a row was, exports say there.
    """
    pa = import_arrow("an import of tables")
    names = batch.schema.names
    _check_once(names)
    types = pa.types
    texts = (types.is_string, types.is_large_string, types.is_string_view)
    in_parts = {"id_ms", "id_seq"} <= set(names)
    in_text = "id" in names and any(is_text(batch["id"].type) for is_text in texts)
    used = {"id_ms", "id_seq"} if in_parts else {"id"} if in_text else set()
    if in_parts and timed:
        used.add("ts")
    if in_parts or ("fields" in names and types.is_nested(batch["fields"].type)):
        used.add("stream")
    for name in sorted(used & {"id_ms", "id_seq"}):
        _check_not_negative(batch[name], name)
    # `Stream.add_arrow` leaves a stream's name out only where an export has it: in front of the ID.
    kept = batch.select([place for place, name in enumerate(names) if name != "stream" or name not in used])
    renamed = [f"field:{name}" if name in _RESERVED and name not in used else name for name in kept.schema.names]
    return kept.rename_columns(renamed), "columns" if in_parts or in_text else "auto"


def _check_once(names: Sequence[str]) -> None:
    """What is looked at by its name, to tell IDs and lists of fields from data, has to be one column.

    Raises:
        ArgumentError: there are two of them.
    """
    of_ids = ("id_ms", "id_seq", "ts") if {"id_ms", "id_seq"} <= set(names) else ()
    for name in ("id", "fields", *of_ids):
        if names.count(name) > 1:
            raise diskstream.ArgumentError(f"{number_of(names.count(name), 'column')} are called {name!r}")


def _check_not_negative(numbers: pa.Array, name: str) -> None:
    """Bits of a negative number are an ID from 2^63 on, behind which hardly another one has room.

    Raises:
        ArgumentError: one is.
    """
    pa = import_arrow("an import of tables")
    if not pa.types.is_signed_integer(numbers.type):
        return
    least = numbers.drop_null().to_numpy(zero_copy_only=False).min(initial=0)
    if least < 0:
        raise diskstream.ArgumentError(f"the column {name!r} has {least}, and no ID is below zero")


def _says_times_of_ids(path: Path, kind: str | None) -> bool:
    """Whether a column `ts` is no field: in all rows of a file, or else in some of them it would be one."""
    columns = ("id_ms", "id_seq", "ts")
    for batch in _batches(path, kind, columns):
        _check_once(batch.schema.names)
        if not ({*columns} <= set(batch.schema.names) and _is_time_of(batch["ts"], batch["id_ms"])):
            return False
    return True


def _is_time_of(times: pa.Array, id_ms: pa.Array) -> bool:
    """Whether a column says the milliseconds of the IDs once more."""
    pa = import_arrow("an import of tables")
    if not pa.types.is_timestamp(times.type):
        return False
    try:
        return bool(times.cast(pa.timestamp("ms")).cast(pa.int64()).equals(id_ms.cast(pa.int64())))
    except pa.ArrowInvalid:  # finer than milliseconds, or out of range
        return False


def _add(
    stream: diskstream.Stream,
    what: tuple[pa.RecordBatch, str, Commit | None],
    resumption: Resumption,
    report: LoadReport,
) -> None:
    part, ids, commit = what
    # Of the last batch that is held some frames may be missing: which of them are there is known where they are added.
    is_held = resumption.rows < resumption.held
    if not is_held:
        part = stored(part)  # once, to be added and to be counted
    if is_held or (added := stream.add_arrow(part, ids=ids, commit=commit)) is None:
        report.resumed += part.num_rows
        return
    report.first_id, report.last_id = report.first_id or added[0], added[1]
    report.rows += part.num_rows
    report.value_bytes += value_bytes(part)


@contextmanager
def _reading(source: Source, report: LoadReport, behind: diskstream.EntryID) -> Iterator[None]:
    """What goes wrong with a file, as an InputError that says after how many rows.

    Raises:
        InputError: it cannot be read, or a row cannot be an entry.
    """
    pa = import_arrow("an import of tables")
    try:
        yield
    except diskstream.IDOrderError:
        if behind == MIN_ID or report.rows or report.resumed:  # the stream had none, or a row was above all it had
            what, hint = "has an ID that is not above that of the row before it", IDS_GO_UP
        else:
            what = "has an ID that is not above the one before it, in the stream or the file"
            hint = f"import it into a stream of its own; {IDS_GO_UP}"
        error = InputError(what, file=source.name, hint=hint)
    except diskstream.ArgumentError as wrong:
        error = InputError(f"holds what cannot be an entry: {wrong}", file=source.name, hint="leave it out of the file")
    except diskstream.StorageError:
        raise
    except (pa.ArrowException, OSError, EOFError) as wrong:
        words = str(wrong).splitlines()
        error = InputError(f"cannot be read: {words[0] if words else wrong!r}", file=source.name, hint="is it whole?")
    else:
        return
    error.written = report.rows
    raise error


def _batches(path: Path, kind: str | None, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The batches of a file; of Parquet these columns alone, as far as there are such."""
    pa = import_arrow("an import of tables")
    if kind == "parquet":
        import pyarrow.parquet as pq  # optional, as pyarrow is

        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=columns)
        return
    with pa.OSFile(str(path), "rb") as file:
        if file.read(len(_MAGIC)) == _MAGIC:
            opened: Any = pa.ipc.open_file(file)
            yield from (opened.get_batch(number) for number in range(opened.num_record_batches))
        else:
            yield from _streamed(file)


def _streamed(file: pa.OSFile) -> Iterator[pa.RecordBatch]:
    """The batches of a stream: of a whole one, and not of the first of several.

    Raises:
        EOFError: it is cut off, or something follows its end.
    """
    pa = import_arrow("an import of tables")
    size = file.size()
    file.seek(max(0, size - len(_STREAM_END)))
    ends = file.read(len(_STREAM_END)) == _STREAM_END
    file.seek(0)
    opened = pa.ipc.open_stream(file)
    if not ends:  # else it would be seen by nobody where it was cut between two batches
        raise EOFError("the mark of its end is not there")
    yield from opened
    if (behind := size - file.tell()) > 0:
        raise EOFError(
            f"{number_of(behind, 'byte follows', 'bytes follow')} the end of its stream: are they several files?"
        )
