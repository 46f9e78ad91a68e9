"""Arrow record batches as the native core takes them for digests, a column in one call. Texts are not copied."""

from collections.abc import Container
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from diskstream._native import RowDigests
from diskstream.errors import ArgumentError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["is_of_pairs", "row_digests"]

_PAIR: Final = 2
_Texts = tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]
_Words = npt.NDArray[np.uint64]
_Kind = TypeVar("_Kind", bound=np.generic)


def row_digests(batch: "pa.RecordBatch", left_out: Container[str]) -> RowDigests:
    """The digests of a batch's rows.

    Args:
        batch: `id_ms` and `id_seq`, as 64-bit words of either sign, and columns of values.
        left_out: names of columns that do not count.

    Raises:
        ArgumentError: a column of a type that archives do not have.
    """
    import pyarrow as pa

    ms, seq = (np.asarray(batch.column(name)).view(np.uint64) for name in ("id_ms", "id_seq"))
    rows = RowDigests(ms, seq)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name in ("id_ms", "id_seq") or name in left_out or column.null_count == len(column):
            continue
        label, kind = name.encode("utf-8", "surrogateescape"), column.type
        validity = (_array(column.buffers()[0], np.uint8), column.offset) if column.null_count else None
        if is_of_pairs(kind):
            pairs = column.values  # all of them: the offsets say which are whose
            names, values = pairs.field(0), _texts(pairs.field(1))
            if pa.types.is_dictionary(names.type):
                rows.lists(label, validity, _offsets(column), _texts(names.dictionary), values, _offsets(names))
            else:
                rows.lists(label, validity, _offsets(column), _texts(names), values)
        elif pa.types.is_binary(kind) or pa.types.is_string(kind):
            rows.texts(label, validity, _texts(column))
        elif pa.types.is_decimal128(kind):
            words = _array(column.buffers()[1], np.uint64)
            rows.decimals(label, validity, words[2 * column.offset :])
        elif kind in _numbers():
            rows.numbers(label, validity, _bits(column))
        else:
            raise ArgumentError(f"archives have no columns of type {kind}")
    return rows


def is_of_pairs(kind: "pa.DataType") -> bool:
    """Whether a type is that of lists of pairs of ``name`` and ``value``, whatever their list calls them.

    Names may be places in a dictionary of those that occur.
    """
    import pyarrow as pa

    if not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type) or kind.value_type.num_fields != _PAIR:
        return False
    name, value = kind.value_type
    among = pa.dictionary(pa.int32(), pa.binary())
    return (
        (name.name, value.name) == ("name", "value") and name.type in (pa.binary(), among) and value.type == pa.binary()
    )


@cache
def _numbers() -> "frozenset[pa.DataType]":
    """The types whose bits are what counts. Those of others, a dictionary's say, are not the values."""
    import pyarrow as pa

    whole = pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64()
    return frozenset({*whole, pa.float32(), pa.float64(), pa.date32(), pa.timestamp("us", "UTC")})


def _array(buffer: Any, kind: type[_Kind]) -> npt.NDArray[_Kind]:
    """A buffer of Arrow as an array, without a copy where it is aligned; empty where there is none."""
    if buffer is None or not buffer.size:
        return np.zeros(0, kind)
    return np.require(np.frombuffer(buffer, kind), requirements="A")


def _offsets(column: "pa.Array") -> npt.NDArray[np.int32]:
    return _array(column.buffers()[1], np.int32)[column.offset :]


def _texts(column: "pa.Array") -> _Texts:
    return _offsets(column), _array(column.buffers()[2], np.uint8)


def _bits(column: "pa.Array") -> _Words:
    import pyarrow as pa

    if pa.types.is_boolean(column.type):
        return np.asarray(column.cast(pa.uint8()).fill_null(0)).astype(np.uint64)
    # Whatever a null's place holds: it is left out.
    words = np.frombuffer(column.buffers()[1], f"i{column.type.bit_width // 8}")[column.offset :][: len(column)]
    return np.require(words, np.int64, "A").view(np.uint64)
