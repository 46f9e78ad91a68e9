"""Writers of each format: record batches in, bytes out, a bounded number of rows at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from diskstream.columnar import import_arrow
from diskstream.exporting.request import ExportRequest
from diskstream.exporting.shape import Shape

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Writer", "open_writer"]

# A row group of Parquet is held in memory until it is whole.
_GROUP_BYTES: Final = 32 << 20
_GROUP_ROWS: Final = 1 << 20


class Writer(Protocol):
    """Takes batches in the schema of a `Shape`; `close` ends the file, and not what is below it."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch."""

    def close(self) -> None:
        """Write what is held back, and the end of the file."""


@contextmanager
def open_writer(sink: Any, request: ExportRequest, shape: Shape, *, streaming: bool = False) -> Iterator[Writer]:
    """A writer into a sink of pyarrow, closed where all went well: after an error the file gets no end.

    With `streaming` Arrow is written as a stream, which needs no end to be read.
    """
    writer = _writer(sink, request, shape, streaming=streaming)
    try:
        yield writer
        writer.close()
    except BaseException:
        if isinstance(writer, _ParquetWriter | _Packed):
            writer.give_up()
        raise


def _writer(sink: Any, request: ExportRequest, shape: Shape, *, streaming: bool) -> Writer:
    if request.format == "arrow":
        return _ArrowWriter(sink, request.chosen_compression, shape, streaming=streaming)
    if request.format == "parquet":
        return _ParquetWriter(sink, request.chosen_compression, shape)
    if request.chosen_compression == "none":
        return _text_writer(sink, request, shape)
    pa = import_arrow("an export")
    below = _Below(sink)
    sink = pa.CompressedOutputStream(pa.PythonFile(below, mode="w"), request.chosen_compression)
    return _Packed(_text_writer(sink, request, shape), sink, below)


def _text_writer(sink: Any, request: ExportRequest, shape: Shape) -> Writer:
    return _CsvWriter(sink, shape) if request.format == "csv" else _JsonWriter(sink, request, shape)


class _ArrowWriter:
    def __init__(self, sink: Any, compression: str, shape: Shape, *, streaming: bool) -> None:
        pa = import_arrow("an export")
        options = pa.ipc.IpcWriteOptions(compression=None if compression == "none" else compression)
        make = pa.ipc.new_stream if streaming else pa.ipc.new_file
        self._writer = make(sink, shape.schema, options=options)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()


class _ParquetWriter:
    def __init__(self, sink: Any, compression: str, shape: Shape) -> None:
        import pyarrow.parquet as pq  # optional, as pyarrow is

        self._pa = import_arrow("an export")
        self._schema = shape.schema
        self._writer = pq.ParquetWriter(sink, shape.schema, compression=compression, use_dictionary=True)
        self._held: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._bytes >= _GROUP_BYTES or self._rows >= _GROUP_ROWS:
            self._write_group()

    def _write_group(self) -> None:
        if self._held:
            table = self._pa.Table.from_batches(self._held, self._schema)
            self._writer.write_table(table, row_group_size=_GROUP_ROWS)
        self._held, self._rows, self._bytes = [], 0, 0

    def close(self) -> None:
        self._write_group()
        self._writer.close()

    def give_up(self) -> None:
        """Else it would end the file when it is collected, into a sink that is closed by then."""
        self._held = []
        self._writer.is_open = False


class _CsvWriter:
    """RFC 4180 in bytes: what is not there is empty, an empty value is ``""``; every other value is in quotes."""

    def __init__(self, sink: Any, shape: Shape) -> None:
        from pyarrow import csv  # optional, as pyarrow is

        names = [b"stream", b"id"] if shape.named else [b"id"]
        names += [column.name for column in shape.columns]
        sink.write(b",".join(b'"' + name.replace(b'"', b'""') + b'"' for name in names) + b"\n")
        options = csv.WriteOptions(include_header=False, quoting_style="needed")
        self._writer = csv.CSVWriter(sink, shape.schema, write_options=options)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()


class _JsonWriter:
    """An object a line, as `diskstream range --json` prints it, from which `import --format entries` makes entries."""

    def __init__(self, sink: Any, request: ExportRequest, shape: Shape) -> None:
        self._sink, self._named = sink, shape.named
        self._wanted = frozenset(column.name for column in request.columns)

    def write(self, batch: pa.RecordBatch) -> None:
        lists = batch.column("fields")
        names, values = lists.flatten().flatten()
        known = names.dictionary_encode()  # a few names stand for all: each is quoted once
        spelled = known.dictionary.to_pylist()
        quoted = [_quote(_text(name)) for name in spelled]
        left_out = {place for place, name in enumerate(spelled) if self._wanted and name not in self._wanted}
        places = known.indices.to_pylist()
        texts = [_quote(value.decode("utf-8", "surrogateescape")) for value in values.to_pylist()]
        head = f'"stream": {_quote(_text(batch.column("stream")[0].as_py()))}, ' if self._named else ""
        bounds = lists.offsets.to_pylist()
        base = bounds[0]
        lines = []
        for ms, seq, begin, end in zip(
            batch.column("id_ms").to_pylist(), batch.column("id_seq").to_pylist(), bounds, bounds[1:], strict=False
        ):
            pairs = list(zip(places[begin - base : end - base], texts[begin - base : end - base], strict=True))
            if left_out:
                pairs = [pair for pair in pairs if pair[0] not in left_out]
            fields = dict(pairs)
            members = ", ".join([f"{quoted[place]}: {text}" for place, text in fields.items()])
            line = f'{{{head}"id": "{ms}-{seq}", "fields": {{{members}}}'
            if len(fields) < len(pairs):
                line += f', "pairs": [{", ".join([f"[{quoted[place]}, {text}]" for place, text in pairs])}]'
            lines.append(line + "}\n")
        self._sink.write("".join(lines).encode("ascii"))

    def close(self) -> None:
        pass


_quote: Final = json.encoder.encode_basestring_ascii


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


class _Packed:
    """A writer of text through a compressor, which has an end of its own."""

    def __init__(self, text: Writer, sink: Any, below: _Below) -> None:
        self._text, self._sink, self._below = text, sink, below

    def write(self, batch: pa.RecordBatch) -> None:
        self._text.write(batch)

    def close(self) -> None:
        self._text.close()
        self._sink.close()

    def give_up(self) -> None:
        """Else the compressor would write its end when it is collected: what was cut off would unpack as if whole."""
        self._below.is_given_up = True
        self._sink.close()


class _Below:
    """What a compressor writes into: a sink, or nowhere any more."""

    closed = False

    def __init__(self, sink: Any) -> None:
        self._sink = sink
        self.is_given_up = False

    def write(self, data: bytes) -> int:
        return len(data) if self.is_given_up else int(self._sink.write(data))

    def flush(self) -> None:
        if not self.is_given_up:
            self._sink.flush()

    def close(self) -> None:
        if not self.is_given_up:
            self._sink.close()
