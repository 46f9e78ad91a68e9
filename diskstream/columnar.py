"""Entries as columns: numpy arrays, and Arrow tables, over the bytes that the native core packed."""

from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

from diskstream._native import ColumnBatch
from diskstream.entry_size import stored_name
from diskstream.errors import ArgumentError, ArgumentTypeError, MissingPackageError
from diskstream.plurals import number_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

_ID_COLUMNS = ("id_ms", "id_seq")
# Milliseconds and sequences of IDs, and the fields by their names.
_Part: TypeAlias = tuple["pa.Array", "pa.Array", dict[bytes, "pa.Array"]]

__all__ = ["Columns", "as_columns", "as_table", "field_names", "import_arrow", "named_columns"]


@dataclass(frozen=True, eq=False)
class Columns:  # noqa: PLW1641  # arrays and dictionaries can change
    """A range of a stream by columns. Equal to another one of the same IDs and values, and not hashable.

    Attributes:
        ms: milliseconds of the IDs, uint64, one a row.
        seq: sequences of the IDs, uint64, one a row.
        fields: for each field name its values, one a row; None where an entry lacks the field.
    """

    ms: "npt.NDArray[np.uint64]"
    seq: "npt.NDArray[np.uint64]"
    fields: dict[bytes, list[bytes | None]]

    def __len__(self) -> int:
        """Rows."""
        return len(self.ms)

    def __eq__(self, other: object) -> bool:
        """Whether all is equal; of arrays a dataclass would ask for one answer, where they have one for each row."""
        if not isinstance(other, Columns):
            return NotImplemented
        ids = ((self.ms, other.ms), (self.seq, other.seq))
        return all(ours.tolist() == theirs.tolist() for ours, theirs in ids) and self.fields == other.fields


def field_names(fields: Sequence[str | bytes] | None) -> list[bytes] | None:
    """The fields that are wanted, each once; None where all are.

    Raises:
        ArgumentTypeError: it is one name, and no sequence of them; one is no name.
        ArgumentError: one is no name.
    """
    if fields is None:
        return None
    if isinstance(fields, str | bytes) or not isinstance(fields, Iterable):
        raise ArgumentTypeError(f"fields is a sequence of names: [{fields!r}]")
    return list(dict.fromkeys(map(stored_name, fields)))


def _values(field: tuple[bytes, bytes, bytes, bytes | None, int], rows: int) -> list[bytes | None]:
    import numpy as np  # half of what importing the package would cost, and few need it

    _, packed, data, validity, nulls = field
    offsets = np.frombuffer(packed, dtype="<i4")
    if not nulls or validity is None:
        return [data[start:end] for start, end in pairwise(offsets.tolist())]
    there = np.flatnonzero(np.unpackbits(np.frombuffer(validity, dtype=np.uint8), bitorder="little", count=rows))
    values: list[bytes | None] = [None] * rows
    for row, start, end in zip(there.tolist(), offsets[there].tolist(), offsets[there + 1].tolist(), strict=True):
        values[row] = data[start:end]
    return values


def _check_number(fields: Sized, wanted: list[bytes] | None) -> None:
    """What each batch keeps to, kept to by all of them together."""
    if wanted is None and len(fields) > ColumnBatch.MAX_FIELDS:
        most = number_of(ColumnBatch.MAX_FIELDS, "different field")
        raise ArgumentError(f"more than {most}: name those that are wanted (fields=[...])")


def as_columns(batches: Iterable[ColumnBatch], wanted: list[bytes] | None) -> Columns:
    """Joins batches into one set of columns; `wanted` are there even where nothing has them.

    Raises:
        ArgumentError: there are too many fields, and none are wanted more than others.
    """
    import numpy as np  # as above

    ms: list[npt.NDArray[np.uint64]] = []
    seq: list[npt.NDArray[np.uint64]] = []
    fields: dict[bytes, list[bytes | None]] = {name: [] for name in wanted or []}
    rows = 0
    for batch in batches:
        ms.append(np.frombuffer(batch.ms, dtype="<u8"))
        seq.append(np.frombuffer(batch.seq, dtype="<u8"))
        for field in batch.fields:
            known = fields.setdefault(field[0], [None] * rows)
            known.extend(_values(field, batch.rows))
        _check_number(fields, wanted)
        rows += batch.rows
        for values in fields.values():
            values.extend([None] * (rows - len(values)))
    empty = [np.empty(0, dtype=np.uint64)]
    return Columns(np.concatenate(ms or empty), np.concatenate(seq or empty), fields)


def import_arrow(wanted_by: str) -> Any:
    """The module pyarrow, which is optional: only what makes tables of it needs it.

    Raises:
        MissingPackageError: it is not installed, or cannot be loaded; `wanted_by` says what for.
    """
    try:
        import pyarrow as pa  # not at the top: see above
    except ImportError as error:
        raise MissingPackageError(wanted_by, "pyarrow", "archive", error) from None
    return pa


def named_columns(fields: Iterable[bytes], column_of: Callable[[str], str]) -> list[str]:
    """What the columns of fields are called: what no text can say is written as an escape, and so may be another's.

    Raises:
        ArgumentError: two of them would be one column; or what `column_of` raises.
    """
    of: dict[str, bytes] = {}
    for field in fields:
        name = column_of(field.decode("utf-8", "backslashreplace"))
        if of.setdefault(name, field) != field:
            both = f"{of[name]!r} and {field!r}"
            raise ArgumentError(f"the fields {both} would both be the column {name!r}: leave out one of them")
    return list(of)


def _column_of(text: str) -> str:
    return f"field:{text}" if text in _ID_COLUMNS else text


def _batch(pa: Any, batch: ColumnBatch) -> _Part:
    ids = [
        pa.Array.from_buffers(pa.uint64(), batch.rows, [None, pa.py_buffer(words)]) for words in (batch.ms, batch.seq)
    ]
    fields = {
        name: pa.Array.from_buffers(
            pa.binary(),
            batch.rows,
            [None if validity is None else pa.py_buffer(validity), pa.py_buffer(offsets), pa.py_buffer(data)],
            null_count=nulls,
        )
        for name, offsets, data, validity, nulls in batch.fields
    }
    return ids[0], ids[1], fields


def as_table(batches: Iterable[ColumnBatch], wanted: list[bytes] | None) -> "pa.Table":
    """Makes an Arrow table: ``id_ms`` and ``id_seq`` as uint64, each field as binary, null where it is missing.

    A field that is itself called ``id_ms`` or ``id_seq`` becomes the column ``field:id_ms`` or ``field:id_seq``.

    Raises:
        ArgumentError: there are too many fields, and none are wanted more than others; or two would be one column.
        MissingPackageError: pyarrow is not installed.
    """
    pa = import_arrow("to_arrow()")
    # One for all columns that a part lacks: of fields that few entries have, a table is little but these.
    missing = cache(lambda rows: pa.nulls(rows, pa.binary()))
    parts: list[_Part] = []
    order: dict[bytes, None] = dict.fromkeys(wanted or [])
    for batch in batches:
        if batch.rows:
            parts.append(_batch(pa, batch))
            order.update(dict.fromkeys(parts[-1][2]))
            _check_number(order, wanted)
    columns = [
        pa.chunked_array([part[0] for part in parts], type=pa.uint64()),
        pa.chunked_array([part[1] for part in parts], type=pa.uint64()),
    ]
    for name in order:
        chunks = [fields.get(name, None) for _, _, fields in parts]
        filled = [missing(len(part[0])) if chunk is None else chunk for part, chunk in zip(parts, chunks, strict=True)]
        columns.append(pa.chunked_array(filled, type=pa.binary()))
    return pa.table(columns, names=[*_ID_COLUMNS, *named_columns(order, _column_of)])
