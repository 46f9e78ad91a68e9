"""An export into one file, or into a pipe: one that is interrupted begins again."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

from diskstream.arguments import check_path
from diskstream.columnar import import_arrow
from diskstream.errors import ArgumentError
from diskstream.exporting.pieces import read_in_order
from diskstream.exporting.placing import check_outside, create_whole, failing_at
from diskstream.exporting.report import ExportReport, Progress, ignore
from diskstream.exporting.request import ExportRequest
from diskstream.exporting.shape import Shape, names_in_use
from diskstream.exporting.span import Span, check_same, spans
from diskstream.exporting.writers import open_writer
from diskstream.store import Store
from diskstream.system_calls import followed

__all__ = ["columns_of", "export_file", "export_pipe"]


def export_file(
    store: Store, request: ExportRequest, path: Path, *, replace: bool = False, progress: Progress = ignore
) -> ExportReport:
    """Writes entries into a file, which is there when it is whole and durable, and not before.

    Args:
        store: may be open for reading only.
        request: what, and as what.
        path: of the file.
        replace: let a file that is there go, once the new one is whole; of a link the file that it leads to.
        progress: called with entries and bytes of names and values just written.

    Raises:
        NoSuchStreamError: a stream is not there.
        ArgumentError: the path is a URL; the file is there, or another export is writing it; repeated names or
            values that do not fit the columns.
        ChangedError: a stream was removed, renamed or made anew meanwhile.
        CorruptionError: a stream is damaged within the range. Nothing is left of the file, as with all errors.
        StorageError: the file could not be written.
    """
    check_path(path, "the path of an export")
    check_outside(store.path, path)
    with failing_at(path, "look at"):
        if replace and path.is_symlink():
            path = followed(path)  # renamed over the link, the file would be where nobody looks who follows another one
        is_folder = path.is_dir()
    if is_folder:
        raise ArgumentError(f"{path} is a directory: say how many rows a file of it is to have (--rows-per-file)")
    found = spans(store, request)
    shape = Shape(request, columns_of(store, request, found))
    report = create_whole(
        path,
        lambda sink: _write(store, request, (found, shape), sink, progress, streaming=False),
        replace=replace,
    )
    with failing_at(path, "look at"):
        report.size_bytes = path.stat().st_size
    report.files = 1
    return report


def export_pipe(store: Store, request: ExportRequest, pipe: BinaryIO, *, progress: Progress = ignore) -> ExportReport:
    """The same into an open file or pipe. Arrow is written as a stream there; Parquet can be read once it has ended."""
    found = spans(store, request)
    shape = Shape(request, columns_of(store, request, found))
    open_pipe = _LeftOpen(pipe)
    with failing_at(Path("standard output"), "write to"):
        sink = import_arrow("an export").PythonFile(open_pipe, mode="w")
        report = _write(store, request, (found, shape), sink, progress, streaming=True)
        pipe.flush()
    report.size_bytes = open_pipe.size_bytes
    return report


class _LeftOpen:
    """A pipe that is not closed by whoever writes into it: a compressor closes what is below it.

    Attributes:
        size_bytes: how many were written.
    """

    closed = False

    def __init__(self, pipe: BinaryIO) -> None:
        self._pipe = pipe
        self.size_bytes = 0

    def write(self, data: bytes) -> int:
        written = self._pipe.write(data)
        self.size_bytes += written
        return written

    def flush(self) -> None:
        self._pipe.flush()

    def close(self) -> None:
        self._pipe.flush()


def columns_of(store: Store, request: ExportRequest, found: list[Span]) -> Any:
    """The columns of a request; those of CSV, where none are named, by a pass over all entries."""
    if request.format == "jsonl":
        return ()
    if request.format == "csv" and not request.columns:
        return names_in_use(store, found)
    return request.columns


def _write(
    store: Store,
    request: ExportRequest,
    what: tuple[list[Span], Shape],
    sink: Any,
    progress: Progress,
    *,
    streaming: bool,
) -> ExportReport:
    found, shape = what
    report = ExportReport(request.format, expected=sum(span.entries for span in found))
    with open_writer(sink, request, shape, streaming=streaming) as writer:
        for span in found:
            stream = store.stream(span.name)
            for batch, size_bytes in read_in_order(stream, span, shape.columns, request.duplicates):
                writer.write(shape.fitted(batch, span.name))
                report.entries += batch.num_rows
                progress(batch.num_rows, size_bytes)
            check_same(stream, span)
    if report.entries:
        report.empty_columns = tuple(column.name for column in shape.empty)
    return report
