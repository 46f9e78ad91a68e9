"""Arrow record batches over what the native core laid out: see `Scanned.scan`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from diskstream._native import ScanBatch, ScanLayout
from diskstream.columnar import import_arrow
from diskstream.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    import pyarrow as pa

    from diskstream._native_segments import _FieldLists

__all__ = ["BATCH_BYTES", "Layout", "arrow_type", "as_batch", "field_list_type", "most_rows"]

# No batch holds more, but for a single row.
BATCH_BYTES: Final = 16 << 20

_ROUNDED = ("decimal", "double", "float", "timestamp")


@dataclass(frozen=True)
class Layout:
    """How the fields of entries become columns, checked: see `Layout.of`."""

    name: str
    columns: Sequence[tuple[bytes, str]]
    strict: bool
    exact: bool
    metadata: bool
    native: ScanLayout

    @classmethod
    def of(
        cls,
        name: str,
        columns: Sequence[tuple[bytes, str]],
        duplicates: str,
        *,
        strict: bool,
        exact: bool,
        metadata: bool,
        times: bool,
    ) -> "Layout":
        """A layout of a scan.

        Raises:
            ArgumentError: no such layout or type, or no such way with repeated names; columns where the layout takes
                none, or none where it needs some.
            ArgumentTypeError: one of them is no word.
            MissingPackageError: pyarrow is not installed.
        """
        _arrow()
        try:
            native = ScanLayout(name, columns, duplicates, exact=exact, metadata=metadata, times=times)
        except (TypeError, UnicodeEncodeError) as error:
            kinds = "layout, duplicates and the types of columns are text; exact, metadata and times True or False"
            raise ArgumentTypeError(f"{kinds}: {error}") from None
        if name == "typed" and not columns:
            raise ArgumentError("layout 'typed' needs columns: names of fields and their types")
        if name != "typed" and columns:
            raise ArgumentError(f"columns are for layout 'typed', not for {name!r}")
        return cls(name, columns, strict, exact, metadata, native)


def _arrow() -> Any:
    return import_arrow("scan()")


def field_list_type() -> "pa.DataType":
    """The type of ``fields``: a list of structs of ``name`` and ``value``."""
    pa = _arrow()
    return pa.list_(pa.struct([("name", pa.binary()), ("value", pa.binary())]))


def arrow_type(kind: str) -> "pa.DataType":
    """The type of a column of ``typed``, by the name that it has there."""
    pa = _arrow()
    if kind.startswith("decimal("):
        precision, scale = kind[8:-1].split(",")
        return pa.decimal128(int(precision), int(scale))
    kinds = {
        "bool": pa.bool_(),
        "int8": pa.int8(),
        "int16": pa.int16(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "timestamp": pa.timestamp("us", "UTC"),
        "date": pa.date32(),
        "string": pa.string(),
        "binary": pa.binary(),
    }
    return kinds[kind]


def most_rows(columns: Iterable[tuple[bytes, str]]) -> int:
    """How many rows of these columns of ``typed`` a batch may have for its cells alone: a column has one for each row,
    whether the entry has that field or not, so that of small entries a wide batch is large."""
    # The value, or where a text ends, and whether it is null.
    bits = [(32 if kind in ("string", "binary") else arrow_type(kind).bit_width) + 1 for _, kind in columns]
    return max(1, 8 * BATCH_BYTES // max(8, sum(bits)))  # entries have a byte at least


def _lists(pa: Any, parts: "_FieldLists", *, as_map: bool = False, empty_is_null: bool = False) -> Any:
    ends, name_offsets, names, value_offsets, values = map(pa.py_buffer, parts)
    fields, rows = len(parts[1]) - 1, len(parts[0]) - 1
    each = [
        pa.Array.from_buffers(pa.binary(), fields, [None, name_offsets, names]),
        pa.Array.from_buffers(pa.binary(), fields, [None, value_offsets, values]),
    ]
    if as_map:
        offsets = pa.Array.from_buffers(pa.int32(), rows + 1, [None, ends])
        return pa.MapArray.from_arrays(offsets, *each)
    structs = pa.StructArray.from_arrays(each, names=["name", "value"])
    if not empty_is_null:
        return pa.Array.from_buffers(field_list_type(), rows, [None, ends], children=[structs])
    import numpy as np  # as pyarrow, not before it is needed

    held = np.diff(parts[0]) > 0
    bits = pa.py_buffer(np.packbits(held, bitorder="little").tobytes())
    return pa.Array.from_buffers(field_list_type(), rows, [bits, ends], children=[structs])


def as_batch(how: Layout, made: ScanBatch, segment: int) -> "pa.RecordBatch":
    """The record batch over columns of entries of one segment.

    Raises:
        ArgumentError: a value that does not parse, where the layout takes none such.
    """
    pa = _arrow()
    if (how.strict or how.exact) and made.first_bad is not None:
        entry_id, name, value = made.first_bad
        kind = dict(how.columns)[name]
        as_what = f"{kind} without being rounded or cut" if how.exact and kind.startswith(_ROUNDED) else kind
        field = name.decode(errors="backslashreplace")
        raise ArgumentError(f"entry {entry_id}: the field {field} does not parse as {as_what}: {value!r}")
    rows = made.rows

    def words(kind: Any, data: Any, validity: Any = None, nulls: int = 0) -> Any:
        bits = None if validity is None else pa.py_buffer(validity)
        return pa.Array.from_buffers(kind, rows, [bits, pa.py_buffer(data)], null_count=nulls)

    columns = {"id_ms": words(pa.uint64(), made.ms), "id_seq": words(pa.uint64(), made.seq)}
    if made.ts is not None:
        columns["ts"] = words(pa.timestamp("us", "UTC"), *made.ts)
    if how.metadata:
        positions, sizes = made.places
        columns["segment"] = pa.repeat(pa.scalar(segment, pa.int64()), rows)
        columns["position"], columns["size_bytes"] = words(pa.int64(), positions), words(pa.int64(), sizes)
    if made.listed is not None:
        columns["fields"] = _lists(pa, made.listed, as_map=how.name == "map")
    if made.raw is not None:
        offsets, data = map(pa.py_buffer, made.raw)
        columns["entry"] = pa.Array.from_buffers(pa.binary(), rows, [None, offsets, data])
    names, arrays = list(columns), list(columns.values())
    for (name, kind), (data, offsets, validity, gone) in zip(how.columns, made.typed, strict=False):
        buffers = [pa.py_buffer(validity), *([] if offsets is None else [pa.py_buffer(offsets)]), pa.py_buffer(data)]
        arrays.append(pa.Array.from_buffers(arrow_type(kind), rows, buffers, null_count=gone))
        names.append(name.decode("utf-8", "backslashreplace"))
    if how.name == "typed":
        bad = made.bad
        lists = pa.nulls(rows, field_list_type()) if bad is None else _lists(pa, bad, empty_is_null=True)
        names.append("bad")
        arrays.append(lists)
    return pa.RecordBatch.from_arrays(arrays, names=names)
