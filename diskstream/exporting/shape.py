"""The schema of what is written, and batches brought into it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from diskstream.arrow_rows import column_of
from diskstream.batches import arrow_type, field_list_type
from diskstream.columnar import import_arrow, named_columns
from diskstream.errors import ArgumentError
from diskstream.exporting.pieces import read_in_order
from diskstream.exporting.request import MAX_COLUMNS, Column, ExportRequest
from diskstream.exporting.span import Span
from diskstream.store import Store

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Shape", "names_in_use"]


class Shape:
    """How record batches of a scan become those that are written.

    Attributes:
        columns: the fields that are columns; none: fields are a list.
        schema: of what is written.
        named: whether the first column names the stream.
        empty: the fields asked for of which no batch had a value so far.
    """

    def __init__(self, request: ExportRequest, columns: Sequence[Column]) -> None:
        """Settles on the schema.

        Raises:
            ArgumentError: no column stands for a field, or one for two of them.
        """
        pa = import_arrow("an export")
        self._pa = pa
        self.columns = list(columns)
        self.empty = list(columns or request.columns)  # of JSON lines, which have no columns, too
        self.named = len(request.streams) > 1
        self._as_text = request.format == "csv"
        fields: list[tuple[str, Any]] = [("stream", pa.binary())] if self.named else []
        if self._as_text:
            fields = [(name, pa.string()) for name, _ in fields]
            fields.append(("id", pa.string()))
        else:
            fields += [("id_ms", pa.uint64()), ("id_seq", pa.uint64())]
        if self.columns or self._as_text:
            kinds = [pa.string() if self._as_text else arrow_type(column.kind) for column in self.columns]
            of_fields = [column.name for column in self.columns]
            names = [str(at) for at in range(len(kinds))] if self._as_text else named_columns(of_fields, column_of)
            fields += zip(names, kinds, strict=True)
        else:
            fields.append(("fields", field_list_type()))
        self.schema = pa.schema(fields)

    def fitted(self, batch: pa.RecordBatch, stream: bytes) -> pa.RecordBatch:
        """A batch of a scan in the schema of what is written."""
        pa = self._pa
        first = batch.schema.names.index("id_seq") + 1  # by place: a field may be called as the others are
        ms, seq = batch.column(first - 2), batch.column(first - 1)
        arrays: list[Any] = [pa.repeat(pa.scalar(stream, pa.binary()), batch.num_rows)] if self.named else []
        if self._as_text:
            arrays = [names.view(pa.string()) for names in arrays]
            import pyarrow.compute as pc  # optional, as pyarrow is

            arrays.append(pc.binary_join_element_wise(ms.cast(pa.string()), seq.cast(pa.string()), "-"))
        else:
            arrays += [ms, seq]
        if self.columns:
            some = batch.columns[first : first + len(self.columns)]
            if self.empty:
                filled = [column for column, values in zip(self.columns, some, strict=True) if _has_value(values)]
                self.empty = [column for column in self.empty if column not in filled]
            # The writer of CSV wants text. That these bytes are not always UTF-8 it need not know.
            arrays += [column.view(pa.string()) for column in some] if self._as_text else some
        elif not self._as_text:
            fields = batch.column("fields")
            if self.empty:
                found = set(names_of(fields).to_pylist())
                self.empty = [column for column in self.empty if column.name not in found]
            arrays.append(fields)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _has_value(values: Any) -> bool:
    return bool(values.null_count < len(values))


def names_of(fields: Any) -> Any:
    """The names in lists of fields, each once."""
    import pyarrow.compute as pc  # optional, as pyarrow is

    return pc.unique(pc.struct_field(pc.list_flatten(fields), "name"))


def names_in_use(store: Store, spans: Sequence[Span]) -> tuple[Column, ...]:
    """The names of all fields of all entries, in the order in which they come: a pass over everything.

    Raises:
        ArgumentError: there are more than a table may have columns.
    """
    found: dict[bytes, None] = {}
    for span in spans:
        for batch, _ in read_in_order(store.stream(span.name), span, [], "fail"):
            names = names_of(batch.column("fields"))
            if len(names) > MAX_COLUMNS:  # before they become Python's
                raise _too_many()
            found.update(dict.fromkeys(names.to_pylist()))
            if len(found) > MAX_COLUMNS:
                raise _too_many()
    return tuple(Column(name) for name in found)


def _too_many() -> ArgumentError:
    return ArgumentError(
        f"the entries have more than {MAX_COLUMNS:,} different fields, too many for columns: name those wanted, or "
        "take a format that keeps them as a list (jsonl, arrow, parquet)"
    )
