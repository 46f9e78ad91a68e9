"""An export into a directory, in parts: one that is killed goes on behind its last part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diskstream.arguments import check_path
from diskstream.errors import ArgumentError
from diskstream.exporting.manifest import PART, Manifest, Part
from diskstream.exporting.pieces import read_in_order
from diskstream.exporting.placing import check_outside, create_whole, failing_at
from diskstream.exporting.report import ExportReport, Progress, ignore
from diskstream.exporting.request import Column, ExportRequest
from diskstream.exporting.shape import Shape
from diskstream.exporting.single import columns_of
from diskstream.exporting.span import check_same, spans
from diskstream.exporting.writers import open_writer
from diskstream.ids import EntryID
from diskstream.plurals import number_of
from diskstream.store import Store
from diskstream.system_calls import is_there

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["export_directory"]


def export_directory(
    store: Store,
    request: ExportRequest,
    directory: Path,
    *,
    rows_per_file: int,
    given: dict[str, Any] | None = None,
    progress: Progress = ignore,
) -> ExportReport:
    """Writes entries into files of a directory, so many to each, and goes on where a run before it was killed.

    Args:
        store: may be open for reading only.
        request: what, and as what; its ends count when the export begins, and not again when it goes on.
        directory: made where there is none; it must be empty or hold an export that was begun with the same request.
        rows_per_file: entries of each part; the last of a stream may have fewer.
        given: what the request was made of, as JSON has it, where that is not the same in each run (a time that has
            passed until now); it is compared instead.
        progress: called with entries and bytes of names and values just written.

    Raises:
        ArgumentError: the path is a URL; the directory holds something else; another export is writing it; it was
            begun with another request; a part is missing.
        FormatError: its manifest cannot be read.
        ChangedError: a stream was made anew since the export began.
        NoSuchStreamError, CorruptionError, StorageError: as `export_file`. All parts that are noted stay.
    """
    if rows_per_file < 1:
        raise ArgumentError("a file has at least one row")
    check_path(directory, "the path of an export")
    check_outside(store.path, directory)
    asked = {**_as_asked(request), "rows_per_file": rows_per_file, **(given or {})}
    with Manifest.open(directory) as manifest:
        if manifest.given is None:
            found = spans(store, request)
            columns = columns_of(store, request, found)
            manifest.begin(asked, [(column.name, column.kind) for column in columns], found)
        elif manifest.given != asked:
            raise ArgumentError(_difference(directory, manifest.given, asked))
        report = ExportReport(request.format, expected=sum(span.entries for span in manifest.spans))
        report.resumed_entries = report.entries = sum(part.entries for part in manifest.parts)
        _check_parts(manifest)
        if manifest.complete:
            for span in manifest.spans:  # else what is there now would be said to have been exported
                check_same(store.stream(span.name), span)
            report.complete_before = True
        else:
            _remove_rest(manifest)
            settled = request if request.format == "jsonl" else replace(request, columns=_columns(manifest))
            _write_parts(store, settled, manifest, (rows_per_file, progress, report))
            manifest.end()
        report.files = len(manifest.parts)
        report.size_bytes = sum(part.size_bytes for part in manifest.parts)
    return report


def _columns(manifest: Manifest) -> tuple[Column, ...]:
    return tuple(Column(*each) for each in manifest.columns)


def _write_parts(
    store: Store, request: ExportRequest, manifest: Manifest, how: tuple[int, Progress, ExportReport]
) -> None:
    rows, progress, report = how
    shape = Shape(request, () if request.format == "jsonl" else request.columns)
    for span in manifest.spans:
        stream = store.stream(span.name)
        done = [part.last for part in manifest.parts if part.stream == span.name]
        start = max(done).next() if done else span.start
        if start is None or start > span.end:
            continue
        check_same(stream, span)
        batches = read_in_order(stream, replace(span, start=start), shape.columns, request.duplicates)
        for run in _runs(batches, rows):
            part = _write_part(manifest, request, (shape, span.name), run, progress)
            # Of another stream of the same name its entries would follow those of this one.
            check_same(stream, span)
            manifest.add(part)
            report.entries += part.entries
        check_same(stream, span)
    if report.entries and not report.resumed_entries:
        report.empty_columns = tuple(column.name for column in shape.empty)


def _write_part(
    manifest: Manifest,
    request: ExportRequest,
    what: tuple[Shape, bytes],
    run: Iterator[tuple[pa.RecordBatch, int]],
    progress: Progress,
) -> Part:
    shape, name = what
    file = f"part-{len(manifest.parts):08d}{request.suffix}"
    ids: list[EntryID] = []
    entries = 0

    def write(sink: Any) -> None:
        nonlocal entries, ids
        with open_writer(sink, request, shape) as writer:
            for batch, size_bytes in run:
                writer.write(shape.fitted(batch, name))
                entries += batch.num_rows
                ends = [_id_of(batch, 0), _id_of(batch, batch.num_rows - 1)]
                ids = [(ids or ends)[0], ends[1]]
                progress(batch.num_rows, size_bytes)

    # A file of that name is of a run that was killed before it noted it.
    path = manifest.directory / file
    create_whole(path, write, replace=True)
    with failing_at(path, "look at"):
        size_bytes = path.stat().st_size
    return Part(file, name, entries, ids[0], ids[1], size_bytes)


def _id_of(batch: pa.RecordBatch, row: int) -> EntryID:
    return EntryID(batch.column("id_ms")[row].as_py(), batch.column("id_seq")[row].as_py())


def _runs(batches: Iterator[tuple[pa.RecordBatch, int]], rows: int) -> Iterator[Iterator[tuple[pa.RecordBatch, int]]]:
    """Batches in runs of so many rows, cut where a run ends; each run is read before the next is asked for."""
    held = next(batches, None)

    def run() -> Iterator[tuple[pa.RecordBatch, int]]:
        nonlocal held
        left = rows
        while held is not None and left:
            batch, size_bytes = held
            if batch.num_rows <= left:
                left -= batch.num_rows
                yield batch, size_bytes
                held = next(batches, None)
            else:
                share = size_bytes * left // batch.num_rows
                held = batch.slice(left), size_bytes - share
                yield batch.slice(0, left), share
                left = 0

    while held is not None:
        yield run()


def _check_parts(manifest: Manifest) -> None:
    """Makes sure that what is noted is there: beside a gap nothing is whole, nor becomes it by going on."""
    for part in manifest.parts:
        path = manifest.directory / part.file
        with failing_at(path, "look at"):
            size = path.stat().st_size if is_there(path) else None
        if size != part.size_bytes:
            what = "is missing" if size is None else f"has {number_of(size, 'byte')}, not {part.size_bytes:,}"
            raise ArgumentError(f"{path} {what}: remove {manifest.directory} and begin anew")


def _remove_rest(manifest: Manifest) -> None:
    """Removes parts that a killed run had begun, or not noted. What is written now may have fewer of them."""
    with failing_at(manifest.directory, "write to"):
        for path in list(manifest.directory.iterdir()):
            found = PART.fullmatch(path.name)
            if found is not None and int(found["number"]) >= len(manifest.parts):
                path.unlink()


def _as_asked(request: ExportRequest) -> dict[str, Any]:
    def text(value: bytes) -> str:
        return value.decode("utf-8", "surrogateescape")

    return {
        "streams": [text(name) for name in request.streams],
        "format": request.format,
        "start": str(request.start),
        "end": str(request.end),
        "columns": [[text(column.name), column.kind] for column in request.columns],
        "duplicates": request.duplicates,
        "compression": request.chosen_compression,
    }


def _difference(directory: Path, before: dict[str, Any], now: dict[str, Any]) -> str:
    name = next(name for name in sorted({*before, *now}) if before.get(name) != now.get(name))
    return (
        f"{directory} holds an export that was begun with {name} {before.get(name)!r}, not {now.get(name)!r}: "
        "give the same again to go on, or name another directory"
    )
