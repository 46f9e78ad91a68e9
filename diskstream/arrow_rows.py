"""Arrow record batches as packed rows: pyarrow makes bytes of whole columns, the native core makes rows of those."""

from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from diskstream._native import PackedRows, pack_columns, pack_pairs
from diskstream.columnar import import_arrow
from diskstream.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MAX_FRAMES", "PackedRows", "column_of", "pack", "stored", "value_bytes"]

MAX_FRAMES = 4096  # of one batch: far more than fit in memory, at 64 MiB each

_IDS = ("id_ms", "id_seq", "id")
_NO_FIELDS = (*_IDS, "stream", "ts")
_FIELDS = "fields"
_PREFIX = "field:"

_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}  # in a second
_DAY_S = 24 * 3600
_FIRST_DAY, _LAST_DAY = -719_528, 2_932_896  # 0000-01-01 and 9999-12-31, from 1970-01-01
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097  # after which the calendar comes again

_Column = tuple[bytes, bool, bytes, bytes | None, int, int]  # as `pack_columns` takes it
_IDsGiven = tuple[bytes, bytes] | _Column


def _arrow() -> tuple[Any, Any]:
    pa = import_arrow("add_arrow()")
    import pyarrow.compute as pc  # no sooner, as it is optional

    return pa, pc


def pack(batch: "pa.RecordBatch", ids: str = "auto") -> list[PackedRows]:
    """The rows of a batch as frames; none where it has no rows. See `Stream.add_arrow` for columns and errors."""
    pa, _ = _arrow()
    if not isinstance(batch, pa.RecordBatch):
        raise ArgumentTypeError(f"a pyarrow.RecordBatch is wanted, not {type(batch).__name__}")
    if ids not in ("auto", "columns"):
        raise ArgumentError(f"ids is 'auto' or 'columns', not {ids!r}")
    columns = list(zip(batch.schema.names, batch.columns, strict=True))
    given = _given_ids(columns) if ids == "columns" else None
    listed = [column for name, column in columns if name == _FIELDS and _is_list(column.type)]
    others = [(name, column) for name, column in columns if name not in _NO_FIELDS]
    if listed and len(others) > 1:
        names = ", ".join(repr(name) for name, column in others if column is not listed[0])
        raise ArgumentError(f"beside a list of fields there are no other columns: {names}")
    if listed:
        return _packed_lists(listed[0], given)
    _check_left_out(columns, asked=ids == "columns")
    if batch.num_rows == 0:
        return []
    named = [(_field_name(name), _buffers(_as_binary(column, name))) for name, column in others]
    return pack_columns(named, batch.num_rows, given)


def stored(batch: "pa.RecordBatch") -> "pa.RecordBatch":
    """The same rows with each value as the bytes that `pack` makes of it; IDs and lists of fields as they are.

    Raises:
        ArgumentError, ArgumentTypeError: a column that no field can have: see `Stream.add_arrow`.
    """
    pa, _ = _arrow()
    named = zip(batch.schema.names, batch.columns, strict=True)
    columns = [
        column if name in _NO_FIELDS or (name == _FIELDS and _is_list(column.type)) else _as_binary(column, name)
        for name, column in named
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def value_bytes(batch: "pa.RecordBatch") -> int:
    """How many bytes the values of a batch have, which is as `stored` makes it: without names and IDs."""
    _, pc = _arrow()
    columns = list(zip(batch.schema.names, batch.columns, strict=True))
    lists = [_as_lists(column) for name, column in columns if name == _FIELDS and _is_list(column.type)]
    values = [_as_binary(_parts_of(column)["value"], "fields.value") for column in lists]
    values = values or [column for name, column in columns if name not in _NO_FIELDS]
    return sum(pc.sum(pc.binary_length(column)).as_py() or 0 for column in values)


def _check_left_out(columns: list[tuple[str, Any]], *, asked: bool) -> None:
    """Looks for columns that would go without a word: an order's `id`, say, which nobody meant for the entry's.

    What reads and exports give beside fields may go: an ID once more, its time, and in front of it the stream's name.
    So may ``ts`` beside ``field:ts``.

    Args:
        columns: of a batch without a list of fields.
        asked: whether the IDs are taken from columns.

    Raises:
        ArgumentError: there is one.
    """
    names, by_name = [name for name, _ in columns], dict(columns)
    in_parts = {"id_ms", "id_seq"} <= by_name.keys()
    has_ids = in_parts or (asked and "id" in by_name)
    first = names.index("id_ms" if in_parts else "id") if has_ids else 0
    for place, (name, column) in enumerate(columns):
        if name not in ("id", "stream", "ts") or _PREFIX + name in by_name:
            continue
        if name == "id":
            may_go = _is_id_of(column, by_name) if in_parts else asked
        elif name == "ts":
            may_go = has_ids and _is_time_of(column, by_name, in_parts=in_parts)
        else:
            may_go = place < first
        if not may_go:
            ids = " give ids='columns' if it is the entry's ID," if name == "id" and not (asked or in_parts) else ""
            raise ArgumentError(
                f"the column {name!r} would not be added, as the name stands for part of an entry: call it "
                f"'{_PREFIX}{name}' if it is a field,{ids} and leave it out of the batch otherwise"
            )


def _is_id_of(column: Any, by_name: dict[str, Any]) -> bool:
    """Whether a column has the IDs once more, as text."""
    pa, pc = _arrow()
    try:
        parts = [by_name[name].cast(pa.uint64()).cast(pa.string()) for name in ("id_ms", "id_seq")]
        return bool(column.cast(pa.string()).equals(pc.binary_join_element_wise(*parts, "-")))
    except pa.ArrowException:
        return False


def _is_time_of(column: Any, by_name: dict[str, Any], *, in_parts: bool) -> bool:
    """Whether a column has the times of the IDs once more; a read gives null for those that no timestamp can hold."""
    pa, pc = _arrow()
    if not pa.types.is_timestamp(column.type):
        return False
    try:
        ms = by_name["id_ms"] if in_parts else pc.replace_substring_regex(by_name["id"], "-.*", "")
        times = column.cast(pa.timestamp("ms")).cast(pa.int64()).cast(pa.uint64(), safe=False)
        return bool(pc.all(pc.equal(times, ms.cast(pa.uint64())), min_count=0).as_py())
    except pa.ArrowException:  # finer than milliseconds, or no ID
        return False


def _is_list(kind: Any) -> bool:
    pa, _ = _arrow()
    types = pa.types
    return bool(
        types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind) or types.is_map(kind)
    )


def _field_name(column: str) -> bytes:
    bare = column.removeprefix(_PREFIX)
    return (bare if bare in (*_NO_FIELDS, _FIELDS) else column).encode()


def column_of(field: str) -> str:
    """The column of which `pack` makes this field.

    Raises:
        ArgumentError: there is none.
    """
    column = _PREFIX + field if field in (*_NO_FIELDS, _FIELDS) else field
    if _field_name(column) != field.encode():
        raise ArgumentError(f"no column stands for the field {field!r}: give it in a column fields, a list of fields")
    return column


def _as_binary(column: Any, name: str) -> Any:
    """A column's values as bytes, with offsets of 32 or 64 bits."""
    pa, _ = _arrow()
    types, kind = pa.types, column.type
    try:
        if types.is_binary(kind) or types.is_large_binary(kind):
            return column
        if types.is_large_string(kind) or types.is_binary_view(kind):  # which as text would have to be UTF-8
            return column.cast(pa.large_binary())
        if types.is_dictionary(kind):
            return _as_binary(column.dictionary_decode(), name)
        if isinstance(kind, pa.BaseExtensionType):
            return _as_binary(column.storage, name)
        if types.is_nested(kind) or types.is_duration(kind) or types.is_interval(kind):
            raise ArgumentTypeError(f"the column {name!r} is {kind}, of which no field can be made: cast it first")
        if types.is_timestamp(kind):
            _check_years(column, _UNITS[kind.unit], name)
            return _timestamps(column).cast(pa.binary())
        if types.is_date(kind):
            _check_years(column, _UNITS["ms"] if types.is_date64(kind) else None, name)
        if types.is_decimal(kind):
            return _decimals(column).cast(pa.binary())
        if not (types.is_string(kind) or types.is_fixed_size_binary(kind) or types.is_null(kind)):
            column = column.cast(pa.string())
        return column.cast(pa.binary())
    except pa.ArrowNotImplementedError as error:
        raise ArgumentTypeError(f"the column {name!r} is {kind}, of which no field can be made: {error}") from None
    except pa.ArrowInvalid as error:
        raise ArgumentError(f"the column {name!r} cannot be written as text: {error}") from None


def _check_years(column: Any, per_second: int | None, name: str) -> None:
    """Looks whether times can be read back: Arrow writes years of five digits as no parser takes them, and from 32768
    on, or before -32767, others than they are, without a word.

    Args:
        column: timestamps or dates.
        per_second: their unit; None: days.
        name: of the column.

    Raises:
        ArgumentError: one is not in the years 0000 to 9999.
    """
    pa, pc = _arrow()
    ends = pc.min_max(column.cast(pa.int32() if per_second is None else pa.int64())).as_py()
    for each in ends.values():
        if each is None:
            return
        days = each if per_second is None else each // (per_second * _DAY_S)
        if not _FIRST_DAY <= days <= _LAST_DAY:
            raise ArgumentError(
                f"the column {name!r} holds a time of {_day(days)}, and only the years 0000 to 9999 can be read back; "
                "were milliseconds taken for seconds? If it is what is meant, write it as a number or as text"
            )


def _day(days: int) -> str:
    """A day of any year; Python's own dates end with 9999."""
    cycles, rest = divmod(days - _FIRST_DAY, _CYCLE_DAYS)
    day = date(_CYCLE_YEARS, 1, 1) + timedelta(rest)
    year = (cycles - 1) * _CYCLE_YEARS + day.year
    return f"{year:0{4 + (year < 0)}}-{day:%m-%d}"


def _timestamps(column: Any) -> Any:
    """ISO 8601, in UTC where there is a time zone."""
    pa, pc = _arrow()
    if column.type.tz is not None:
        column = column.cast(pa.timestamp(column.type.unit, "UTC"))
    return pc.replace_substring(column.cast(pa.string()), " ", "T", max_replacements=1)


def _decimals(column: Any) -> Any:
    """Plain digits. Arrow writes some as 1E-7: small ones, zero with many places, those of a negative scale."""
    pa, pc = _arrow()
    text = column.cast(pa.string())
    if not pc.any(pc.match_substring(text, "E")).as_py():
        return text
    # One by one, but each that is different only once: a column full of zeros is one of these.
    known = text.dictionary_encode()
    plain = [None if value is None else format(value, "f") for value in _distinct(known.dictionary)]
    return pa.array(plain, pa.string()).take(known.indices)


def _distinct(texts: Any) -> list[Any]:
    from decimal import Decimal

    return [None if text is None else Decimal(text) for text in texts.to_pylist()]


def _buffers(column: Any) -> _Column:
    """The bytes of a binary column, as far as its rows reach."""
    pa, _ = _arrow()
    if len(column) == 0:
        return bytes(4), False, b"", None, 0, 0
    wide = bool(pa.types.is_large_binary(column.type))
    size = 8 if wide else 4
    validity, words, data = column.buffers()
    offsets = words.slice(column.offset * size, (len(column) + 1) * size).to_pybytes()
    start, end = int.from_bytes(offsets[:size], "little"), int.from_bytes(offsets[-size:], "little")
    body = b"" if data is None else data.slice(start, end - start).to_pybytes()
    if validity is None or column.null_count == 0:
        return offsets, wide, body, None, start, 0
    first, bit = divmod(column.offset, 8)
    bits = validity.slice(first, (bit + len(column) + 7) // 8).to_pybytes()
    return offsets, wide, body, bits, start, bit


def _as_lists(column: Any) -> Any:
    """A column of maps as one of lists of fields; any other as it is."""
    pa, _ = _arrow()
    if not pa.types.is_map(column.type):
        return column
    struct = pa.struct([("name", column.type.key_type), ("value", column.type.item_type)])
    return column.cast(pa.list_(struct))


def _parts_of(column: Any) -> dict[str, Any]:
    """The names and the values in a column of lists of fields, one list behind the other."""
    pa, _ = _arrow()
    wanted = ("name", "value")
    pairs = column.flatten()  # without what null lists may hide
    kind = pairs.type
    parts = dict(zip((field.name for field in kind), pairs.flatten(), strict=True)) if pa.types.is_struct(kind) else {}
    if tuple(sorted(parts)) != wanted:
        raise ArgumentTypeError(f"the column 'fields' is {column.type}: its structs have a name and a value")
    return parts


def _packed_lists(column: Any, given: _IDsGiven | None) -> list[PackedRows]:
    pa, pc = _arrow()
    if len(column) == 0:
        return []
    column = _as_lists(column)
    parts = _parts_of(column)
    names, values = (_buffers(_as_binary(parts[part], f"fields.{part}")) for part in ("name", "value"))
    lengths = pc.fill_null(pc.list_value_length(column), 0).cast(pa.uint32())
    ends = pc.cumulative_sum_checked(lengths)
    bounds = bytes(4) + ends.buffers()[1].slice(ends.offset * 4, len(ends) * 4).to_pybytes()
    return pack_pairs(bounds, names, values, len(column), given)


def _given_ids(columns: list[tuple[str, Any]]) -> _IDsGiven:
    pa, _ = _arrow()
    found = [(name, column) for name, column in columns if name in _IDS]
    by_name = dict(found)
    if len(by_name) != len(found):
        raise ArgumentError("two columns of IDs have one name")
    if "id_ms" in by_name and "id_seq" in by_name:
        return _words(by_name["id_ms"], "id_ms"), _words(by_name["id_seq"], "id_seq")
    if "id" not in by_name:
        raise ArgumentError("ids='columns' wants the columns id_ms and id_seq, or id")
    kind = by_name["id"].type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        raise ArgumentTypeError(f"the column 'id' is {kind}, not text")
    return _buffers(_as_binary(by_name["id"], "id"))


def _words(column: Any, name: str) -> bytes:
    """Numbers as little-endian words of 64 bits; negative ones keep their bits."""
    pa, pc = _arrow()
    if column.null_count:
        raise ArgumentError(f"row {pc.index(column.is_null(), True).as_py()} has no ID: {name} is null")
    if pa.types.is_decimal(column.type):  # what Spark makes of unsigned numbers
        try:
            column = column.cast(pa.uint64())
        except pa.ArrowInvalid as error:
            raise ArgumentError(f"the column {name!r} does not hold numbers of 64 bits: {error}") from None
    elif not pa.types.is_integer(column.type):
        raise ArgumentTypeError(f"the column {name!r} is {column.type}, not a number of 64 bits")
    elif column.type not in (pa.int64(), pa.uint64()):
        column = column.cast(pa.int64())
    if len(column) == 0:
        return b""
    data = column.buffers()[1]
    words: bytes = data.slice(column.offset * 8, len(column) * 8).to_pybytes()
    return words
