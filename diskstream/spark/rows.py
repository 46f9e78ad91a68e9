"""Rows on their way into streams: the columns of a DataFrame, checked once and sorted out batch by batch."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as st

from diskstream.arrow_rows import column_of
from diskstream.errors import ArgumentError
from diskstream.ids import EntryID
from diskstream.spark.names import as_bytes, as_text
from diskstream.spark.options import WriteOptions
from diskstream.spark.schemas import PREFIX, check_part, is_part

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Target", "by_stream", "repeated_id", "sort_order", "with_id_parts"]

_ID_PARTS = ("id_ms", "id_seq")
_DIGITS = 20  # of the greatest number of 64 bits
# None of them has a text that a read takes.
_NO_TEXT = (st.ArrayType, st.MapType, st.StructType, st.AnsiIntervalType, st.CalendarIntervalType, st.VariantType)
_NUMBERS = (st.LongType, st.IntegerType, st.ShortType, st.ByteType)


@dataclass(frozen=True)
class Target:
    """Where the rows of a write go, and which columns make an entry.

    Attributes:
        stream: the one stream, or empty where a column names it.
        columns: the columns to keep, in order.
        given: whether the IDs are columns.
        signed: whether numbers of IDs have a sign, and below zero are refused; else what counts is their bits.
    """

    stream: str
    columns: tuple[str, ...]
    given: bool
    signed: bool = False

    @classmethod
    def of(cls, schema: st.StructType, options: WriteOptions) -> "Target":
        """Checks a DataFrame's schema against the options.

        Raises:
            ArgumentError: nothing says which stream, there are no IDs though they are wanted, or no fields.
        """
        names = schema.fieldNames()
        if not options.stream and "stream" not in names:
            raise ArgumentError("which stream? Give the option stream, or a column stream")
        if len(set(names)) != len(names):
            raise ArgumentError("two columns have one name: rename one, as a field has one name")
        wanted = _fields_of(schema)
        if "fields" in names and wanted != ["fields"]:
            others = ", ".join(name for name in wanted if name != "fields")
            raise ArgumentError(f"beside the column fields there are no other fields, but there is {others}")
        if not wanted:
            raw = "; entry is how it is stored: read it with layout=fields" if "entry" in names else ""
            raise ArgumentError(f"there is no column that could be a field of an entry{raw}")
        given = options.ids == "columns"
        ids = [name for name in _ID_PARTS if name in names]
        if given and len(ids) < len(_ID_PARTS):
            ids = ["id"] if "id" in names else []
            if not ids:
                raise ArgumentError("ids=columns wants the columns id_ms and id_seq (bigint), or id (string)")
        taken = (*(ids if given else ()), *wanted)
        _check_left_out(names, taken if options.stream else (*taken, "stream"), given=given)
        return cls(options.stream, taken, given, options.large_ids == "fail")


def _fields_of(schema: st.StructType) -> list[str]:
    """The columns that are fields, after a look at those that have the names of parts.

    Raises:
        ArgumentError: one that has the name of a part of an entry, but not its type, or a type that has no text; two
            that are one field.
    """
    fields: dict[str, str] = {}
    for column in schema.fields:
        if is_part(column.name):
            if not _says_the_same(column):
                check_part(column)
            if column.name != "fields":
                continue
        elif isinstance(column.dataType, _NO_TEXT):
            raise ArgumentError(
                f"column {column.name} is {column.dataType.simpleString()}, of which no field can be made: drop it, or "
                "make text of it, as by to_json"
            )
        _staged_name(column.name)
        bare = column.name.removeprefix(PREFIX)
        if bare in fields:
            raise ArgumentError(f"two columns, {fields[bare]} and {column.name}, are one field: rename one")
        fields[bare] = column.name
    return list(fields.values())


def _check_left_out(names: list[str], taken: tuple[str, ...], *, given: bool) -> None:
    """Looks for columns that would go without a word: an order's `id`, say, which nobody meant for the entry's.

    Beside the column `fields` all others are what a read gives, and beside `field:ts` the column `ts` is.

    Args:
        names: of all columns.
        taken: those that the write makes something of.
        given: whether the IDs are columns.

    Raises:
        ArgumentError: there is one.
    """
    if "fields" in names:
        return
    left = [name for name in names if name not in taken and f"{PREFIX}{name}" not in names]
    if not left:
        return
    one = left[0]
    ways = [f"rename what is a field to `{PREFIX}{one}`", f"drop what is not (.drop('{one}'))"]
    if not given and {"id", *_ID_PARTS} & set(left):
        ways.append("give ids=columns where it is to be the entry's ID")
    if "stream" in left:
        ways.append("leave out the option stream where the column is to name it")
    raise ArgumentError(
        f"{'columns' if len(left) > 1 else 'column'} {', '.join(left)} would not be written, as the name stands for "
        f"part of an entry: {'; '.join(ways)}"
    )


def _says_the_same(column: st.StructField) -> bool:
    """Whether a column is of a type that no read gives, but that holds as well what a read would give."""
    kind = column.dataType
    if column.name in _ID_PARTS:
        whole = isinstance(kind, st.DecimalType) and kind.scale == 0 and kind.precision <= _DIGITS
        return whole or isinstance(kind, _NUMBERS)
    if column.name == "fields":  # of text, say
        return isinstance(kind, st.MapType) or (
            isinstance(kind, st.ArrayType)
            and isinstance(kind.elementType, st.StructType)
            and sorted(kind.elementType.fieldNames()) == ["name", "value"]
        )
    return column.name in ("stream", "id") and isinstance(kind, st.StringType)  # whatever its collation


def _staged_name(column: str) -> str:
    """What a column is called in a staged file, which `Stream.add_arrow` reads: that takes few prefixes off.

    Raises:
        ArgumentError: there the field cannot be a column.
    """
    return column_of(column.removeprefix(PREFIX)) if column.startswith(PREFIX) else column


def by_stream(target: Target, batch: "pa.RecordBatch") -> "Iterator[tuple[str, pa.RecordBatch]]":
    """The rows of each stream, in their order; where IDs are given, in the order of these.

    Raises:
        ArgumentError: a row has no stream.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kept = pa.RecordBatch.from_arrays(
        [batch[name] for name in target.columns], names=[_staged_name(name) for name in target.columns]
    )
    if target.stream:
        yield _one_spelling(target.stream), _sorted(target, kept)
        return
    streams = batch["stream"]
    if streams.null_count or pc.any(pc.equal(streams, "")).as_py():
        raise ArgumentError("a row's column stream is null or empty: each entry goes to some stream")
    encoded = streams.dictionary_encode()
    numbers: dict[str, list[int]] = {}
    for number, name in enumerate(encoded.dictionary.to_pylist()):
        numbers.setdefault(_one_spelling(name), []).append(number)
    for name, wanted in numbers.items():
        if len(numbers) == 1:
            yield name, _sorted(target, kept)
        else:
            rows = pc.is_in(encoded.indices, pa.array(wanted, encoded.indices.type))
            yield name, _sorted(target, kept.filter(rows))


def _one_spelling(stream: str) -> str:
    """``a%2Fb`` is ``a/b``: parts of a commit are numbered by stream, so a stream must not have two names there."""
    return as_text(as_bytes(stream))


def _sorted(target: Target, batch: "pa.RecordBatch") -> "pa.RecordBatch":
    if not target.given:
        return batch
    keys = with_id_parts(batch, signed=target.signed)
    order: Any = sort_order(keys)
    return keys if order is None else keys.take(order)


def with_id_parts(batch: "pa.RecordBatch", *, signed: bool) -> "pa.RecordBatch":
    """The batch with its IDs as ``id_ms`` and ``id_seq`` (uint64), however they were given.

    Args:
        batch: rows with IDs.
        signed: see `Target`.

    Raises:
        ArgumentError: a text or number that is no ID, or none at all.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if "id" in batch.schema.names:
        parts = pc.extract_regex(batch["id"], pattern=r"^(?P<ms>\d{1,20})-(?P<seq>\d{1,20})$")
        if parts.null_count:
            bad = batch["id"].filter(parts.is_null())[0].as_py()
            raise ArgumentError(f"the column id holds {bad!r}, which is no whole ID, as 1692632086370-0")
        try:
            ids = [pc.struct_field(parts, name).cast(pa.uint64()) for name in ("ms", "seq")]
        except pa.ArrowInvalid as error:
            raise ArgumentError(f"the column id holds an ID past 64 bits: {error}") from None
    else:
        if any(batch[name].null_count for name in _ID_PARTS):
            raise ArgumentError("a row has no ID: id_ms or id_seq is null")
        ids = [_unsigned(batch[name], name, signed=signed) for name in _ID_PARTS]
    rest = [name for name in batch.schema.names if name not in (*_ID_PARTS, "id")]
    return pa.RecordBatch.from_arrays([*ids, *(batch[name] for name in rest)], names=[*_ID_PARTS, *rest])


def _unsigned(part: "pa.Array", name: str, *, signed: bool) -> "pa.Array":
    import pyarrow as pa
    import pyarrow.compute as pc

    if part.type == pa.uint64() or not len(part):
        return part.cast(pa.uint64())
    wide = pa.types.is_decimal(part.type)
    ends = pc.min_max(part).as_py()
    if ends["min"] < 0 and (signed or wide):
        more = (
            ""
            if wide
            else "; largeIds=wrap takes it for the number from 2^63 on that a read with largeIds=wrap gave so"
        )
        raise ArgumentError(f"the column {name} holds {ends['min']}, but no part of an ID is below zero{more}")
    if ends["max"] >= 1 << 64:
        raise ArgumentError(f"the column {name} holds {ends['max']}, which is past 64 bits")
    return part.cast(pa.uint64()) if wide else part.cast(pa.int64()).view(pa.uint64())


def sort_order(batch: Any) -> Any:
    """The order of a batch's or table's IDs; None where they ascend already."""
    import numpy as np

    ms, seq = (np.asarray(batch[name]) for name in _ID_PARTS)
    if len(ms) < 2:  # noqa: PLR2004  # one is in order
        return None
    if bool(np.all((ms[1:] > ms[:-1]) | ((ms[1:] == ms[:-1]) & (seq[1:] > seq[:-1])))):
        return None
    return np.lexsort((seq, ms))


def repeated_id(batch: Any) -> EntryID:
    """The first ID that two rows have, of a batch or table in which IDs do not descend."""
    import numpy as np

    ms, seq = (np.asarray(batch[name]) for name in _ID_PARTS)
    at = np.flatnonzero((ms[1:] == ms[:-1]) & (seq[1:] == seq[:-1]))[0]
    return EntryID(int(ms[at]), int(seq[at]))
